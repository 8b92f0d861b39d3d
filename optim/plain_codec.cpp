#include "optim/plain_codec.h"

#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "base/bf16.h"
#include "optim/vector_clones.h"

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

STARLING_VECTOR_CLONES
void write_f32(const float* values, float scale, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) store(out, i, values[i] * scale);
}

STARLING_VECTOR_CLONES
void write_bf16(const float* values, float scale, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) store(out, i, to_bf16(values[i] * scale).bits);
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
void subtract_from(const float* slow, float* pushed, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) pushed[i] = slow[i] - pushed[i];
}

STARLING_VECTOR_CLONES
void subtract_from_rounded(const float* slow, float* pushed, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) pushed[i] = to_float(to_bf16(slow[i])) - pushed[i];
}

void write(WireFormat format, float scale, std::span<const float> values,
           std::span<std::byte> body) {
  STARLING_ASSERT(body.size() * 8 == values.size() * static_cast<std::size_t>(code_bits(format)));
  format == WireFormat::kF32 ? write_f32(values.data(), scale, body.data(), values.size())
                             : write_bf16(values.data(), scale, body.data(), values.size());
}

void read(WireFormat format, std::span<const std::byte> body, std::span<float> values) {
  STARLING_ASSERT(body.size() * 8 == values.size() * static_cast<std::size_t>(code_bits(format)));
  format == WireFormat::kF32 ? read_f32(body.data(), values.data(), values.size())
                             : read_bf16(body.data(), values.data(), values.size());
}

// bf16 rounds the very largest floats to infinity.
bool survives(WireFormat format, const VectorStats& stats) {
  return stats.finite && (format == WireFormat::kF32 || to_bf16(stats.max_abs).bits < 0x7F80U);
}

}  // namespace

Status encode_push(WireFormat format, std::span<const float> slow, std::span<std::byte> body) {
  if (!survives(format, measure(slow))) {
    return Error(ErrorCode::kCorrupt, "own slow weights are not finite");
  }
  write(format, 1.0f, slow, body);
  return ok_status();
}

Result<VectorStats> subtract(WireFormat format, std::span<const std::byte> push,
                             std::span<const float> slow, std::span<float> difference) {
  STARLING_ASSERT(difference.size() == slow.size());
  if (!survives(format, measure(slow))) {
    return Error(ErrorCode::kCorrupt, "own slow weights are not finite");
  }
  read(format, push, difference);
  if (format == WireFormat::kF32) {
    subtract_from(slow.data(), difference.data(), slow.size());
  } else {
    subtract_from_rounded(slow.data(), difference.data(), slow.size());
  }
  // A pushed value that is not finite leaves a difference that is not finite.
  const VectorStats stats = measure(difference);
  if (!survives(format, stats)) {
    return Error(ErrorCode::kProtocol, "pushed weights are not finite or too far away");
  }
  return stats;
}

void write_delta(WireFormat format, float clip_factor, std::span<const float> difference,
                 std::span<std::byte> body) {
  write(format, clip_factor, difference, body);
}

Result<VectorStats> decode_delta(WireFormat format, std::span<const std::byte> body,
                                 std::span<float> difference) {
  read(format, body, difference);
  const VectorStats stats = measure(difference);
  if (!stats.finite) return Error(ErrorCode::kProtocol, "a difference is not finite");
  return stats;
}

}  // namespace starling::optim::plain_codec
