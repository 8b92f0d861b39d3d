// How large the slots are that weights travel in, and the memory of a pool of them. Start-up only.
#pragma once

#include <string_view>

#include "base/device.h"
#include "base/result.h"

namespace starling::peer {

// The weights of a stripe.
std::size_t float_slot_bytes(std::size_t parameters);
// The longest payload of a stripe with its head, in whatever format it may be sent.
std::size_t payload_slot_bytes(std::size_t parameters);

// `setting` is what to change if it cannot be had.
Result<Buffer> pool_memory(Device& device, std::uint32_t slots, std::size_t slot_bytes,
                           std::string_view setting);

}  // namespace starling::peer
