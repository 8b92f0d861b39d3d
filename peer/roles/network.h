// Network: the role that owns the sockets and the protocol core (both inside AsioDriver), carries
// orders to the mixer and its answers back, tells the trainer the swarm's token clock, writes the
// metrics and ends the run: after the trainer has spent its budget it keeps offering fragments for
// a while (closing), so that the peers come together, and then leaves.
//
// A peer that trains alone (outer.method = "local") has no driver: then this role only carries
// metrics and checkpoints. Thread: its own Boost.Asio loop; wake() and the flags from anywhere.
// Does no arithmetic on weights and does not look inside payloads.
#pragma once

#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "gossip/driver.h"
#include "gossip/net/asio_driver.h"
#include "gossip/token_bucket.h"
#include "peer/config/traffic_plan.h"
#include "peer/files/disk.h"
#include "peer/files/key_files.h"
#include "peer/io/clock.h"
#include "peer/roles/code_choice.h"
#include "peer/roles/mixer.h"
#include "peer/roles/pace_watch.h"
#include "peer/roles/parcels.h"
#include "peer/roles/part_feed.h"
#include "peer/roles/swarm_health.h"
#include "peer/roles/trainer.h"
#include "peer/states/state_desk.h"
#include "peer/status/exchange_log.h"
#include "peer/status/status.h"
#include "peer/status/status_lines.h"

namespace starling::peer {

struct NetworkConfig {
  std::string peer_name;
  std::string checkpoint;  // that it goes on from; empty: none
  std::vector<gossip::PeerAddress> seeds;
  std::filesystem::path allow_list;            // read again when it changes; empty: none
  Duration closing = std::chrono::seconds(5);  // how long fragments are offered after training
  std::uint64_t tokens_budget = 0;
  // The learning rate is at its floor when the swarm has trained what this peer is to train alone.
  bool early_floor = false;
  // Where training ends with a higher one, the schedule was made for more tokens than came
  // together. Infinite: it never falls.
  double end_rate_max = std::numeric_limits<double>::infinity();
  double schedule_tokens = 0;
  std::uint64_t tokens_before = 0;  // trained in earlier lives; the restored token map has them
  std::uint64_t metrics_every_steps = 1;
  bool status_lines = false;  // one line of JSON a second on standard output; ends with stdin
  std::string device;         // what this peer computes on, for others to read
  // Wire formats: where [bandwidth] holds exchanges back, and otherwise; empty: always the same.
  struct FewerBits {
    std::uint8_t code = 0, configured = 0;
    double ratio = 1;  // of the configured one's bits to the other's
  };
  std::optional<FewerBits> fewer_bits;
  HealthLimits health;
};

// How the roles tell each other that the end is near. Raised once, in this order.
struct Ending {
  Flag stop;     // a signal came: no more training, no closing
  Flag closed;   // exchanges have ended: the trainer may send its final image
  Flag written;  // the final checkpoint is on disk, or could not be written: everybody may go
};

// What the network role does with what is not its own. Called on its thread.
struct NetworkOutlets {
  std::function<void(const nlohmann::json& line)> metrics;           // of metrics.jsonl
  std::function<void(std::string line)> event;                       // one JSON line
  std::function<void(std::string lines)> traffic;                    // of TrafficPlan
  std::function<void(std::unique_ptr<CheckpointImage>)> checkpoint;  // to the disk role
  std::function<DiskStats()> disk;  // how the disk role fares; empty: nobody knows
  std::function<void(nlohmann::json report)> status;  // once a second; empty: nobody looks
};

class Network final : public gossip::MixerPort, public gossip::EventSink {
 public:
  Network(const NetworkConfig& config, Rings& rings, TrainerMetrics& trainer,
          const MixerMetrics& mixer, Ending& ending, NetworkOutlets outlets);
  ~Network() override;

