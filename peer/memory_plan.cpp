#include "peer/memory_plan.h"

#include <fmt/format.h>

#include <utility>

#include "model/llama.h"
#include "peer/joining.h"
#include "peer/pools.h"

namespace starling::peer {

void MemoryPlan::add(std::string name, std::size_t bytes, bool on_device) {
  parts.push_back({std::move(name), bytes, on_device});
}

std::size_t MemoryPlan::total() const noexcept {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::size_t MemoryPlan::device_total() const noexcept {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.on_device ? part.bytes : 0;
  return sum;
}

std::string MemoryPlan::describe() const {
  std::string text;
  for (const Part& part : parts)
    text += fmt::format("{} {}, ", part.name, in_mebibytes(part.bytes));
  return text + in_mebibytes(total()) + " in all";
}

MemoryPlan plan_memory(const PeerConfig& config, const model::ParamLayout& layout,
                       const StripeTable& stripes, model::DType activations) {
  const bool exchanges = config.outer.rule.method != optim::OuterMethod::kLocal;
  const std::size_t floats = layout.elements() * sizeof(float);
  const std::size_t stripe = stripes.parameters_max();
  MemoryPlan plan;
  plan.add("parameters", floats, true);
  plan.add("gradients", floats, true);
  plan.add("AdamW moments", 2 * floats, true);
  plan.add("activations", model::Llama::activation_bytes(config.model, config.batch, activations),
           true);
  plan.add("slow weights and momentum", exchanges ? 2 * floats + stripe * sizeof(float) : 0);
  plan.add("slots",
           exchanges ? config.gossip.slots * (float_slot_bytes(stripe) + payload_slot_bytes(stripe))
                     : 0);
  plan.add("checkpoint image", (exchanges ? 5 : 3) * floats);
  if (exchanges) {
    const PieceSlots pieces = piece_slots(config.join, StatePlan(stripes));
    plan.add("pieces for newcomers", pieces.count * pieces.bytes);
  }
  return plan;
}

std::string in_mebibytes(std::size_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace starling::peer
