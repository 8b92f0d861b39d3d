#include "peer/swarm/swarm_memory.h"

#include <fmt/format.h>

#include <utility>

#include "model/param_layout.h"
#include "peer/io/human_text.h"
#include "peer/machine/backend.h"
#include "peer/roles/memory_plan.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

namespace {

Result<DeviceNeeds> needs_of_each(ComputeType type, const SharedMemory& memory) {
  if (memory.gpus) return needs_of_gpu(gpu_compute_of(type));
  auto compute = compute_of(type);
  if (!compute.ok()) return std::move(compute).error();
  return needs_of_cpu(compute.value(), memory.threads);
}

}  // namespace

std::string describe_gpus(std::size_t gpus, std::uint32_t peers, bool open) {
  if (gpus == 0) return {};
  const std::string all = fmt::format("on {} GPU{}", gpus, gpus == 1 ? "" : "s");
  if (peers <= gpus) return all + '\n';
  return all + ", shared by " + std::to_string(peers) + " peers" +
         (open ? ": set batch.micro so that they fit beside each other\n" : "\n");
}

Result<std::int64_t> micro_batch_of_each(const PeerConfig& config, const SharedMemory& memory) {
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error();
  auto needs = needs_of_each(config.device.compute, memory);
  if (!needs.ok()) return std::move(needs).error();
  auto tries = micro_batches_to_try(memory.available / memory.peers, config, layout.value(),
                                    StripeTable(layout.value()), needs.value());
  if (!tries.ok()) {
    return std::move(tries).error().with_context(
        fmt::format("{} peers, each with its share of the {} that are free (fewer --peers have "
                    "more each)",
                    memory.peers, human_bytes(memory.available)));
  }
  return tries.value().front();
}

Result<std::uint64_t> gpu_bytes_of_each(const PeerConfig& config) {
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error();
  return std::uint64_t{device_bytes_least(config, layout.value(), StripeTable(layout.value()),
                                          needs_of_gpu(gpu_compute_of(config.device.compute)))};
}

}  // namespace starling::peer
