// Rng: the only source of chance in Starling. Portable: the same seed gives the same sequence on
// every machine and compiler, which the distributions of the standard library do not promise.
//
// xoshiro256** seeded by SplitMix64 (Blackman, Vigna: "Scrambled linear pseudorandom number
// generators", ACM TOMS 47(4), 2021). Not for secrets. Thread: a plain value, one owner.
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace starling {

// SplitMix64's output function: a strong mix of one 64-bit word. Used to derive seeds.
std::uint64_t mix64(std::uint64_t value) noexcept;

class Rng {
 public:
  using State = std::array<std::uint64_t, 4>;

  explicit Rng(std::uint64_t seed) noexcept;
  explicit Rng(const State& state) noexcept : state_(state) {}  // continues a saved sequence

  // An independent sequence; does not advance this one.
  Rng fork(std::uint64_t stream) const noexcept;

  std::uint64_t next() noexcept;
  // Uniform in [0, bound); bound > 0. Unbiased (Lemire's rejection).
  std::uint64_t below(std::uint64_t bound) noexcept;
  double unit() noexcept;  // uniform in [0, 1), 53 bits
  bool chance(double probability) noexcept { return unit() < probability; }
  // Standard normal, from twelve 16-bit uniforms (Irwin-Hall): sums and one product only, so that
  // every machine draws the same floats. Tails end at 6.
  float normal() noexcept;
  // Exponential with the given mean, never below floor.
  Duration exponential(Duration mean, Duration floor) noexcept;

  const State& state() const noexcept { return state_; }

 private:
  State state_;
};

}  // namespace starling
