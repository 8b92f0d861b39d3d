#include "optim/lattice.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/vector_clones.h"

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

using BlockBytes = std::array<std::uint8_t, kBlockParameters>;  // per parameter: a code

STARLING_VECTOR_CLONES
void narrow(const std::int32_t* values, std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::uint8_t>(values[i]);
}

STARLING_VECTOR_CLONES
void widen(const std::uint8_t* in, std::size_t count, std::int32_t* values) {
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int8_t>(in[i]);
}

constexpr std::size_t plane_bytes(std::size_t width, std::size_t count) {
  return (count * width + 7) / 8;
}

// The plane of the bits from kFirst on.
template <int kWidth, int kFirst>
inline void pack_plane(const std::uint8_t* codes, std::size_t count, std::uint8_t* out) {
  constexpr std::size_t kFields = 8 / kWidth;  // of one byte
  const std::size_t stride = plane_bytes(kWidth, count);
  const auto field = [=](std::size_t j, std::size_t m) {
    constexpr int kMask = (1 << kWidth) - 1;
    return static_cast<std::uint8_t>((codes[j + m * stride] >> kFirst & kMask) << (m * kWidth));
  };
  // Bytes that have all their fields need no bounds.
  const std::size_t before_last = (kFields - 1) * stride;
  const std::size_t full = count > before_last ? count - before_last : 0;
  for (std::size_t j = 0; j < full; ++j) {
    std::uint8_t byte = 0;
    for (std::size_t m = 0; m < kFields; ++m) byte |= field(j, m);
    out[j] = byte;
  }
  for (std::size_t j = full; j < stride; ++j) {
    std::uint8_t byte = 0;
    for (std::size_t m = 0; j + m * stride < count; ++m) byte |= field(j, m);
    out[j] = byte;
  }
}

// The same way back, for the fields at bit kAt of every byte and those above them. The bits below
// kFirst are there already; what comes of both is signed.
template <int kWidth, int kFirst, int kAt = 0>
inline void unpack_plane(const std::uint8_t* in, std::size_t stride, std::size_t count,
                         std::uint8_t* codes) {
  constexpr int kBelow = (1 << kFirst) - 1;
  constexpr int kMask = (1 << kWidth) - 1;
  constexpr int kSign = 1 << (kFirst + kWidth - 1);
  const std::size_t fields = std::min(stride, count);
  for (std::size_t i = 0; i < fields; ++i) {
    const int code = (codes[i] & kBelow) | (in[i] >> kAt & kMask) << kFirst;
    codes[i] = static_cast<std::uint8_t>((code ^ kSign) - kSign);
  }
  if constexpr (kAt + kWidth < 8) {
    unpack_plane<kWidth, kFirst, kAt + kWidth>(in, stride, count - fields, codes + fields);
  }
}

STARLING_VECTOR_CLONES
void pack_planes(int bits, const std::uint8_t* codes, std::size_t count, std::uint8_t* out) {
  pack_plane<4, 0>(codes, count, out);
  out += plane_bytes(4, count);
  if (bits == 6) pack_plane<2, 4>(codes, count, out);
  if (bits == 5) pack_plane<1, 4>(codes, count, out);
}

STARLING_VECTOR_CLONES
void unpack_planes(int bits, const std::uint8_t* in, std::size_t count, std::uint8_t* codes) {
  const std::size_t low = plane_bytes(4, count);
  unpack_plane<4, 0>(in, low, count, codes);
  in += low;
  if (bits == 6) unpack_plane<2, 4>(in, plane_bytes(2, count), count, codes);
  if (bits == 5) unpack_plane<1, 4>(in, plane_bytes(1, count), count, codes);
}

constexpr bool is_code_width(int bits) { return bits == 8 || (bits >= 4 && bits <= 6); }

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
  STARLING_ASSERT(is_code_width(bits));
  if (bits == 8) return count;
  return plane_bytes(4, count) + plane_bytes(static_cast<std::size_t>(bits - 4), count);
}

void pack(int bits, const BlockIntegers& values, std::size_t count, std::byte* out) {
  STARLING_ASSERT(is_code_width(bits));
  STARLING_ASSERT(count <= kBlockParameters);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(out);
  if (bits == 8) return narrow(values.data(), count, bytes);
  BlockBytes codes;
  narrow(values.data(), count, codes.data());
  pack_planes(bits, codes.data(), count, bytes);
}

void unpack(int bits, const std::byte* in, std::size_t count, BlockIntegers& values) {
  STARLING_ASSERT(is_code_width(bits));
  STARLING_ASSERT(count <= kBlockParameters);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(in);
  if (bits == 8) return widen(bytes, count, values.data());
  BlockBytes codes;
  unpack_planes(bits, bytes, count, codes.data());
  widen(codes.data(), count, values.data());
}

BlockDifference subtract(int bits, const BlockWords& words, const BlockIntegers& mine,
                         const BlockIntegers& codes, std::size_t count,
                         BlockIntegers& differences) {
  STARLING_ASSERT(count <= kBlockParameters);
  return subtract_loop(bits, words.data(), mine.data(), codes.data(), count, differences.data());
}

}  // namespace starling::optim
