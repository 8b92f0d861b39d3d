// SimulatedSwarm: many virtual peers in one process and in virtual time. It owns the clock, the
// network, the peers and their lives, has their steps computed by a team of threads, and measures.
// How they come together is the method's (simulate_method.h).
//
// A step is computed at any time between its begin and its end, beside those of other peers: its
// weights do not change meanwhile, and what comes of it is used at its end only. So the run is a
// function of configuration and seed, bit for bit, on any number of threads.
//
// Who joins gets the state of a peer that is there, over the two lines; the fetching itself
// (gossip/state_fetcher.h) is not simulated. Thread: one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/cpu_device.h"
#include "base/thread_team.h"
#include "peer/simulate/simulate_method.h"
#include "peer/simulate/simulate_plan.h"
#include "peer/simulate/virtual_network.h"
#include "peer/simulate/virtual_peer.h"
#include "peer/simulate/virtual_time.h"

namespace starling::peer {

struct SimulatedLoss {
  std::uint32_t peer = 0;
  std::uint64_t steps = 0, tokens = 0;
  std::uint64_t bytes = 0;  // that it sent
  double loss = 0;
};
// One moment of the run.
struct SimulatedMoment {
  double seconds = 0;
  std::uint64_t tokens = 0;                   // of all peers, gone ones too
  std::uint64_t bytes = 0, weight_bytes = 0;  // sent by all
  std::uint64_t weights_away = 0;             // of weight_bytes, to other rooms or regions
  std::uint32_t peers = 0;                    // there, hostile ones not counted
  // Held-out, of their mean or of the model that the method keeps; without any of them: infinite.
  double loss = 0;
  double disagreement = 0;  // of their weights with the mean's, relative (RMS)
  std::vector<SimulatedLoss> single{};
};
// A peer's life.
struct SimulatedLife {
  std::uint32_t peer = 0;
  double speed = 1;
  double seconds = 0;       // that it was there
  double goodput = 0;       // share of them in which it trained
  double idle_seconds = 0;  // the others
  std::uint64_t steps = 0, tokens = 0;
  VirtualTraffic traffic;
  ExchangeCounts exchanges;
};

class SimulatedSwarm {
 public:
  static Result<std::unique_ptr<SimulatedSwarm>> create(const VirtualWorld& world,
                                                        const SimulatePlan& plan, int threads);
  ~SimulatedSwarm();

  // To the end; `listener` hears of every moment that is measured.
  Status run(const std::function<void(const SimulatedMoment&)>& listener);
  std::vector<SimulatedLife> lives() const;
  SimulatedMethod& method() noexcept { return *method_; }
  // Why it ended: nobody trained any more; the mean's loss was no number any more; or neither.
  bool stalled() const noexcept { return stalled_; }
  bool diverged() const noexcept { return diverged_; }

  // --- for the method ---
  const PeerConfig& config() const noexcept { return world_.config; }
  const VirtualWorld& world() const noexcept { return world_; }
  Instant now() const noexcept { return time_.now(); }
  void at(Instant when, std::function<void()> action) { time_.at(when, std::move(action)); }
  VirtualNetwork& network() noexcept { return network_; }
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(rows_.size()); }
  bool lives(std::uint32_t peer) const noexcept { return rows_[peer].fate == Fate::kUp; }
  VirtualPeer& peer(std::uint32_t peer) noexcept { return *rows_[peer].peer; }
  // Trained by all before this moment: the same for all that look at it.
  std::uint64_t tokens_before_now() const noexcept {
    return now() > last_update_ ? tokens_ : tokens_before_;
  }
  // Its next step, from its weights as they are; none where the run's tokens are trained.
  void begin_step(std::uint32_t peer);
  // Lets AdamW use the gradients of the step that is over. `counts`: the peer has trained for it.
  void update(std::uint32_t peer, bool counts = true);
  // To be changed now; a step under way goes on from what they were.
  std::span<float> weights(std::uint32_t peer);
  std::span<float> gradients(std::uint32_t peer);
  std::vector<std::uint32_t> living() const;
  // What a newcomer would be given.
  std::unique_ptr<CheckpointImage> state_for_newcomer(std::uint32_t donor);

 private:
  enum class Fate : std::uint8_t { kUnborn, kFetching, kUp, kGone };
  struct Row {
    Fate fate = Fate::kUnborn;
    std::unique_ptr<VirtualPeer> peer;
    Instant born, gone, step_began;
    Duration step{};  // of the one under way; zero: none
    Duration trained{};
    std::uint64_t steps = 0;                   // of its own
    bool computes = false;                     // and its gradients are not there yet
    std::unique_ptr<CheckpointImage> fetched;  // on its way
  };
  // What computes on one thread.
  struct Bench {
    CpuDevice device;
    ThreadTeam team{1};
    std::unique_ptr<model::LayerOps> layers;
    std::optional<model::Llama> llama;
    std::vector<std::int32_t> inputs, targets;
  };

  SimulatedSwarm(const VirtualWorld& world, const SimulatePlan& plan, int threads);
  Status make_benches();
  Status bear(std::uint32_t peer);
  bool does(SimulatedMisdeed misdeed, std::uint32_t peer) const;
  std::vector<std::uint32_t> living_honest() const;
  Status start(std::uint32_t peer, const CheckpointImage* joined);
  void happen(const Happening& happening);
  void join(std::uint32_t peer);
  void end(std::uint32_t peer, bool crashed);
  void compute_pending();
  bool finish();
  void evaluate_regularly();
  void tell();
  SimulatedMoment measure();
  void average(std::span<const std::uint32_t> peers);
  double disagreement(std::span<const std::uint32_t> peers) const;
  double validate(Bench& bench, std::span<const float> weights);
  void note(Status status);

  const VirtualWorld& world_;
  const SimulatePlan& plan_;
  ThreadTeam team_;
  std::vector<std::unique_ptr<Bench>> benches_;  // one for each thread
  std::optional<Dataset> held_out_;
  std::optional<ValidationBatches> validation_;
  VirtualTime time_;
  VirtualNetwork network_;
  Rng rng_;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> pending_;  // began a step that is not computed
  std::unique_ptr<SimulatedMethod> method_;
  std::function<void(const SimulatedMoment&)> listener_;
  std::vector<float> mean_;
  std::vector<float> held_;          // by who is hostile that way
  std::uint64_t tokens_ = 0;         // trained by all
  std::uint64_t tokens_before_ = 0;  // before the last moment at which anybody did
  Instant last_update_;
  Instant told_at_;
  std::uint64_t told_tokens_ = 0;
  std::uint32_t joined_ = 0, partitions_ = 0;  // so far
  bool finishing_ = false;                     // the run's tokens are trained
  bool stalled_ = false;
  bool diverged_ = false;
  std::optional<Error> failure_;
};

}  // namespace starling::peer
