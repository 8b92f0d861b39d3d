#include "model/cpu/cpu_strips.h"

#include <algorithm>

#include "model/cpu/avx512_loops.h"
#include "model/cpu/cpu_elements.h"

namespace starling::model {

namespace {

template <class Act>
STARLING_INLINE void store_values(const Strip& strip, bool adds, Act* to, std::int64_t stride) {
  const std::int64_t columns = strip.columns;
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const float* __restrict__ sums = strip.sums + row * strip.stride;
    Act* __restrict__ out = to + (strip.row + row) * stride + strip.column;
    if (adds || strip.adds) {
      for (std::int64_t i = 0; i < columns; ++i) {
        out[i] = rounded<Act>(as_float(out[i]) + sums[i]);
      }
    } else {
      for (std::int64_t i = 0; i < columns; ++i) out[i] = rounded<Act>(sums[i]);
    }
  }
}

}  // namespace

void store_strip(const Strip& strip, bool adds, const TypedTensor& out) {
  if (avx512::kHasLoops) return avx512::store_strip(strip, adds, out);
  const std::int64_t stride = out.columns();
  if (is_bf16(out.dtype)) return store_values(strip, adds, out.as<bf16>().data, stride);
  store_values(strip, adds, out.as<float>().data, stride);
}

void store_strip(const Strip& strip, const LinearResidual<>& args) {
  if (avx512::kHasLoops) return avx512::store_strip(strip, args);
  const std::int64_t stride = args.out.columns(), columns = strip.columns;
  if (strip.adds) return store_values(strip, true, args.out.data, stride);
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const std::int64_t first = (strip.row + row) * stride + strip.column;
    const float* __restrict__ sums = strip.sums + row * strip.stride;
    const float* __restrict__ residual = args.residual.data + first;
    float* __restrict__ out = args.out.data + first;
    for (std::int64_t i = 0; i < columns; ++i) out[i] = residual[i] + sums[i];
  }
}

void store_strip(const Strip& strip, const LinearRope<>& args) {
  if (avx512::kHasLoops) return avx512::store_strip(strip, args);
  STARLING_ASSERT(!strip.adds);
  const HeadShape& shape = args.shape;
  const std::int64_t width = shape.head_width, half = width / 2, columns = strip.columns;
  const std::int64_t turned = (shape.heads + shape.kv_heads) * width - strip.column;
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const std::int64_t token = strip.row + row, position = token % shape.tokens * half;
    const Turn turn{args.rotations.cosines.data + position, args.rotations.sines.data + position,
                    half, 1.0F};
    const float* sums = strip.sums + row * strip.stride;
    bf16* out = args.qkv.as<bf16>().data + token * shape.packed_width() + strip.column;
    std::int64_t column = 0;
    for (; column < std::min(columns, turned); column += width) {
      turn_head(sums + column, out + column, turn);
    }
    for (; column < columns; ++column) out[column] = rounded<bf16>(sums[column]);
  }
}

void store_strip(const Strip& strip, const LinearSwiGlu<>& args) {
  if (avx512::kHasLoops) return avx512::store_strip(strip, args);
  STARLING_ASSERT(!strip.adds);
  const std::int64_t ffn = args.gated.columns(), columns = strip.columns;
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const float* __restrict__ gates = strip.sums + row * strip.stride;
    const float* __restrict__ ups = gates + strip.pair;
    const std::int64_t token = strip.row + row;
    bf16* __restrict__ gate = args.gate_up.as<bf16>().data + token * 2 * ffn + strip.column;
    bf16* __restrict__ up = gate + ffn;
    bf16* __restrict__ gated = args.gated.as<bf16>().data + token * ffn + strip.column;
    // Rounded twice rather than read again: what has just been stored is not there yet.
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      gate[i] = rounded<bf16>(gates[i]);
      up[i] = rounded<bf16>(ups[i]);
      const float z = as_float(rounded<bf16>(gates[i]));
      gated[i] = rounded<bf16>(swiglu(z, as_float(rounded<bf16>(ups[i]))));
    }
  }
}

void store_strip(const Strip& strip, const SwiGluLinearBackward<>& args) {
  if (avx512::kHasLoops) return avx512::store_strip(strip, args);
  STARLING_ASSERT(!strip.adds);
  const std::int64_t ffn = args.gated.columns(), columns = strip.columns;
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const std::int64_t token = strip.row + row, first = token * 2 * ffn + strip.column;
    const bf16* gate = args.gate_up.as<bf16>().data + first;
    bf16* grad = args.gate_up_grad.as<bf16>().data + first;
    bf16* gated = args.gated.as<bf16>().data + token * ffn + strip.column;
    swiglu_backward_values(strip.sums + row * strip.stride,
                           SwiGluValues<bf16>{gate, gate + ffn, grad, grad + ffn, gated}, columns);
  }
}

}  // namespace starling::model
