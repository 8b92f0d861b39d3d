#include "peer/pools.h"

#include <algorithm>

#include "gossip/wire.h"
#include "optim/fragment_codec.h"

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

Result<Buffer> pool_memory(Device& device, std::uint32_t slots, std::size_t slot_bytes,
                           std::string_view setting) {
  auto memory = device.allocate(MemoryKind::kHostPinned, slots * slot_bytes);
  if (!memory.ok()) return std::move(memory).error().with_context(setting);
  return memory;
}

}  // namespace starling::peer
