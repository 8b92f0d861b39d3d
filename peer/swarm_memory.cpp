#include "peer/swarm_memory.h"

#include <fmt/format.h>

#include <utility>

#include "model/param_layout.h"
#include "peer/backend.h"
#include "peer/memory_plan.h"
#include "peer/stripe_table.h"

namespace starling::peer {

Result<std::int64_t> micro_batch_of_each(const PeerConfig& config, const SharedMemory& memory) {
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  if (!layout.ok()) return std::move(layout).error();
  auto compute = compute_of(config.device.compute);
  if (!compute.ok()) return std::move(compute).error();
  auto tries = micro_batches_to_try(memory.available / memory.peers, config, layout.value(),
                                    StripeTable(layout.value()),
                                    needs_of_cpu(compute.value(), memory.threads));
  if (!tries.ok()) {
    return std::move(tries).error().with_context(
        fmt::format("{} peers, each with its share of the {} that are free (fewer --peers have "
                    "more each)",
                    memory.peers, in_mebibytes(memory.available)));
  }
  return tries.value().front();
}

}  // namespace starling::peer
