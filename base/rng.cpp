#include "base/rng.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/assert.h"

namespace starling {

std::uint64_t mix64(std::uint64_t value) noexcept {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

Rng::Rng(std::uint64_t seed) noexcept : state_{} {
  std::uint64_t word = seed;
  for (auto& lane : state_) {
    lane = mix64(word);
    word += 0x9E3779B97F4A7C15ULL;
  }
}

Rng Rng::fork(std::uint64_t stream) const noexcept {
  return Rng(mix64(state_[0] ^ mix64(state_[1] ^ mix64(stream))));
}

std::uint64_t Rng::next() noexcept {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Rng::below(std::uint64_t bound) noexcept {
  STARLING_ASSERT(bound > 0);
  using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(next()) * bound;
  auto low = static_cast<std::uint64_t>(product);
  if (low < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (low < threshold) {
      product = static_cast<Wide>(next()) * bound;
      low = static_cast<std::uint64_t>(product);
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Rng::unit() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

float Rng::normal() noexcept {
  // A 16-bit uniform has mean (2^16-1)/2 and variance (2^32-1)/12: twelve of them, sd ~ 2^16.
  std::uint32_t sum = 0;
  for (int word = 0; word < 3; ++word) {
    std::uint64_t bits = next();
    for (int lane = 0; lane < 4; ++lane, bits >>= 16)
      sum += static_cast<std::uint32_t>(bits & 0xFFFF);
  }
  return (static_cast<float>(sum) - 393210.0F) * 0x1.0p-16F;
}

Duration Rng::exponential(Duration mean, Duration floor) noexcept {
  const double drawn = -std::log(1.0 - unit()) * static_cast<double>(mean.count());
  return std::max(floor, Duration(static_cast<Duration::rep>(drawn)));
}

}  // namespace starling
