#include "model/cpu/avx512_loops.h"

#if defined(STARLING_X86)

#include <cmath>

#include "model/cpu/avx512_vectors.h"

namespace starling::model::avx512 {

using namespace vectors;

STARLING_AVX512_BF16
void softmax_rows(const WeightRows& rows, float* inverses, float* log_sums) {
  const float log_scale = rows.scale * kLog2E;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* scores = rows.scores + i * rows.row;
    bf16* weights = rows.weights + i * rows.row;
    const std::int64_t visible = rows.visible + i;
    __m512 most = _mm512_set1_ps(scores[0]);
    for (std::int64_t key = 0; key < visible; key += kWords) {
      const __mmask16 seen = first_words(visible - key);
      most = _mm512_mask_max_ps(most, seen, load(scores + key, seen), most);
    }
    const float largest = _mm512_reduce_max_ps(most);
    const __m512 factor = _mm512_set1_ps(log_scale), top = _mm512_set1_ps(largest);
    __m512 sums = _mm512_setzero_ps();
    for (std::int64_t key = 0; key < rows.keys; key += kWords) {
      const __mmask16 seen = first_words(visible - key);
      // Not one sum of products: of scores beyond 2^24 its rounding would not leave the largest 1.
      const __m512 below = _mm512_sub_ps(load(scores + key, seen), top);
      const __m512 weight = _mm512_maskz_mov_ps(seen, exp2_of(_mm512_mul_ps(below, factor)));
      sums = _mm512_add_ps(sums, weight);
      store(weights + key, first_words(kWords), weight);
    }
    const float sum = _mm512_reduce_add_ps(sums);
    inverses[i] = 1.0F / sum;
    log_sums[i] = rows.scale * largest + std::log(sum);
  }
}

STARLING_AVX512_BF16
void softmax_backward_tile(const ScoreTile& tile, const float* log_sums, const float* means) {
  const __m512 scale = _mm512_set1_ps(tile.scale), factor = _mm512_set1_ps(tile.scale * kLog2E);
  for (std::int64_t i = 0; i < tile.count; ++i) {
    const float* scores = tile.scores + i * tile.tile_row;
    const float* weight_grads = tile.weight_grads + i * tile.tile_row;
    bf16* weights = tile.weights + i * tile.row;
    bf16* score_grads = tile.score_grads + i * tile.row;
    const __m512 offset = _mm512_set1_ps(-kLog2E * log_sums[i]), mean = _mm512_set1_ps(means[i]);
#pragma GCC unroll 2
    for (std::int64_t key = 0; key < kPanelColumns; key += kWords) {
      const __mmask16 seen = first_words(tile.visible + i - key);
      const __m512 power = _mm512_fmadd_ps(load(scores + key, seen), factor, offset);
      const __m512 weight = _mm512_maskz_mov_ps(seen, exp2_of(power));
      const __m512 pull = _mm512_maskz_sub_ps(seen, load(weight_grads + key, seen), mean);
      store(weights + key, first_words(kWords), weight);
      store(score_grads + key, first_words(kWords),
            _mm512_mul_ps(_mm512_mul_ps(scale, weight), pull));
    }
  }
}

STARLING_AVX512_BF16
void store_rows(const SumRows& rows, bf16* out, std::int64_t out_row) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* sums = rows.sums + i * rows.row;
    bf16* to = out + i * out_row;
    for (std::int64_t c = 0; c < rows.columns; c += kWords) {
      const __mmask16 there = first_words(rows.columns - c);
      store(to + c, there, load(sums + c, there));
    }
  }
}

STARLING_AVX512_BF16
void store_scaled_rows(const SumRows& rows, const float* scales, bf16* out, std::int64_t out_row) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* sums = rows.sums + i * rows.row;
    bf16* to = out + i * out_row;
    const __m512 scale = _mm512_set1_ps(scales[i]);
    for (std::int64_t c = 0; c < rows.columns; c += kWords) {
      const __mmask16 there = first_words(rows.columns - c);
      store(to + c, there, _mm512_mul_ps(scale, load(sums + c, there)));
    }
  }
}

STARLING_AVX512_BF16
void turn_back_rows(const SumRows& rows, const Rotations<>& rotations, std::int64_t first,
                    bf16* out, std::int64_t out_row) {
  const std::int64_t half = rows.columns / 2;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const float* cosines = rotations.cosines.data + (first + i) * half;
    const float* sines = rotations.sines.data + (first + i) * half;
    const float* sums = rows.sums + i * rows.row;
    bf16* to = out + i * out_row;
    for (std::int64_t c = 0; c < half; c += kWords) {
      const __mmask16 there = first_words(half - c);
      const __m512 cosine = load(cosines + c, there), sine = load(sines + c, there);
      const __m512 one = load(sums + c, there), other = load(sums + half + c, there);
      store(to + c, there, _mm512_fmadd_ps(one, cosine, _mm512_mul_ps(other, sine)));
      store(to + half + c, there, _mm512_fmsub_ps(other, cosine, _mm512_mul_ps(one, sine)));
    }
  }
}

STARLING_AVX512_BF16
void row_dots(const RowPairs& rows, float* dots) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const bf16* left = rows.left + i * rows.row;
    const bf16* right = rows.right + i * rows.row;
    __m512 sums = _mm512_setzero_ps();
    for (std::int64_t c = 0; c < rows.columns; c += kWords) {
      const __mmask16 there = first_words(rows.columns - c);
      sums = _mm512_fmadd_ps(load(left + c, there), load(right + c, there), sums);
    }
    dots[i] = _mm512_reduce_add_ps(sums);
  }
}

}  // namespace starling::model::avx512

#endif
