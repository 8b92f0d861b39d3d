// The memory of a machine on which `starling swarm` starts several peers that compute on its CPU.
// Each plans with what is free when it starts, which is before the others have taken theirs; so
// what each may plan with is said to it. Pure.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "peer/config.h"

namespace starling::peer {

struct SharedMemory {
  std::uint64_t available = 0;  // bytes, of all peers together
  std::uint32_t peers = 1;
  int threads = 1;  // of each
};

// The sequences that each computes at a time (batch.micro), so that all fit beside each other.
// Error kExhausted: they do not; kInvalidConfig: the model or the device is impossible.
Result<std::int64_t> micro_batch_of_each(const PeerConfig& config, const SharedMemory& memory);

}  // namespace starling::peer
