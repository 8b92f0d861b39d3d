#include "peer/roles/pools.h"

#include <algorithm>

#include "gossip/wire/wire.h"
#include "optim/fragment_codec.h"
#include "optim/schedule.h"

namespace starling::peer {

std::size_t float_slot_bytes(std::size_t parameters) {
  return (parameters * sizeof(float) + 63) / 64 * 64;
}

std::size_t payload_slot_bytes(std::size_t parameters) {
  std::size_t most = 0;
  for (const auto format : optim::kWireFormats) {
    most = std::max(
        {most, optim::push_bytes(format, parameters), optim::delta_bytes(format, parameters)});
  }
  return (gossip::kBulkHeadBytes + most + 63) / 64 * 64;
}

std::uint32_t slot_count(const PeerConfig& config, const StripeTable& stripes) {
  constexpr std::uint32_t kLeast = 32, kMost = 288;
  constexpr std::uint32_t kBoundaries = 2;
  const auto& gossip = config.gossip;
  if (gossip.slots != 0) return gossip.slots;
  // How slow it will be is not known yet. One that is slower leaves out some stripes.
  constexpr double kSpeedShare = 0.25;
  const std::uint32_t steps = config.outer.local_steps == LocalSteps::kDynamic
                                  ? optim::dynamic_local_steps(config.outer.rounds, kSpeedShare)
                                  : config.outer.rounds.steps_per_round;
  const std::uint32_t a_step = (stripes.size() + steps - 1) / steps;
  const std::uint32_t needed = (a_step * kBoundaries * 4 + 2) / 3;
  return std::clamp(needed, std::max<std::uint32_t>(kLeast, 2 * gossip.window), kMost);
}

PieceSlots piece_slots(const JoinConfig& config, const StatePlan& plan) {
  constexpr std::uint32_t kLeast = 4;
  const std::uint32_t count = std::max(kLeast, kPiecesOfPeer * config.serve_max);
  return {.count = config.serve_max > 0 ? count : 0,
          .bytes = (gossip::kBulkHeadBytes + plan.bytes_max() + 63) / 64 * 64};
}

Result<Buffer> pool_memory(Device& device, std::uint32_t slots, std::size_t slot_bytes,
                           std::string_view setting) {
  auto memory = device.allocate(MemoryKind::kHostPinned, slots * slot_bytes);
  if (!memory.ok()) return std::move(memory).error().with_context(setting);
  return memory;
}

}  // namespace starling::peer
