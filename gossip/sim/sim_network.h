// SimNetwork: the driver of Core that finds faults. One thread, virtual time, one seed, many real
// cores.
//
// It owns the cores and around each a simulated process: a mixer on integers, a trainer with a
// clock of its own, checkpoints. Messages go through SimTransport; processes crash, restart from a
// checkpoint, pause, leave and come late. Every order and every answer is audited. heal() ends all
// faults: from there on liveness is owed. Hostile members run the same processes, but what they say
// passes through a SimHostile. The run is a function of SimOptions, and trace_hash()
// tells two runs apart.
//
// Peers are numbered from 0; their PeerId is one more. With faults.stranger the last peer belongs
// to another training run and must stay outside. Violations of safety are collected as sentences;
// a failed assertion of the core aborts. Thread: one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossip/core.h"
#include "gossip/sim/sim_audit.h"
#include "gossip/sim/sim_graves.h"
#include "gossip/sim/sim_hostile.h"
#include "gossip/sim/sim_keeper.h"
#include "gossip/sim/sim_mixer.h"
#include "gossip/sim/sim_options.h"
#include "gossip/sim/sim_queue.h"
#include "gossip/sim/sim_stats.h"
#include "gossip/sim/sim_transport.h"

namespace starling::gossip {

class SimNetwork {
 public:
  explicit SimNetwork(const SimOptions& options);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // --- the run ---
  void run_for(Duration duration);
  void heal();  // faults off, everybody reachable, who is to return returns now
  // Nothing gets through where `cut` says so, until mend(), which nobody is told of.
  void partition(const std::function<bool(Route)>& cut) { transport_.partition(cut); }
  void mend() { transport_.mend(); }
  void close_exchanges();  // every core: no new ones
  // After settled(): the books must balance, exactly.
  void audit();

  // --- liveness ---
  bool membership_agrees() const;  // every live peer knows exactly the live peers as alive
  bool everybody_mixed() const;    // every live peer took part in a completed exchange since heal()
  bool settled() const;            // no lease held, no stripe in doubt, no order or delta kept
  std::string unsettled() const;   // who is in the way of the three above

  // --- observers ---
  Instant now() const { return now_; }
  const SimStats& stats() const { return stats_; }
  std::uint64_t trace_hash() const { return trace_; }
  const std::vector<std::string>& violations() const { return audit_.violations(); }
  std::vector<std::uint32_t> live() const;  // members with a running process
  bool fetching(std::uint32_t peer) const { return processes_[peer].fetching; }
  std::size_t under_way() const { return parcels_.size() - free_parcels_.size(); }  // messages
  const Core& core(std::uint32_t peer) const;
  // Between the live peers' estimates of the swarm's tokens: (most - least) / most.
  double token_spread() const;
  // How far the highest estimate of an honest live peer is above what the honest have trained, as a
  // share of that; negative: below.
  double token_excess() const;
  // The longest that an honest peer took another one, which lived, for dead.
  Duration longest_burial() const;
  // Sum over live peers and all values of the squared distance to the mean.
  double disagreement() const;

 private:
  static constexpr Duration kLookAtReachEvery = std::chrono::minutes(1);

  enum class Fault : std::uint8_t {
    kBreak,
    kPartition,
    kCrash,
    kPause,
    kLeave,
    kRegion,
    kClog,
    kRebind
  };
  enum class Fate : std::uint8_t { kUnborn, kUp, kDown, kGone };
  struct Checkpoint {
    SimMixer::Cut mixer;
    SimAudit::Cut audit;
    std::vector<TokenEntry> tokens;
    std::uint64_t number = 0;     // of all that were made; zero: the birth
    std::uint64_t trained = 0;    // tokens, by this peer
    std::uint64_t inherited = 0;  // tokens behind the weights it once began with
    WeightsAge age{};             // by the clock of the swarm
  };
  struct Process {
    Fate fate = Fate::kUnborn;
    bool paused = false;
    Instant paused_at;
    bool starved = false;  // runs a moment, then not for a while, all the time
    Versions versions;     // of the wire
    double clock = 1;      // its seconds per true second
    bool leaving = false;
    bool reached = false;                      // lately, by a connection of somebody else's
    Instant called_at;                         // last, or its start
    bool volunteers = false;                   // forwards for others
    std::map<std::uint32_t, RelayPath> paths;  // to whom it sends through a relay
    std::set<PeerId> forwards_for;
    std::uint32_t life = 0;  // starts so far
    StandInSeal seal{PeerId{}};
    std::optional<Core> core;
    std::optional<SimMixer> mixer;
    std::unique_ptr<SimHostile> hostile;  // null: it is honest
    Rng rng{0};
    std::vector<Checkpoint> checkpoints;  // oldest first; the first is its birth
    std::vector<SimEvent> deferred;       // while paused
    std::optional<Instant> armed;
    std::uint32_t ticket = 0;  // of the armed timer
    Instant last_deadline;
    std::uint32_t deadlines_at_once = 0;
    Instant mixer_free;
    Duration period{};  // of the trainer
    std::uint64_t published = 0;
    std::uint64_t tokens = 0;  // of this life
    std::uint64_t trained_before = 0, inherited = 0;
    bool fetching = false;             // another's state; does not train or mix before that ends
    std::uint32_t orders_waiting = 0;  // for the mixer to begin
    Instant keeper_free;
    std::optional<SimKeeper> keeper;
    std::uint64_t completed_since_heal = 0;
  };
  struct Envelope {
    Route route;                // from end to end; a relay is between
    std::uint64_t process = 0;  // of its reader: no other life of it can open it
  };
  struct Said {
    const Message& message;
    const SimPayload* payload;
    std::optional<Envelope> envelope;
    bool unreadable = false;
  };
  struct Parcel {
    Route route;
    std::optional<Envelope> envelope;
    Shipment shipment;
    bool first_try = true;
    bool damaged = false;     // on its way
    bool unreadable = false;  // as it was sent
    Message message;
    SimPayload payload;
  };
  // A state that was offered.
  struct Given {
    std::uint32_t donor = 0;
    bool forged = false;
    std::vector<StripeValues> values;
  };
  struct Perform;

