#include "peer/swarm/swarm_plan_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/assert.h"
#include "cuda/device_choice.h"
#include "gossip/wire/wire.h"
#include "peer/config/config_ranges.h"
#include "peer/machine/backend.h"
#include "peer/roles/memory_plan.h"
#include "peer/swarm/shares.h"

namespace starling::peer {

namespace {

constexpr double kUnlimitedMbit = 1e5;
constexpr int kThreadsAssumed = 16;  // of a machine, where device.threads leaves it open

// As the simulator has it, unless it is longer than its clock counts.
double all_reduce_seconds(VirtualNetwork& network, std::span<const std::uint32_t> members,
                          double bytes) {
  constexpr double kCounted = 1e8;
  double slowest = 0;
  for (const std::uint32_t member : members) {
    const VirtualLine& line = network.line(member);
    slowest = std::max(slowest, bytes / std::min(line.upload, line.download));
  }
  if (2 * slowest * static_cast<double>(members.size()) > kCounted) return 2 * slowest;
  const auto summed = network.sum_up(members, static_cast<std::size_t>(bytes));
  return to_seconds(summed.value_or(Duration{}));
}

// A machine is a pipeline of one stage, a sequence a micro-batch.
void deal_common_batch(SwarmPlan& plan, std::int64_t sequences) {
  constexpr double kDealt = 1 << 20;  // kinds times sequences: what takes no time
  const double all = plan.machines * static_cast<double>(sequences);
  if (all * static_cast<double>(plan.kinds.size()) > kDealt) return;
  std::vector<PipelineKind> kinds;
  for (const MachinePlan& kind : plan.kinds) {
    kinds.push_back({.seconds = kind.step_seconds, .stages = 1, .count = kind.machine.count});
  }
  const auto dealt = pipeline_batches(kinds, static_cast<std::uint32_t>(all));
  if (!dealt) return;
  for (std::size_t i = 0; i < kinds.size(); ++i) plan.kinds[i].common_batch = (*dealt)[i];
}

constexpr const char* kLessPerPass =
    "set batch.micro = 1 or batch.recompute = \"blocks\", lower batch.tokens, device.threads or "
    "gossip.slots";

bool on_gpu(const DeviceConfig& device, const PlanMachine& machine) {
  return machine.gpu_memory_gb && device.name != "cpu";
}

DeviceNeeds planned_needs(const DeviceConfig& device, const PlanMachine& machine) {
  if (on_gpu(device, machine)) return needs_of_gpu(gpu_compute_of(device.compute));
  DeviceNeeds needs = needs_of_cpu(
      device.compute == ComputeType::kBf16 ? model::Compute::kBf16 : model::Compute::kFp32,
      device.threads == 0 ? kThreadsAssumed : static_cast<int>(device.threads));
  needs.in_parts = false;  // as fast as others, or not: that is not known
  return needs;
}

// Bytes that a plan may take of what a machine has.
std::uint64_t room_of(double gigabytes) { return static_cast<std::uint64_t>(gigabytes * 1e9); }

// Beside what CUDA needs itself.
std::uint64_t gpu_room_of(double gigabytes) {
  const std::uint64_t all = room_of(gigabytes);
  const std::uint64_t left = all - std::min<std::uint64_t>(all, cuda::kContextBytes);
  return left - cuda::reserve_of(left);
}

struct Shortage {
  const char* key;
  double needed, said;   // GB
  const char* remedies;  // beside a smaller model
};

std::string misfit_of(const PlanMachine& machine, const Shortage& shortage) {
  return fmt::format("{} needs {} = {:.3g}, not {:.3g}: change that, {}, or take a smaller [model]",
                     machine.name, shortage.key, shortage.needed, shortage.said, shortage.remedies);
}

}  // namespace

PlannedMemory planned_memory(PeerConfig config, const PlanMachine& machine,
                             const model::ParamLayout& layout, const StripeTable& stripes) {
  const DeviceNeeds needs = planned_needs(config.device, machine);
  std::optional<std::uint64_t> room;
  if (machine.memory_gb) room = room_of(*machine.memory_gb);
  if (needs.far) room = gpu_room_of(*machine.gpu_memory_gb);
  PlannedMemory planned;
  planned.micro_batch = room && !config.micro_batch
                            ? micro_batch_within(*room, config, layout, stripes, needs)
                            : micro_batch_of(config);
  config.micro_batch = planned.micro_batch;
  const MemoryPlan plan = plan_memory(config, layout, stripes, needs);
  planned.gpu_bytes = needs.far ? plan.device_total() : 0;
  planned.host_bytes = plan.total() - planned.gpu_bytes;
  if (machine.memory_gb) {
    const double needed = static_cast<double>(planned.host_bytes) / kMemoryShare / 1e9;
    if (needed > *machine.memory_gb) {
      planned.misfits.push_back(
          misfit_of(machine, {.key = "memory_gb",
                              .needed = needed,
                              .said = *machine.memory_gb,
                              .remedies = needs.far ? "lower gossip.slots" : kLessPerPass}));
    }
  }
  if (needs.far && planned.gpu_bytes > *room) {
    const double needed = static_cast<double>(cuda::memory_for(planned.gpu_bytes)) / 1e9;
    planned.misfits.push_back(misfit_of(machine, {.key = "gpu_memory_gb",
                                                  .needed = needed,
                                                  .said = *machine.gpu_memory_gb,
                                                  .remedies = kLessPerPass}));
  }
  return planned;
}

VirtualLine planned_line(const PlanMachine& machine) {
  const auto rate = [](double mbit) { return (mbit > 0 ? mbit : kUnlimitedMbit) * kBytesPerMbit; };
  const double trip = machine.round_trip_ms.value_or(PlanMachine::kRoundTripMs);
  return {.latency = from_seconds(trip / 2000),
          .upload = rate(machine.upload_mbit),
          .download = rate(machine.download_mbit),
          .loss = 0,
          .region = machine.region};
}

void plan_synchronous(SwarmPlan& plan, std::int64_t sequences) {
  deal_common_batch(plan, sequences);
  const double bytes = static_cast<double>(plan.parameters) * sizeof(float);
  VirtualNetwork all(0);
  std::vector<std::uint32_t> members;
  std::vector<Worker> workers;
  double slowest = 0;
  for (const MachinePlan& kind : plan.kinds) {
    const VirtualLine line = planned_line(kind.machine);
    slowest = std::max(slowest, plan.steps_per_round * kind.step_seconds);
    const double over_line =
        2 * to_seconds(line.latency) + bytes / line.upload + bytes / line.download;
    for (std::uint32_t i = 0; i < kind.machine.count; ++i) {
      members.push_back(static_cast<std::uint32_t>(members.size()));
      all.add(line);
      workers.push_back(
          {.speed = 1 / kind.step_seconds, .fixed_seconds = plan.machines > 1 ? over_line : 0});
    }
  }
  const double cycle = slowest + all_reduce_seconds(all, members, bytes);
  const double work = plan.machines * plan.steps_per_round;  // steps
  const auto balanced = balanced_shares(workers, work);
  STARLING_ASSERT(balanced.has_value());  // nobody is ever full
  const auto steps = sharding_round(balanced->shares, static_cast<std::uint64_t>(work));
  double longest = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == 0) continue;  // takes no part
    const double trains = static_cast<double>(steps[i]) / workers[i].speed;
    longest = std::max(longest, workers[i].fixed_seconds + trains);
  }
  std::size_t at = 0;
  for (MachinePlan& kind : plan.kinds) {
    kind.idle_all_reduce = 1 - plan.steps_per_round * kind.step_seconds / cycle;
    kind.balanced_steps = steps[at];
    kind.idle_balanced = 1 - static_cast<double>(kind.balanced_steps) * kind.step_seconds / longest;
    at += kind.machine.count;
  }
}

