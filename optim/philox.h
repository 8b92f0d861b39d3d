// Philox4x32-10: a counter-based generator. The value at an index depends on (key, index) alone,
// so two peers that agree on a key draw the same dither for parameter 12345 without a stream.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
// section 3.3; multipliers and Weyl constants from its table. Pure integer arithmetic: identical on
// every machine.
#pragma once

#include <array>
#include <cstdint>

#include "base/host_device.h"

namespace starling::optim {

using PhiloxBlock = std::array<std::uint32_t, 4>;

STARLING_HD constexpr PhiloxBlock philox(std::uint64_t key, std::uint64_t counter) {
  std::uint32_t x0 = static_cast<std::uint32_t>(counter);
  std::uint32_t x1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t x2 = 0;
  std::uint32_t x3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * x0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * x2;
    const std::uint32_t y0 = static_cast<std::uint32_t>(p1 >> 32) ^ x1 ^ k0;
    const std::uint32_t y2 = static_cast<std::uint32_t>(p0 >> 32) ^ x3 ^ k1;
    x1 = static_cast<std::uint32_t>(p1);
    x3 = static_cast<std::uint32_t>(p0);
    x0 = y0;
    x2 = y2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {x0, x1, x2, x3};
}

}  // namespace starling::optim
