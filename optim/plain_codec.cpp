#include "optim/plain_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "base/bf16.h"
#include "base/vector_clones.h"
#include "optim/vector_types.h"

namespace starling::optim::plain_codec {

namespace {

// Payloads lie anywhere in a frame: values go through memcpy, which costs nothing here.
template <class T>
T load(const std::byte* bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* bytes, std::size_t index, T value) {
  std::memcpy(bytes + index * sizeof(T), &value, sizeof(T));
}

// Finite values to bf16; returns the bits of the largest magnitude, which show whether they are.
std::int32_t round_some(const float* values, std::byte* out, std::size_t count) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<std::int32_t>(values[i]) & 0x7FFFFFFF);
    store(out, i, to_bf16(values[i]).bits);
  }
  return largest;
}

// The same of `count` values, a multiple of 8; past the caches to `out`, aligned for that.
STARLING_VECTOR_CLONES
std::int32_t round_loop(const float* values, std::byte* out, std::size_t count) {
  Ints8 largest_of_8 = {};
  for (std::size_t i = 0; i < count; i += 8) {
    prefetch(values + i);
    Words8 bits;
    optim::load(bits, values + i);
    const Ints8 magnitudes = reinterpret_cast<Ints8>(bits & 0x7FFFFFFFU);
    largest_of_8 = magnitudes > largest_of_8 ? magnitudes : largest_of_8;
    bits = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    stream(out + 2 * i, __builtin_convertvector(bits, Shorts8));
  }
  std::int32_t largest = 0;
  for (std::size_t j = 0; j < 8; ++j) largest = std::max(largest, largest_of_8[j]);
  return largest;
}

float round_all(std::span<const float> values, std::byte* out) {
  const std::size_t to_alignment = -reinterpret_cast<std::uintptr_t>(out) % kStreamBytes;
  // At an odd address no value is ever aligned.
  const std::size_t first =
      to_alignment % 2 == 1 ? values.size() : std::min(to_alignment / 2, values.size());
  const std::size_t last = first + (values.size() - first) / 8 * 8;
  return std::bit_cast<float>(
      std::max({round_some(values.data(), out, first),
                round_loop(values.data() + first, out + 2 * first, last - first),
                round_some(values.data() + last, out + 2 * last, values.size() - last)}));
}

STARLING_VECTOR_CLONES
void read_f32(const std::byte* in, float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = load<float>(in, i);
}

STARLING_VECTOR_CLONES
void read_bf16(const std::byte* in, float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = to_float(bf16{load<std::uint16_t>(in, i)});
}

STARLING_VECTOR_CLONES
void subtract_f32(const float* slow, const std::byte* push, float* difference, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) difference[i] = slow[i] - load<float>(push, i);
}

STARLING_VECTOR_CLONES
void subtract_bf16(const float* slow, const std::byte* push, float* difference, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    difference[i] = to_float(to_bf16(slow[i])) - to_float(bf16{load<std::uint16_t>(push, i)});
  }
}

STARLING_VECTOR_CLONES
void write_f32(const float* values, float scale, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) store(out, i, values[i] * scale);
}

STARLING_VECTOR_CLONES
void write_bf16(const float* values, float scale, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) store(out, i, to_bf16(values[i] * scale).bits);
}

void write(WireFormat format, float scale, std::span<const float> values,
           std::span<std::byte> body) {
  format == WireFormat::kF32 ? write_f32(values.data(), scale, body.data(), values.size())
                             : write_bf16(values.data(), scale, body.data(), values.size());
}

void read(WireFormat format, std::span<const std::byte> body, std::span<float> values) {
  format == WireFormat::kF32 ? read_f32(body.data(), values.data(), values.size())
                             : read_bf16(body.data(), values.data(), values.size());
}

using Block = std::array<float, kBlockParameters>;

// slow - pushed, in `block`.
std::span<const float> subtract(WireFormat format, std::span<const std::byte> push,
                                std::span<const float> slow, Block& block) {
  const auto loop = format == WireFormat::kF32 ? subtract_f32 : subtract_bf16;
  loop(slow.data(), push.data(), block.data(), slow.size());
  return std::span(block).first(slow.size());
}

