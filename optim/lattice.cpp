#include "optim/lattice.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "optim/vector_clones.h"

namespace starling::optim {

namespace {

// The low `bits` bits of a value, as a signed number.
inline std::int32_t centred(std::uint32_t value, int bits) {
  return static_cast<std::int32_t>(value << (32 - bits)) >> (32 - bits);
}

STARLING_VECTOR_CLONES
void quantize_loop(const float* weights, float inverse_step, const std::uint32_t* words,
                   std::int32_t* coordinates, std::size_t count) {
  constexpr float kDitherUnit = 1.0f / 16777216.0f;  // 24 bits
  for (std::size_t i = 0; i < count; ++i) {
    const float dither = static_cast<float>(static_cast<std::int32_t>(words[i] >> 8)) * kDitherUnit;
    const float shifted = weights[i] * inverse_step + dither;
    const auto truncated = static_cast<std::int32_t>(shifted);
    coordinates[i] = truncated - (static_cast<float>(truncated) > shifted ? 1 : 0);
  }
}

STARLING_VECTOR_CLONES
std::uint32_t checksum_loop(const std::uint32_t* words, const std::int32_t* coordinates,
                            std::size_t count) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += (words[i] | 1U) * static_cast<std::uint32_t>(coordinates[i]);
  }
  return sum;
}

STARLING_VECTOR_CLONES
void pack8(const std::int32_t* values, std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(values[i]);
}

STARLING_VECTOR_CLONES
void pack4(const std::int32_t* values, std::size_t count, std::uint8_t* out) {
  const std::size_t half = (count + 1) / 2;
  for (std::size_t i = 0; i < count / 2; ++i) {
    out[i] = static_cast<std::uint8_t>((values[i] & 15) | ((values[half + i] & 15) << 4));
  }
  if (count % 2 == 1) out[half - 1] = static_cast<std::uint8_t>(values[half - 1] & 15);
}

STARLING_VECTOR_CLONES
void unpack8(const std::uint8_t* in, std::size_t count, std::int32_t* values) {
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int8_t>(in[i]);
}

STARLING_VECTOR_CLONES
void unpack4(const std::uint8_t* in, std::size_t count, std::int32_t* values) {
  const std::size_t half = (count + 1) / 2;
  for (std::size_t i = 0; i < half; ++i) values[i] = centred(in[i], 4);
  for (std::size_t i = 0; i < count / 2; ++i) values[half + i] = centred(in[i] >> 4, 4);
}

STARLING_VECTOR_CLONES
BlockDifference subtract_loop(int bits, const std::uint32_t* words, const std::int32_t* mine,
                              const std::int32_t* codes, std::size_t count,
                              std::int32_t* differences) {
  BlockDifference result;
  std::uint32_t sum = 0;
  std::uint32_t squares = 0;
  std::int32_t largest = 0;
  const std::int32_t tie = -(1 << (bits - 1));
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t raw = centred(static_cast<std::uint32_t>(mine[i] - codes[i]), bits);
    sum += (words[i] | 1U) * static_cast<std::uint32_t>(mine[i] - raw);
    const std::int32_t difference = raw == tie ? 0 : raw;
    squares += static_cast<std::uint32_t>(difference * difference);
    largest = std::max(largest, std::max(difference, -difference));
    differences[i] = difference;
  }
  result.checksum = sum;
  result.sum_of_squares = squares;
  result.largest = largest;
  return result;
}

}  // namespace

float lattice_step(int exponent) {
  STARLING_ASSERT(exponent >= kExponentMin);
  STARLING_ASSERT(exponent <= kExponentMax);
  // 2^0, 2^(1/4), 2^(1/2), 2^(3/4), written out: exp2() may differ between libraries.
  constexpr std::array<float, 4> kRoots = {1.0f, 1.18920712f, 1.41421356f, 1.68179283f};
  const int shifted = exponent + 128;  // not negative, so that / rounds down
  return std::ldexp(kRoots[static_cast<std::size_t>(shifted % 4)], shifted / 4 - 32);
}

int exponent_for(double step) {
  if (!std::isfinite(step)) return kExponentMax;
  if (step <= 0.0) return kExponentMin;
  // Steps are themselves powers of 2^(1/4): one that is off by rounding must not be pushed on.
  constexpr double kRounding = 1e-5;
  const double exponent = std::ceil(4.0 * std::log2(step) - kRounding);
  return static_cast<int>(
      std::clamp(exponent, static_cast<double>(kExponentMin), static_cast<double>(kExponentMax)));
}

void quantize(std::span<const float> weights, float step, const BlockWords& words,
              BlockIntegers& coordinates) {
  STARLING_ASSERT(weights.size() <= kBlockParameters);
  quantize_loop(weights.data(), 1.0f / step, words.data(), coordinates.data(), weights.size());
}

std::uint32_t checksum(const BlockWords& words, const BlockIntegers& coordinates,
                       std::size_t count) {
  STARLING_ASSERT(count <= kBlockParameters);
  return checksum_loop(words.data(), coordinates.data(), count);
}

std::size_t packed_bytes(int bits, std::size_t count) {
  return bits == 8 ? count : (count + 1) / 2;
}

void pack(int bits, const BlockIntegers& values, std::size_t count, std::byte* out) {
  STARLING_ASSERT(bits == 8 || bits == 4);
  STARLING_ASSERT(count <= kBlockParameters);
  auto* bytes = reinterpret_cast<std::uint8_t*>(out);
  bits == 8 ? pack8(values.data(), count, bytes) : pack4(values.data(), count, bytes);
}

void unpack(int bits, const std::byte* in, std::size_t count, BlockIntegers& values) {
  STARLING_ASSERT(bits == 8 || bits == 4);
  STARLING_ASSERT(count <= kBlockParameters);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(in);
  bits == 8 ? unpack8(bytes, count, values.data()) : unpack4(bytes, count, values.data());
}

BlockDifference subtract(int bits, const BlockWords& words, const BlockIntegers& mine,
                         const BlockIntegers& codes, std::size_t count,
                         BlockIntegers& differences) {
  STARLING_ASSERT(count <= kBlockParameters);
  return subtract_loop(bits, words.data(), mine.data(), codes.data(), count, differences.data());
}

}  // namespace starling::optim
