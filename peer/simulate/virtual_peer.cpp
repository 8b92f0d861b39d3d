#include "peer/simulate/virtual_peer.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/cpu_device.h"
#include "base/hash.h"
#include "optim/cpu_flat_ops.h"
#include "peer/roles/pools.h"
#include "peer/roles/role_settings.h"
#include "peer/roles/run_start.h"

namespace starling::peer {

namespace {

constexpr double kStepSecondsMax = 1e9;  // whatever chance says: the clock counts to nine of them

// The arithmetic on flat ranges of one peer; its model's is lent.
Backend lone_backend() {
  auto team = std::make_unique<ThreadTeam>(1);
  auto flat = optim::make_cpu_flat_ops(*team);
  Backend backend;
  backend.device = std::make_unique<CpuDevice>();
  backend.team = std::move(team);
  backend.flat = std::move(flat);
  backend.title = "virtual";
  return backend;
}

std::uint64_t stream_of(std::uint32_t number) { return digest("peer-" + std::to_string(number)); }

}  // namespace

Result<VirtualWorld> open_world(const PeerConfig& config) {
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error();
  auto training = Dataset::open(
      config.data.train, {.vocabulary = config.model.vocabulary, .tokens = config.batch.tokens});
  if (!training.ok()) return std::move(training).error().with_context("data.train");
  auto start = open_start(config.run.start, layout.value(), config.data.train);
  if (!start.ok()) return std::move(start).error().with_context("run.start");
  StripeTable stripes(layout.value());
  return VirtualWorld{config, std::move(layout).value(), std::move(stripes),
                      std::move(training).value(), std::move(start).value().weights};
}

ReadingPlan VirtualWorld::reading(std::uint64_t stream) const {
  return reading_plan(training, config.model.context, {.seed = config.data.seed, .stream = stream});
}

VirtualPeer::VirtualPeer(const VirtualWorld& world, std::uint32_t number, const VirtualPace& pace,
                         Backend backend, Pool floats, Pool payloads)
    : pace_(pace),
      rng_(Rng(world.config.run.seed).fork(stream_of(number))),
      steps_per_second_(pace.speed / to_seconds(pace.step)),
      backend_(std::move(backend)),
      floats_(std::move(floats.memory), floats.slots),
      payloads_(std::move(payloads.memory), payloads.slots),
      rings_(std::max(floats.slots, 1U)),
      source_(world.training, std::nullopt, world.reading(stream_of(number)), rings_,
              metrics_.data) {}

// Not pinned, as in a real peer: then the system gives only the pages that are used.
Result<VirtualPeer::Pool> VirtualPeer::pool(Device& device, std::uint32_t slots,
                                            std::size_t slot_bytes) {
  auto memory = device.allocate(MemoryKind::kDevice, slots * slot_bytes);
  if (!memory.ok()) return std::move(memory).error().with_context("gossip.slots");
  return Pool{std::move(memory).value(), slots};
}

Result<std::unique_ptr<VirtualPeer>> VirtualPeer::create(const VirtualWorld& world,
                                                         std::uint32_t number,
                                                         const VirtualPace& pace,
                                                         std::uint32_t slots) {
  Backend backend = lone_backend();
  const std::size_t parameters = world.stripes.parameters_max();
  auto floats = pool(*backend.device, slots, float_slot_bytes(parameters));
  if (!floats.ok()) return std::move(floats).error();
  auto payloads = pool(*backend.device, slots, payload_slot_bytes(parameters));
  if (!payloads.ok()) return std::move(payloads).error();
  std::unique_ptr<VirtualPeer> peer(new VirtualPeer(world, number, pace, std::move(backend),
                                                    std::move(floats).value(),
                                                    std::move(payloads).value()));
  TrainerConfig config = trainer_config(world.config, slots > 0);
  config.tokens_budget = std::numeric_limits<std::uint64_t>::max();  // the swarm has one
  config.checkpoint_every_steps = config.validate_every_steps = 0;
  config.slow_down_factor = 1;
  config.own_model = false;
  config.micro_batch = 0;  // the model that is lent has room for all
  auto trainer = Trainer::create(config, world.layout, world.stripes, peer->backend_, peer->source_,
                                 peer->floats_, peer->rings_, peer->metrics_);
  if (!trainer.ok()) return std::move(trainer).error();
  peer->trainer_ = std::move(trainer).value();
  if (!world.start.empty()) peer->trainer_->start_from(world.start);
  return peer;
}

std::span<const float> VirtualPeer::weights() const {
  const auto weights = trainer().weights();
  return {weights.data, weights.size};
}

Duration VirtualPeer::draw_step(Instant now) {
  while (pace_.change_factor > 1 && now >= next_change_) {
    slower_ = std::pow(pace_.change_factor, rng_.unit());
    next_change_ += rng_.exponential(pace_.change_every, std::chrono::milliseconds(1));
  }
  double seconds = slower_ * to_seconds(pace_.step) / pace_.speed;
  if (pace_.jitter > 0) {
    seconds *= std::exp(pace_.jitter * rng_.normal() - pace_.jitter * pace_.jitter / 2);
  }
  const Duration step = std::max(from_seconds(std::min(seconds, kStepSecondsMax)), Duration(1));
  steps_per_second_ = rate_.add(1, to_seconds(step));
  return step;
}

}  // namespace starling::peer
