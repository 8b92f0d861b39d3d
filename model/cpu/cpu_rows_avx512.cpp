#include "model/cpu/avx512_loops.h"

#if defined(STARLING_X86)

#include <cmath>

#include "model/cpu/avx512_vectors.h"

namespace starling::model::avx512 {

using namespace vectors;

STARLING_AVX512_BF16
void rms_norm_rows(const RmsNorm<>& args, RowRange rows) {
  const std::int64_t width = args.in.columns();
  const float* gain = args.gain.data;
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* in = args.in.data + row * width;
    bf16* out = args.out.as<bf16>().data + row * width;
    __m512 squares = _mm512_setzero_ps(), others = squares;
    for (std::int64_t i = 0; i < width; i += 2 * kWords) {
      const __m512 one = load(in + i, first_words(width - i));
      const __m512 other = load(in + i + kWords, first_words(width - i - kWords));
      squares = _mm512_fmadd_ps(one, one, squares);
      others = _mm512_fmadd_ps(other, other, others);
    }
    const float mean =
        _mm512_reduce_add_ps(_mm512_add_ps(squares, others)) / static_cast<float>(width);
    const float inverse = 1.0F / std::sqrt(mean + args.epsilon);
    args.inverse_rms.data[row] = inverse;
    const __m512 scale = _mm512_set1_ps(inverse);
    for (std::int64_t i = 0; i < width; i += kWords) {
      const __mmask16 there = first_words(width - i);
      const __m512 normed = _mm512_mul_ps(load(in + i, there), scale);
      store(out + i, there, _mm512_mul_ps(normed, load(gain + i, there)));
    }
  }
}

STARLING_AVX512_BF16
void rms_norm_backward_rows(const RmsNormBackward<>& args, RowRange rows, float* gain_grad) {
  const std::int64_t width = args.in.columns();
  const float* gain = args.gain.data;
  std::fill_n(gain_grad, width, 0.0F);
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    const float* in = args.in.data + row * width;
    const bf16* out_grad = args.out_grad.as<bf16>().data + row * width;
    float* in_grad = args.in_grad.data + row * width;
    bf16* in_grad_rounded = args.in_grad_rounded.as<bf16>().data + row * width;
    const float inverse = args.inverse_rms.data[row];
    __m512 dots = _mm512_setzero_ps();
    for (std::int64_t i = 0; i < width; i += kWords) {
      const __mmask16 there = first_words(width - i);
      const __m512 grad = _mm512_mul_ps(load(out_grad + i, there), load(gain + i, there));
      dots = _mm512_fmadd_ps(grad, load(in + i, there), dots);
    }
    const float along = _mm512_reduce_add_ps(dots);
    const __m512 pull = _mm512_set1_ps(along * inverse * inverse / static_cast<float>(width));
    const __m512 scale = _mm512_set1_ps(inverse);
    for (std::int64_t i = 0; i < width; i += kWords) {
      const __mmask16 there = first_words(width - i);
      const __m512 grad = load(out_grad + i, there), value = load(in + i, there);
      const __m512 across =
          _mm512_fnmadd_ps(value, pull, _mm512_mul_ps(grad, load(gain + i, there)));
      const __m512 sum = _mm512_fmadd_ps(scale, across, load(in_grad + i, there));
      store(in_grad + i, there, sum);
      store(in_grad_rounded + i, there, sum);
      store(gain_grad + i, there,
            _mm512_fmadd_ps(_mm512_mul_ps(grad, value), scale, load(gain_grad + i, there)));
    }
  }
}

}  // namespace starling::model::avx512

#endif