  // Before run(): the swarm's side; without it the peer trains alone. `date`: the plan goes by it.
  void attach(gossip::Core core, gossip::ZmqLink link, const gossip::DriverLimits& limits,
              TrafficPlan plan, Date date);
  // Before run(), attached: whole states are kept there; `fetch`: this peer may need one.
  void keep_states(StateDesk& desk, const std::optional<gossip::FetchState>& fetch);

  void run();   // until the final checkpoint is written
  void wake();  // any thread: the mixer has something for us
  // Any thread: it was written. `last`: at the end.
  void note_checkpoint(std::string path, const TrainerProgress& progress, bool last);
  bool join_ended() const { return join_ended_.raised(); }  // any thread
  // When it has: how, and what the swarm had trained by then.
  const gossip::JoinEnded& join_result() const { return join_result_; }
  const std::vector<gossip::TokenEntry>& join_tokens() const { return join_tokens_; }
  double join_clock() const { return join_clock_; }

  bool try_submit(gossip::MixerOrder& order, Bytes& payload) override;
  void on_exchange_ended(const gossip::ExchangeEnded& event) override;
  void on_peer_changed(const gossip::PeerChanged& event) override;
  void on_refused(const gossip::Refused& event) override;
  void on_join_event(const gossip::JoinEvent& event) override;
  void on_join_ended(const gossip::JoinEnded& event) override;
  void on_rejected(const gossip::Rejected& event) override;
  void on_muted(const gossip::Muted& event) override;
  void on_swarm_changed(const gossip::SwarmChanged& event) override;
  void on_relay_changed(const gossip::RelayChanged& event) override;
  void on_tokens_clipped(const gossip::TokensClipped& event) override;
  void on_footing_changed(const gossip::FootingChanged& event) override;

  // After run(): why this peer had to stop; empty if it did not have to.
  const std::string& sickness() const noexcept { return sickness_; }

 private:
  static constexpr double kLinesPerSecond = 10, kLinesAtOnce = 4000;

  // network.cpp: start, the driver's seams, the mixer's answers, the tick, the end
  void watch_signals();
  void watch_input();
  void on_tick();
  void drain_mixer();
  void take(FragmentPublished& published);
  void take(Encoded& encoded);
  void take(Staged& staged);
  void take(Applied& applied);
  void take(Compensated& compensated);
  void take(std::unique_ptr<CheckpointImage>& image);
  void drain_reports();
  void note_event(const char* kind, nlohmann::json event);  // a line of events.jsonl
  void tell_start();
  void tell_end(const char* why);
  void warn_of_high_end();
  void offer_again();
  void advance_ending(Instant now);

  // network_conduct.cpp: peers that misbehave
  // For people: by its name in the allow-list, where it has one.
  std::string called(PeerId peer) const;
  bool may_tell(Instant time);  // whether one more line is worth writing
  void take(Sick& sick);
  void watch_losses(const StepReport& report);

  // network_health.cpp: how the swarm does, and alarms
  void watch_health(Instant now, const std::vector<gossip::PeerView>& views);
  std::vector<Alarm> alarms() const;  // what whoever watches should look at
  void add_swarm_alarms(std::vector<Alarm>& list) const;
  void tell_alarms(const std::vector<Alarm>& now_up);
  void warn_if_alone(Instant now);
  void warn_of_early_floor();
  void tell_pace(Instant now);

  // network_join.cpp
  void tell_of_join(Instant now);
  void want_checkpoint(Instant now);  // a newcomer asks for a state; once there is one, nothing

  // network_status.cpp: metrics, status lines and reports
  void tell_status(Instant now);
  void tell_progress(Instant now);
  void write_metrics(const StepReport& step);
  PeerStatus status(Instant now) const;
  nlohmann::json counters() const;
  nlohmann::json report(const PeerStatus& current, Instant now,
                        const std::vector<gossip::PeerView>& views,
                        const std::vector<Alarm>& up) const;
  void add_peers(nlohmann::json& report, Instant now,
                 std::span<const gossip::PeerView> views) const;