ModelBytes model_bytes(const StripeTable& stripes, optim::WireFormat format) {
  ModelBytes bytes;
  std::vector<FragmentBytes> fragments(stripes.fragments());
  for (std::uint32_t i = 0; i < stripes.size(); ++i) {
    const std::size_t parameters = stripes[i].range.count;
    const std::size_t push = optim::push_bytes(format, parameters) + gossip::kBulkHeadBytes;
    const std::size_t delta = optim::delta_bytes(format, parameters) + gossip::kBulkHeadBytes;
    FragmentBytes& fragment = fragments[stripes[i].fragment.value];
    fragment.push += static_cast<double>(push);
    fragment.delta += static_cast<double>(delta);
  }
  for (const FragmentBytes& fragment : fragments) {
    bytes.all.push += fragment.push;
    bytes.all.delta += fragment.delta;
    bytes.largest.push = std::max(bytes.largest.push, fragment.push);
    bytes.largest.delta = std::max(bytes.largest.delta, fragment.delta);
  }
  return bytes;
}

PlanMachine with_limits_of(const BandwidthConfig& limits, PlanMachine machine) {
  if (machine.upload_mbit == 0) machine.upload_mbit = limits.upload_mbit;
  if (machine.download_mbit == 0) machine.download_mbit = limits.download_mbit;
  if (machine.gigabytes_per_day == 0) machine.gigabytes_per_day = limits.gigabytes_per_day;
  if (machine.quiet_hours.empty()) machine.quiet_hours = limits.quiet_hours;
  return machine;
}

std::string machine_name(const PlanMachine& machine, std::uint32_t number) {
  return machine.count > 1 ? fmt::format("{}-{}", machine.name, number) : machine.name;
}

PeerConfig machine_config(const PeerConfig& config, const SwarmPlan& plan, const MachinePlan& kind,
                          std::uint32_t number) {
  const PlanMachine& machine = kind.machine;
  PeerConfig result = config;
  result.run.peer_name = machine_name(machine, number);
  result.gossip.advertise.clear();  // whose address it was is not known
  result.run.tokens = kind.tokens;
  result.run.total_tokens = plan.total_tokens;
  // What was derived from the tokens of one follows those of all.
  optim::LrConfig& schedule = result.schedule;
  const bool decay_derived = schedule.decay_start_tokens == derived_decay_start(schedule);
  if (schedule.total_tokens == static_cast<double>(config.run.total_tokens)) {
    schedule.total_tokens = static_cast<double>(plan.total_tokens);
    if (decay_derived) schedule.decay_start_tokens = derived_decay_start(schedule);
  }
  if (machine.memory_gb || machine.gpu_memory_gb) {
    result.micro_batch = kind.micro_batch;  // or it is found at the start
  }
  result.gossip.exchanges_initiated_max = kind.exchanges_at_a_time;
  result.outer.rounds.fragments = plan.fragments;
  result.outer.wire_format = plan.wire_format;
  result.outer.local_steps = kind.keeps_pace ? LocalSteps::kDynamic : LocalSteps::kFixed;
  result.outer.rounds.steps_per_round =
      kind.keeps_pace ? plan.steps_per_round : kind.steps_per_round;
  result.bandwidth.upload_mbit = machine.upload_mbit;
  if (!machine.download_measured) result.bandwidth.download_mbit = machine.download_mbit;
  result.bandwidth.gigabytes_per_day = machine.gigabytes_per_day;
  result.bandwidth.quiet_hours = machine.quiet_hours;
  return result;
}

}  // namespace starling::peer
