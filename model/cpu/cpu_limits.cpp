#include "model/cpu/cpu_limits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <array>
#include <utility>

#include "base/bf16.h"
#include "model/cpu/gemm_kernel.h"

namespace starling::model {

namespace {

// Independent sums: enough to hide an instruction's latency behind the others, few enough for the
// registers there are. Each tends to kSum / (1 - kFactor), so that none gets very large or small.
constexpr std::size_t kSums = 12;
constexpr float kFactor = 0.5F, kSum = 0.25F;

float portable_rounds(std::int64_t rounds) {
  std::array<float, 32> sums{};
  float factor = kFactor;
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (float& sum : sums) sum = sum * factor + kSum;
  }
  float all = 0;
  for (const float sum : sums) all += sum;
  return all;
}

#if defined(__x86_64__)

// One instruction for each sum. A pack instead of a loop: always unrolled, always in registers.
template <std::size_t... I>
[[gnu::always_inline, gnu::target("avx2,fma")]] inline void add_products(
    __m256 (&sums)[kSums], __m256 factor, __m256 term, std::index_sequence<I...>) {
  ((sums[I] = _mm256_fmadd_ps(sums[I], factor, term)), ...);
}

[[gnu::target("avx2,fma")]] float fma256_rounds(std::int64_t rounds) {
  __m256 sums[kSums];
  for (__m256& sum : sums) sum = _mm256_set1_ps(0);
  const __m256 factor = _mm256_set1_ps(kFactor), term = _mm256_set1_ps(kSum);
  for (std::int64_t round = 0; round < rounds; ++round) {
    add_products(sums, factor, term, std::make_index_sequence<kSums>());
  }
  __m256 all = sums[0];
  for (std::size_t i = 1; i < kSums; ++i) all = _mm256_add_ps(all, sums[i]);
  return _mm256_cvtss_f32(all);
}

template <std::size_t... I>
[[gnu::always_inline, gnu::target("avx512f")]] inline void add_products(__m512 (&sums)[kSums],
                                                                        __m512 factor, __m512 term,
                                                                        std::index_sequence<I...>) {
  ((sums[I] = _mm512_fmadd_ps(sums[I], factor, term)), ...);
}

[[gnu::target("avx512f")]] float fma512_rounds(std::int64_t rounds) {
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = _mm512_set1_ps(0);
  const __m512 factor = _mm512_set1_ps(kFactor), term = _mm512_set1_ps(kSum);
  for (std::int64_t round = 0; round < rounds; ++round) {
    add_products(sums, factor, term, std::make_index_sequence<kSums>());
  }
  __m512 all = sums[0];
  for (std::size_t i = 1; i < kSums; ++i) all = _mm512_add_ps(all, sums[i]);
  return _mm512_cvtss_f32(all);
}

template <std::size_t... I>
[[gnu::always_inline, gnu::target("avx512f,avx512bf16")]] inline void add_bf16_products(
    __m512 (&sums)[kSums], __m512bh left, __m512bh right, std::index_sequence<I...>) {
  ((sums[I] = _mm512_dpbf16_ps(sums[I], left, right)), ...);
}

[[gnu::target("avx512f,avx512bf16")]] float bf16_rounds(std::int64_t rounds) {
  __m512 sums[kSums];
  for (__m512& sum : sums) sum = _mm512_set1_ps(0);
  const __m512 values = _mm512_set1_ps(kSum);
  const __m512bh left = _mm512_cvtne2ps_pbh(values, values), right = left;
  for (std::int64_t round = 0; round < rounds; ++round) {
    add_bf16_products(sums, left, right, std::make_index_sequence<kSums>());
  }
  __m512 all = sums[0];
  for (std::size_t i = 1; i < kSums; ++i) all = _mm512_add_ps(all, sums[i]);
  return _mm512_cvtss_f32(all);
}

constexpr std::int64_t kTileDepth = 256;  // of a product whose operands stay in the nearest cache

struct alignas(64) TileOperand {
  std::array<bf16, 32 * kTileDepth> values;
};

// AMX has no more of its own registers than one tile of the training's kernel needs.
float amx_rounds(std::int64_t rounds) {
  TileOperand left, right;
  left.values.fill(to_bf16(kSum));
  right.values.fill(to_bf16(kSum));
  alignas(64) std::array<float, 32 * kPanelColumns> sums{};
  const GemmKernel& kernel = *gemm_kernels().back();
  float all = 0;
  kernel.begin();
  for (std::int64_t round = 0; round < rounds; ++round) {
    kernel.multiply({left.values.data(), kTileDepth * std::int64_t{sizeof(bf16)}},
                    right.values.data(), kTileDepth,
                    {.sums = sums.data(), .stride = kPanelColumns, .rows = 32});
    all += sums[0];
  }
  kernel.end();
  return all;
}

#endif

constexpr double operations_of(double values) { return 2.0 * kSums * values; }

}  // namespace

std::vector<ComputeLoop> fp32_loops() {
  std::vector<ComputeLoop> loops{{"plain", 2.0 * 32, portable_rounds}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    loops.push_back({"fma, 256 bits", operations_of(8), fma256_rounds});
  }
  if (__builtin_cpu_supports("avx512f")) {
    loops.push_back({"fma, 512 bits", operations_of(16), fma512_rounds});
  }
#endif
  return loops;
}

std::vector<ComputeLoop> bf16_loops() {
  std::vector<ComputeLoop> loops;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) {
    loops.push_back({"vdpbf16ps, 512 bits", operations_of(32), bf16_rounds});
  }
  if (!gemm_kernels().empty() && gemm_kernels().back()->reads_rows) {
    loops.push_back({"AMX", 2.0 * 32 * kPanelColumns * kTileDepth, amx_rounds});
  }
#endif
  return loops;
}

#if defined(__x86_64__)

void copy_through_caches(float* target, const float* source, std::size_t count) {
  // Times one that the compiler does not know to be one: it would call memcpy, which may well go
  // past the caches.
  const __m128 one = _mm_cvtepi32_ps(_mm_set1_epi32(count > 0 ? 1 : 0));
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    _mm_storeu_ps(target + i, _mm_mul_ps(one, _mm_loadu_ps(source + i)));
  }
  for (; i < count; ++i) target[i] = source[i];
}

void copy_past_caches(float* target, const float* source, std::size_t count) {
  std::size_t i = 0;
  while (i < count && reinterpret_cast<std::uintptr_t>(target + i) % 16 != 0) {
    target[i] = source[i];
    ++i;
  }
  for (; i + 4 <= count; i += 4) _mm_stream_ps(target + i, _mm_loadu_ps(source + i));
  _mm_sfence();
  for (; i < count; ++i) target[i] = source[i];
}

#else

void copy_through_caches(float* target, const float* source, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] = source[i];
}

void copy_past_caches(float* target, const float* source, std::size_t count) {
  copy_through_caches(target, source, count);
}

#endif

}  // namespace starling::model