  // sim_network.cpp: events and processes
  void handle(const SimEvent& event);
  void handle_in_process(const SimEvent& event);
  void at(Instant when, SimEventKind kind, std::uint32_t peer, std::uint32_t detail = 0);
  void start(std::uint32_t peer);
  void draw_hostile();
  void train(std::uint32_t peer);
  void mix(std::uint32_t peer);
  void take_checkpoint(std::uint32_t peer);
  void on_deadline(std::uint32_t peer, std::uint32_t ticket);
  void on_reached(std::uint32_t peer);
  void look_at_reach(std::uint32_t peer);
  bool is_called(std::uint32_t peer) const;
  PeerAddress address_of(std::uint32_t peer) const;
  Instant local_now(const Process& process) const;  // by its own clock
  Instant true_time(const Process& process, Instant local) const;
  bool member(std::uint32_t peer) const;
  bool hostile(PeerId id) const;

  // sim_driver.cpp: between a core and the rest
  void drain(std::uint32_t peer, const SimPayload* at_hand);  // after every input
  void arm(std::uint32_t peer);
  void submit(std::uint32_t peer, const MixerOrder& order, const SimPayload* payload);
  void connect(std::uint32_t peer, const Connect& wish);
  void note_said(Route route, const Message& message);
  void send_connected(Route route, const Message& message, const SimPayload* payload);
  void ship(Route route, const Said& said);
  void say(Route route, const Message& message, const SimPayload* payload);
  void say_all(std::uint32_t peer, const std::vector<SimSaid>& said);
  void do_deeds(std::uint32_t peer);
  void deliver(const SimEvent& event);
  void arrive(const Parcel& parcel);
  bool both_behind_nat(const ExchangeKey& exchange) const;
  void note_ended(std::uint32_t peer, const ExchangeEnded& event);
  void note_rejected(std::uint32_t peer, const Rejected& event);
  void note_changed(std::uint32_t peer, const PeerChanged& event);
  void note_muted(std::uint32_t peer, const Muted& event);

  // sim_relayed.cpp
  void send(Route route, const Message& message, const SimPayload* payload);
  void take_path(std::uint32_t peer, std::uint32_t to, const RelayPath& path);
  void forward_for(std::uint32_t relay, const RelayFor& wish);
  Route first_leg(Route route) const;
  void forward(std::uint32_t relay, const Parcel& parcel);
  void open(std::uint32_t relay, const Parcel& parcel);

  // sim_states.cpp: newcomers and their donors
  void begin_fetch(std::uint32_t peer);
  void begin_work(std::uint32_t peer, bool fetched);
  void keep(std::uint32_t peer, const StateOrder& order, const SimPayload* payload);
  void work_keeper(std::uint32_t peer);
  std::optional<SimKeeper::Snapshot> newest_state(std::uint32_t peer);
  void note_join(std::uint32_t peer, const JoinEvent& event);
  void note_join_ended(std::uint32_t peer, const JoinEnded& event);
  void adopt(std::uint32_t peer, const JoinEnded& event);
  bool check_fetched(std::uint32_t peer, std::size_t stripe, const SimKeeper::Stripe& fetched);

  // sim_wire.cpp
  Versions draw_versions(Rng rng) const;
  std::vector<std::byte> frame_of(Route route, const Message& message) const;
  bool reads_back(Route route, const Message& message, std::optional<Message>& read);
  void take_bad_frame(Route route, RejectReason reason);
  void take_damaged(const Parcel& parcel);

  // sim_faults.cpp
  void schedule(Fault fault);
  void strike(Fault fault);
  std::optional<std::uint32_t> draw_victim();
  void crash(std::uint32_t peer);
  void crash_region();
  void clog();
  void pause(std::uint32_t peer, Duration length);
  void starve(std::uint32_t peer);
  void resume(std::uint32_t peer);
  void leave(std::uint32_t peer);
  void end_process(std::uint32_t peer);
  void stop(std::uint32_t peer, Fate fate);
  void remove_hostile(std::uint32_t peer);
  void choose_checkpoint(std::uint32_t peer);
  void write_to_the_dead(std::uint32_t peer);
  void list_honest(std::uint32_t peer);

  // sim_observe.cpp; empty: they agree
  std::string disagreement_about_members() const;
  std::string disagreement_of_samples() const;
  std::string wrong_about(std::uint32_t peer, std::uint32_t other, const PeerRecord& record) const;

  const SimOptions options_;
  const StripeIndex index_;
  Rng rng_;
  Rng wire_rng_;
  SimTransport transport_;
  SimAudit audit_;
  SimGraves graves_;
  SimQueue queue_;
  std::vector<Process> processes_;
  std::vector<std::unique_ptr<Parcel>> parcels_;
  std::vector<std::uint32_t> free_parcels_;
  SimStats stats_;
  std::map<std::uint64_t, Given> given_;  // by the snapshot's name
  std::uint64_t checkpoints_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Instant> buried_;  // (by, who), since
  std::set<std::pair<std::uint32_t, PeerId>> muted_;                   // (by, who), at least once
  Duration longest_burial_{};
  Instant now_;
  std::uint64_t trace_ = 0;
  bool healed_ = false;
  std::uint64_t said_ = 0;     // messages so far
  bool reads_damage_ = false;  // the input at hand is a frame that the line has damaged
};

}  // namespace starling::gossip
