// The memory of a machine on which `starling swarm` starts several peers.
// Each plans with what is free when it starts, which is before the others have taken theirs; so
// what each may plan with is said to it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "peer/config/config.h"

namespace starling::peer {

struct SharedMemory {
  std::uint64_t available = 0;  // bytes, of all peers together
  std::uint32_t peers = 1;
  int threads = 1;    // of each
  bool gpus = false;  // on which they compute: then only what lies on the host is judged
};

// One line, empty where there are none: where the peers compute. `open`: each takes what is free of
// a GPU when it starts (batch.micro = "auto").
std::string describe_gpus(std::size_t gpus, std::uint32_t peers, bool open);

// The sequences that each computes at a time (batch.micro), so that all fit beside each other.
// Error kExhausted: they do not; kInvalidConfig: the model or the device is impossible.
Result<std::int64_t> micro_batch_of_each(const PeerConfig& config, const SharedMemory& memory);

// The least that one of them takes of a GPU. Error kInvalidConfig: the model is impossible.
Result<std::uint64_t> gpu_bytes_of_each(const PeerConfig& config);

}  // namespace starling::peer
