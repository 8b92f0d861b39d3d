// How large the slots are that weights travel in, and the memory of a pool of them. Start-up only.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/device.h"
#include "base/result.h"
#include "peer/config/config.h"
#include "peer/states/state_plan.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

// The weights of a stripe.
std::size_t float_slot_bytes(std::size_t parameters);
// The longest payload of a stripe with its head, in whatever format it may be sent.
std::size_t payload_slot_bytes(std::size_t parameters);

// gossip.slots; where that is 0, as many as let every stripe leave once a round, where rounds
// follow the speed also of a peer a quarter as fast as the fastest, within bounds. A slot that
// leaves between two steps is free again two boundaries later, with its correction added at the
// first of them, and a quarter of them is left to exchanges.
std::uint32_t slot_count(const PeerConfig& config, const StripeTable& stripes);

// What pieces travel in on their way to newcomers. Of those under way to one there are no more than
// kPiecesOfPeer: one that is read and one that leaves.
constexpr std::uint32_t kPiecesOfPeer = 2;
struct PieceSlots {
  std::uint32_t count = 0;
  std::size_t bytes = 0;  // of each
};
PieceSlots piece_slots(const JoinConfig& config, const StatePlan& plan);

// `setting` is what to change if it cannot be had.
Result<Buffer> pool_memory(Device& device, std::uint32_t slots, std::size_t slot_bytes,
                           std::string_view setting);

}  // namespace starling::peer