  // network_traffic.cpp: what the line's owner allows
  void watch_traffic(Instant now);
  void count_traffic(WallTime date, bool last);
  void fit_codes(Instant now);
  std::uint64_t bytes_out() const;
  std::uint64_t bytes_in() const;

  // network_trust.cpp: refusals, reachability, the allow-list
  void tell_reachability(Instant now);
  void reload_allow_list(Instant now);

  const NetworkConfig config_;
  Rings& rings_;
  TrainerMetrics& trainer_;
  const MixerMetrics& mixer_;
  Ending& ending_;
  const NetworkOutlets outlets_;

  boost::asio::io_context io_;
  boost::asio::steady_timer tick_, once_more_{io_};
  boost::asio::signal_set signals_;
  boost::asio::posix::stream_descriptor input_;
  std::array<char, 64> typed_{};  // what comes on standard input means nothing, its end does
  StatusLines status_lines_{STDOUT_FILENO};
  std::optional<gossip::AsioDriver> driver_;  // absent: trains alone
  std::optional<TrafficPlan> plan_;           // with the driver
  Date date_;                                 // likewise
  TrafficPlan::Verdict verdict_ = TrafficPlan::Verdict::kOpen;
  std::optional<CodeChoice> code_choice_;  // from its first look on
  bool fewer_bits_ = false;
  bool paced_before_ = false;
  std::uint64_t exchange_bytes_ = 0;   // of payloads that were made or taken, both directions
  std::uint64_t traffic_counted_ = 0;  // bytes that the plan has heard of
  PartFeed part_feed_{rings_};
  std::map<FragmentId, gossip::FragmentState> published_;
  FragmentId last_offered_;
  std::optional<AllowListWatch> allow_list_;
  std::map<PeerId, std::string> names_;  // as the allow-list has them
  const double started_at_;              // unix time: what the seconds of the logs are counted from
  Instant started_, last_status_, last_company_, last_look_;
  Instant next_line_;  // of the log, that tells how far training is
  Duration line_after_{};
  std::optional<Instant> unreached_since_;
  bool reached_ = false;
  Instant reached_since_;
  bool seed_refused_ = false;  // it answers, and one of the two will not
  bool warned_of_floor_ = false;
  PaceWatch pace_;
  std::optional<Instant> twin_at_;  // when another process of this peer's key was last heard of
  std::optional<Instant> closing_since_, settling_since_, last_exchange_;
  ExchangeLog exchange_log_;
  SwarmHealth health_;
  std::set<std::string> alarms_up_;  // kinds
  std::uint64_t exchanges_ = 0, exchanges_declined_ = 0, exchanges_failed_ = 0, checkpoints_ = 0;
  std::string checkpoint_;
  std::optional<Instant> wanted_at_;  // a checkpoint, for newcomers
  DiskStats disk_;                    // when it was last asked, once a second

  StateDesk* desk_ = nullptr;  // null: no states are kept
  Flag join_ended_;
  // Written before join_ended_ is raised.
  gossip::JoinEnded join_result_;
  std::vector<gossip::TokenEntry> join_tokens_;
  double join_clock_ = 0;
  bool joining_ = false;
  bool join_waits_ = false;  // until the owner allows traffic
  Instant last_join_line_;
  std::uint32_t pieces_told_ = 0;
  std::set<std::pair<PeerId, gossip::StateReason>> declined_;  // what was told to the user
  std::string sickness_;
  int bad_steps_ = 0;  // in a row, whose loss or gradient was not finite
  // By reason: what we turned down, what others turned down of ours.
  std::array<std::uint64_t, gossip::kRejectReasons> rejections_{}, rejections_heard_{};
  std::uint64_t mutes_ = 0, mutes_heard_ = 0;
  // Of what others can bring about at will, in log and event file.
  gossip::TokenBucket lines_{kLinesPerSecond, kLinesAtOnce, Instant{}};
  std::uint64_t untold_ = 0;
};

}  // namespace starling::peer