// bf16 rounds the very largest floats to infinity.
bool survives(WireFormat format, float largest) {
  return std::isfinite(largest) && (format == WireFormat::kF32 || to_bf16(largest).bits < 0x7F80U);
}

std::size_t bytes_of(WireFormat format, std::size_t values) {
  return values * static_cast<std::size_t>(code_bits(format)) / 8;
}

// The piece of a body that holds the values [first, first + count).
template <class Byte>
std::span<Byte> piece_of(WireFormat format, std::span<Byte> body, std::size_t first,
                         std::size_t count) {
  return body.subspan(bytes_of(format, first), bytes_of(format, count));
}

}  // namespace

Status encode_push(WireFormat format, std::span<const float> slow, std::span<std::byte> body) {
  STARLING_ASSERT(body.size() == bytes_of(format, slow.size()));
  // The network's thread reads it, on another processor: past the caches of this one.
  const float largest =
      format == WireFormat::kF32 ? copy_past_caches(body, slow) : round_all(slow, body.data());
  finish_streams();
  if (!survives(format, largest)) {
    return Error(ErrorCode::kCorrupt, "own slow weights are not finite");
  }
  return ok_status();
}

Result<StripeSums> make_delta(WireFormat format, std::span<const std::byte> push,
                              std::span<const float> slow, std::span<std::byte> body,
                              std::span<BlockReport> blocks) {
  STARLING_ASSERT(push.size() == bytes_of(format, slow.size()));
  STARLING_ASSERT(body.size() == push.size());
  StripeSums sums;
  Block difference;
  float own_largest = 0.0f;
  for_each_piece<kBlockParameters>(slow.size(), [&](std::size_t first, std::size_t count) {
    const std::span<const float> weights = slow.subspan(first, count);
    const auto apart = subtract(format, piece_of(format, push, first, count), weights, difference);
    write(format, 1.0f, apart, piece_of(format, body, first, count));
    const VectorStats own = measure(weights);
    own_largest = own.finite ? std::max(own_largest, own.max_abs) : INFINITY;
    sums.own += own.sum_of_squares;
    BlockReport report = sums.add(measure(apart));
    report.own_largest = own.max_abs;
    if (!blocks.empty()) blocks[first / kBlockParameters] = report;
  });
  if (!std::isfinite(sums.own) || !survives(format, own_largest)) {
    return Error(ErrorCode::kCorrupt, "own slow weights are not finite");
  }
  // A pushed value that is not finite leaves a difference that is not finite.
  if (!std::isfinite(sums.difference) || !survives(format, static_cast<float>(sums.max_abs))) {
    return Error(ErrorCode::kProtocol, "pushed weights are not finite or too far away");
  }
  return sums;
}

void clip_delta(WireFormat format, float clip_factor, std::span<const std::byte> push,
                std::span<const float> slow, std::span<std::byte> body) {
  Block difference;
  for_each_piece<kBlockParameters>(slow.size(), [&](std::size_t first, std::size_t count) {
    const auto apart = subtract(format, piece_of(format, push, first, count),
                                slow.subspan(first, count), difference);
    write(format, clip_factor, apart, piece_of(format, body, first, count));
  });
}

Result<StripeSums> decode_delta(WireFormat format, std::span<const std::byte> body,
                                std::span<const float> slow, std::span<float> difference,
                                std::span<BlockReport> blocks) {
  STARLING_ASSERT(body.size() == bytes_of(format, difference.size()));
  StripeSums sums;
  for_each_piece<kBlockParameters>(difference.size(), [&](std::size_t first, std::size_t count) {
    const std::span<float> values = difference.subspan(first, count);
    prefetch_next(piece_of(format, body, first, count));
    if (!slow.empty()) prefetch_next(slow.subspan(first, count));
    read(format, piece_of(format, body, first, count), values);
    BlockReport report = sums.add(measure(values));
    if (!slow.empty()) {
      const VectorStats own = measure(slow.subspan(first, count));
      sums.own += own.sum_of_squares;
      report.own_largest = own.max_abs;
    }
    if (!blocks.empty()) blocks[first / kBlockParameters] = report;
  });
  if (!std::isfinite(sums.difference)) {
    return Error(ErrorCode::kProtocol, "a difference is not finite");
  }
  return sums;
}

}  // namespace starling::optim::plain_codec
