// The dithered lattice: one block of weights as integers, and the difference of two peers' blocks
// from integers modulo a small power of two.
//
//   step s = 2^(e/4); dither d in [0, 1) from Philox, the same for both peers
//   coordinate k = floor(weight / s + d)          int32, |weight / s| <= kCoordinateMax
//   code       q = k mod L, L = 2^bits            what is sent, as a signed value
//   difference   = centred((k - q) mod L)         exact while |true difference| < L/2
//   checksum     = sum of r * k mod 2^32, r odd, from the same Philox words
//
// A common dither makes the difference unbiased, and exactly zero where two weights are equal. A
// difference beyond L/2 wraps around: it is off by a multiple of L, which the checksum shows,
// because the weights r are odd and unpredictable. |difference| = L/2 has no sign: it counts as 0.
// After Lu, De Sa, "Moniqua: Modulo quantized communication in decentralized SGD", ICML 2020,
// section 4, with a lattice common to both sides in place of two independent roundings.
//
// Every function works on one block of at most kBlockParameters values. Bit-identical on every
// machine: integers, and float operations that round once each. Thread: any; no state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optim/wire_format.h"

namespace starling::optim {

inline constexpr int kExponentMin = -127;
inline constexpr int kExponentMax = 127;
// float32 has 24 bits: beyond 2^22 too few are left for a fraction.
inline constexpr float kCoordinateGoal = 4194304.0f;  // 2^22: what steps are chosen for
inline constexpr float kCoordinateMax = 8388608.0f;   // 2^23: what is accepted

using BlockWords = std::array<std::uint32_t, kBlockParameters>;    // per parameter: Philox
using BlockIntegers = std::array<std::int32_t, kBlockParameters>;  // per parameter: k, q or k - q

// 2^(exponent / 4), the same float on every machine; exponent in [kExponentMin, kExponentMax].
float lattice_step(int exponent);
// The smallest exponent whose step is at least `step` (but for rounding), clamped; kExponentMax
// where not finite.
int exponent_for(double step);

// The words of block `block` of the stripe that `key` names: parameter 256 w + j of the block uses
// word w of Philox counter 256 block + j.
void draw_words(std::uint64_t key, std::uint32_t block, BlockWords& words);
// All ways of doing it that this processor knows, fastest first. They draw the same words.
using DrawWords = void (*)(std::uint64_t key, std::uint32_t block, BlockWords& words);
std::vector<DrawWords> ways_to_draw();

// `weights` finite and below kCoordinateMax steps.
void quantize(std::span<const float> weights, float step, const BlockWords& words,
              BlockIntegers& coordinates);
std::uint32_t checksum(const BlockWords& words, const BlockIntegers& coordinates,
                       std::size_t count);

// Codes of `bits` bits: 8, 6, 5 or 4. Packed they are planes, one behind the other: 8 bits and 4
// are one plane of their own width; 6 and 5 a plane of the low 4 bits, then one of the other 2
// or 1. In a plane of width w a byte holds 8 / w parameters: byte j, from its low bits on,
// parameters j, j + stride, j + 2 stride, ..., where stride = ceil(count / (8 / w)) is the bytes of
// the plane. Bits of no parameter are zero.
std::size_t packed_bytes(int bits, std::size_t count);
void pack(int bits, const BlockIntegers& values, std::size_t count, std::byte* out);
// As signed values in [-L/2, L/2 - 1].
void unpack(int bits, const std::byte* in, std::size_t count, BlockIntegers& values);

struct BlockDifference {
  std::uint32_t checksum = 0;        // the partner's, as predicted from the difference
  std::uint32_t sum_of_squares = 0;  // of the differences, in steps
  std::int32_t largest = 0;          // magnitude
};
// differences = centred(mine - codes), ties as zero.
BlockDifference subtract(int bits, const BlockWords& words, const BlockIntegers& mine,
                         const BlockIntegers& codes, std::size_t count, BlockIntegers& differences);

}  // namespace starling::optim
