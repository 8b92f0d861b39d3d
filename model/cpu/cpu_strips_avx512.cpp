#include "model/cpu/avx512_loops.h"

#if defined(STARLING_X86)

#include "model/cpu/avx512_vectors.h"

namespace starling::model::avx512 {

namespace {

using namespace vectors;

// Rows of a strip are short and far apart, so no processor sees them coming: while the rows of one
// tile are stored, those of the next are fetched, which arrive while its sums are made. What lies
// past the tensor's end is neither read nor written.
template <class T>
[[gnu::always_inline]] inline void fetch(const T* row, std::int64_t columns) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < columns; i += kLine) __builtin_prefetch(row + i);
  __builtin_prefetch(row + columns - 1);
}

template <class Act>
STARLING_AVX512_BF16 void store_values(const Strip& strip, bool adds, Act* to,
                                       std::int64_t stride) {
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const float* sums = strip.sums + row * strip.stride;
    Act* out = to + (strip.row + row) * stride + strip.column;
    fetch(out + strip.rows * stride, strip.columns);
    for (std::int64_t i = 0; i < strip.columns; i += kWords) {
      const __mmask16 there = first_words(strip.columns - i);
      const __m512 sum = load(sums + i, there);
      store(out + i, there, adds ? _mm512_add_ps(load(out + i, there), sum) : sum);
    }
  }
}

}  // namespace

STARLING_AVX512_BF16
void store_strip(const Strip& strip, bool adds, const TypedTensor& out) {
  const bool sets = !adds && !strip.adds;
  if (out.dtype == DType::kBf16) {
    return store_values(strip, !sets, out.as<bf16>().data, out.columns());
  }
  store_values(strip, !sets, out.as<float>().data, out.columns());
}

STARLING_AVX512_BF16
void store_strip(const Strip& strip, const LinearResidual<>& args) {
  const std::int64_t stride = args.out.columns(), columns = strip.columns;
  if (strip.adds) return store_values(strip, true, args.out.data, stride);
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const std::int64_t first = (strip.row + row) * stride + strip.column;
    const float* sums = strip.sums + row * strip.stride;
    const float* residual = args.residual.data + first;
    float* out = args.out.data + first;
    fetch(residual + strip.rows * stride, columns);
    fetch(out + strip.rows * stride, columns);
    for (std::int64_t i = 0; i < columns; i += kWords) {
      const __mmask16 there = first_words(columns - i);
      store(out + i, there, _mm512_add_ps(load(residual + i, there), load(sums + i, there)));
    }
  }
}

STARLING_AVX512_BF16
void store_strip(const Strip& strip, const LinearRope<>& args) {
  STARLING_ASSERT(!strip.adds);
  const HeadShape& shape = args.shape;
  const std::int64_t width = shape.head_width, half = width / 2, columns = strip.columns;
  const std::int64_t stride = shape.packed_width();
  const std::int64_t turned =
      std::clamp<std::int64_t>((shape.heads + shape.kv_heads) * width - strip.column, 0, columns);
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const std::int64_t token = strip.row + row, position = token % shape.tokens * half;
    const float* cosines = args.rotations.cosines.data + position;
    const float* sines = args.rotations.sines.data + position;
    const float* sums = strip.sums + row * strip.stride;
    bf16* out = args.qkv.as<bf16>().data + token * stride + strip.column;
    fetch(out + strip.rows * stride, columns);
    for (std::int64_t i = 0; i < half; i += kWords) {
      const __mmask16 there = first_words(half - i);
      const __m512 cosine = load(cosines + i, there), sine = load(sines + i, there);
      for (std::int64_t column = i; column < turned; column += width) {
        const __m512 first = load(sums + column, there);
        const __m512 second = load(sums + column + half, there);
        store(out + column, there, _mm512_fmsub_ps(first, cosine, _mm512_mul_ps(second, sine)));
        store(out + column + half, there,
              _mm512_fmadd_ps(second, cosine, _mm512_mul_ps(first, sine)));
      }
    }
    for (std::int64_t i = turned; i < columns; i += kWords) {
      const __mmask16 there = first_words(columns - i);
      store(out + i, there, load(sums + i, there));
    }
  }
}

STARLING_AVX512_BF16
void store_strip(const Strip& strip, const LinearSwiGlu<>& args) {
  STARLING_ASSERT(!strip.adds);
  const std::int64_t ffn = args.gated.columns(), columns = strip.columns;
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const float* sums = strip.sums + row * strip.stride;
    const std::int64_t token = strip.row + row;
    bf16* gate = args.gate_up.as<bf16>().data + token * 2 * ffn + strip.column;
    bf16* up = gate + ffn;
    bf16* gated = args.gated.as<bf16>().data + token * ffn + strip.column;
    fetch(gate + strip.rows * 2 * ffn, columns);
    fetch(up + strip.rows * 2 * ffn, columns);
    fetch(gated + strip.rows * ffn, columns);
    for (std::int64_t i = 0; i < columns; i += kWords) {
      const __mmask16 there = first_words(columns - i);
      const __m256i of_gate = rounded(load(sums + i, there));
      const __m256i of_up = rounded(load(sums + strip.pair + i, there));
      store(gate + i, there, of_gate);
      store(up + i, there, of_up);
      const __m512 z = widened(of_gate);
      store(gated + i, there, _mm512_mul_ps(_mm512_mul_ps(z, widened(of_up)), sigmoid(z)));
    }
  }
}

STARLING_AVX512_BF16
void store_strip(const Strip& strip, const SwiGluLinearBackward<>& args) {
  STARLING_ASSERT(!strip.adds);
  const std::int64_t ffn = args.gated.columns(), columns = strip.columns;
  const __m512 one = _mm512_set1_ps(1.0F);
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    const std::int64_t token = strip.row + row, first = token * 2 * ffn + strip.column;
    const float* sums = strip.sums + row * strip.stride;
    const bf16* gate = args.gate_up.as<bf16>().data + first;
    const bf16* up = gate + ffn;
    bf16* gate_grad = args.gate_up_grad.as<bf16>().data + first;
    bf16* up_grad = gate_grad + ffn;
    bf16* gated = args.gated.as<bf16>().data + token * ffn + strip.column;
    fetch(gate + strip.rows * 2 * ffn, columns);
    fetch(up + strip.rows * 2 * ffn, columns);
    fetch(gate_grad + strip.rows * 2 * ffn, columns);
    fetch(up_grad + strip.rows * 2 * ffn, columns);
    fetch(gated + strip.rows * ffn, columns);
    for (std::int64_t i = 0; i < columns; i += kWords) {
      const __mmask16 there = first_words(columns - i);
      const __m512 z = load(gate + i, there), factor = load(up + i, there);
      const __m512 share = sigmoid(z);
      const __m512 scaled = _mm512_mul_ps(load(sums + i, there), share);
      const __m512 slope = _mm512_fmadd_ps(z, _mm512_sub_ps(one, share), one);
      store(gate_grad + i, there, _mm512_mul_ps(_mm512_mul_ps(scaled, factor), slope));
      store(up_grad + i, there, _mm512_mul_ps(scaled, z));
      store(gated + i, there, _mm512_mul_ps(_mm512_mul_ps(z, factor), share));
    }
  }
}

}  // namespace starling::model::avx512

#endif
