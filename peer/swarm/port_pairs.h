// Free ports of this machine for peers that are started together: one for control, the one above it
// for weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"

namespace starling::peer {

// Pairs of neighboring ports of 127.0.0.1 that nobody uses at the moment; the first of each pair.
// They lie below the range the system gives to outgoing connections. Search starts at a place that
// depends on `salt`, so that two swarms that start together do not want the same ports.
Result<std::vector<std::uint16_t>> find_port_pairs(std::size_t count, std::uint64_t salt);

}  // namespace starling::peer
