// What kernels are written in: the words of CUDA that they use, each once for the device (CUDA's
// own, or the PTX instruction named) and once for tests on the host, which define
// STARLING_CUDA_EMULATOR as the header that stands in for CUDA's. Kernels use nothing else of CUDA
// but __global__, __device__, __launch_bounds__, __syncthreads() and the four indices.
//
// Blocks are whole warps, and every lane takes part in each warp operation. Pointers that are read
// or written 16 bytes at a time are aligned to 16 bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/bf16.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include "cuda/cuda_check.h"
#if !defined(__CUDACC_RELAXED_CONSTEXPR__)
#error "base/bf16.h needs --expt-relaxed-constexpr: without it nvcc drops what follows a call"
#endif
#else
#include STARLING_CUDA_EMULATOR
#endif

// STARLING_SHARED(float, sums, 32): an array of the block.
// STARLING_DYNAMIC_SHARED(tile): a std::byte*, as many bytes as the launch says, aligned to 1024.
#if defined(__CUDACC__)
#define STARLING_SHARED(type, name, size) __shared__ type name[size]
#define STARLING_DYNAMIC_SHARED(name)                               \
  extern __shared__ __align__(1024) unsigned char name##_storage[]; \
  std::byte* const name = reinterpret_cast<std::byte*>(name##_storage)
#define STARLING_UNROLL _Pragma("unroll")
#else
#define STARLING_SHARED(type, name, size) \
  const ::starling::cuda_on_host::SharedArray<type> name(__PRETTY_FUNCTION__, #name, size)
#define STARLING_DYNAMIC_SHARED(name) \
  std::byte* const name = static_cast<std::byte*>(::starling::cuda_on_host::dynamic_shared())
#define STARLING_UNROLL
#endif

namespace starling::cuda {

#if !defined(__CUDACC__)
namespace host = ::starling::cuda_on_host;
#endif

inline constexpr unsigned kWarp = 32;

// --- launches: host code ---

#if defined(__CUDACC__)
struct Stream {
  cudaStream_t handle;
  Lane lane;  // that it is, for messages
};
#else
struct Stream {};
#endif

struct Launch {
  Stream stream{};
  const char* operation = "";  // for messages
  dim3 blocks = {};
  unsigned threads = kWarp;  // of a block
  std::size_t shared_bytes = 0;
};

// The last one may be smaller.
inline unsigned blocks_for(std::int64_t items, std::int64_t of_a_block) {
  return static_cast<unsigned>((items + of_a_block - 1) / of_a_block);
}
// Threads of a block that has one row: about one for each pack of kCount elements.
inline unsigned row_threads(std::int64_t columns, int count, unsigned most) {
  const std::int64_t packs = (columns + count - 1) / count;
  return std::min(blocks_for(packs, kWarp) * kWarp, most);
}

template <class... Params, class... Args>
void launch(const Launch& how, void (*kernel)(Params...), const Args&... args) {
#if defined(__CUDACC__)
  // 48 KiB, less what kernels declare themselves (block_reduce).
  constexpr std::size_t kAlwaysAllowed = 47 * 1024;
  if (how.shared_bytes > kAlwaysAllowed) {
    STARLING_CUDA(how.operation, how.stream.lane,
                  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(how.shared_bytes)));
  }
  kernel<<<how.blocks, how.threads, how.shared_bytes, how.stream.handle>>>(args...);
  check_call(cudaGetLastError(), how.operation, how.stream.lane, "launch of a kernel");
#else
  host::run({how.operation, how.blocks, how.threads, how.shared_bytes}, [&] { kernel(args...); });
#endif
}

inline void zero_bytes(Stream stream, void* data, std::size_t bytes, const char* operation) {
#if defined(__CUDACC__)
  STARLING_CUDA(operation, stream.lane, cudaMemsetAsync(data, 0, bytes, stream.handle));
#else
  static_cast<void>(stream), static_cast<void>(operation);
  __builtin_memset(data, 0, bytes);
#endif
}

// --- numbers ---

// 2^x to about 2^-22, by one instruction; results below the normal numbers are zero.
__device__ __forceinline__ float fast_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

// Two bf16 in one word, the first in its lower half.
__device__ __forceinline__ std::uint32_t pack_bf16(float first, float second) {
#if defined(__CUDA_ARCH__)
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
#else
  return to_bf16(first).bits | static_cast<std::uint32_t>(to_bf16(second).bits) << 16;
#endif
}

// to_bf16() of base/bf16.h, but for which NaN a NaN becomes.
__device__ __forceinline__ bf16 rounded(float value) {
  return {static_cast<std::uint16_t>(pack_bf16(value, 0.0F))};
}

template <class T>
__device__ __forceinline__ float load(const T* at) {
  if constexpr (sizeof(T) == 2) return to_float(*at);
  if constexpr (sizeof(T) == 4) return *at;
}
__device__ __forceinline__ void store(float* at, float value) { *at = value; }
__device__ __forceinline__ void store(bf16* at, float value) { *at = rounded(value); }

// Up to 16 bytes at a time; 8 floats, which stand beside 8 bf16, are read in two.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T values[kCount];
};

__device__ __forceinline__ void check_aligned([[maybe_unused]] const void* at,
                                              [[maybe_unused]] std::size_t alignment) {
#if !defined(__CUDACC__)
  host::require(reinterpret_cast<std::uintptr_t>(at) % alignment == 0, "a misaligned access");
#endif
}

template <int kCount, class T>
__device__ __forceinline__ Pack<T, kCount> load_pack(const T* at) {
  check_aligned(at, alignof(Pack<T, kCount>));
  return *reinterpret_cast<const Pack<T, kCount>*>(at);
}
// As floats.
template <int kCount, class T>
__device__ __forceinline__ Pack<float, kCount> load_floats(const T* at) {
  const Pack<T, kCount> loaded = load_pack<kCount>(at);
  Pack<float, kCount> values;
  STARLING_UNROLL
  for (int i = 0; i < kCount; ++i) values.values[i] = load(&loaded.values[i]);
  return values;
}
template <int kCount>
__device__ __forceinline__ void store_floats(float* at, const Pack<float, kCount>& values) {
  check_aligned(at, alignof(Pack<float, kCount>));
  *reinterpret_cast<Pack<float, kCount>*>(at) = values;
}
template <int kCount>
__device__ __forceinline__ void store_floats(bf16* at, const Pack<float, kCount>& values) {
  if constexpr (kCount == 1) {
    store(at, values.values[0]);
  } else {
    Pack<std::uint32_t, kCount / 2> packed;
    check_aligned(at, alignof(Pack<std::uint32_t, kCount / 2>));
    STARLING_UNROLL
    for (int i = 0; i < kCount / 2; ++i) {
      packed.values[i] = pack_bf16(values.values[2 * i], values.values[2 * i + 1]);
    }
    *reinterpret_cast<Pack<std::uint32_t, kCount / 2>*>(at) = packed;
  }
}

// What pack_bf16() made.
__device__ __forceinline__ Pack<float, 2> unpack_bf16(std::uint32_t packed) {
  return {to_float(bf16{static_cast<std::uint16_t>(packed)}),
          to_float(bf16{static_cast<std::uint16_t>(packed >> 16)})};
}

// --- warps ---

__device__ __forceinline__ unsigned lane_index() { return threadIdx.x % kWarp; }
__device__ __forceinline__ unsigned warp_index() { return threadIdx.x / kWarp; }

__device__ __forceinline__ void sync_warp() {
#if defined(__CUDA_ARCH__)
  __syncwarp();
#elif !defined(__CUDACC__)
  host::meet_warp("sync_warp", nullptr, 0);
#endif
}

// Bit i: whether `holds` in lane i.
__device__ __forceinline__ unsigned ballot(bool holds) {
#if defined(__CUDA_ARCH__)
  return __ballot_sync(0xFFFFFFFFU, holds);
#elif !defined(__CUDACC__)
  const std::byte* warp = host::meet_warp("ballot", &holds, sizeof(holds));
  unsigned bits = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    bits |= unsigned{host::from_lane<bool>(warp, lane)} << lane;
  }
  return bits;
#else
  return 0;
#endif
}

// The value of the lane whose index differs in these bits.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, unsigned bits) {
#if defined(__CUDA_ARCH__)
  return __shfl_xor_sync(0xFFFFFFFFU, value, bits);
#elif !defined(__CUDACC__)
  return host::from_lane<T>(host::meet_warp("shuffle_xor", &value, sizeof(T)), lane_index() ^ bits);
#else
  return value;
#endif
}
template <class T>
__device__ __forceinline__ T shuffle(T value, unsigned lane) {
#if defined(__CUDA_ARCH__)
  return __shfl_sync(0xFFFFFFFFU, value, static_cast<int>(lane));
#elif !defined(__CUDACC__)
  return host::from_lane<T>(host::meet_warp("shuffle", &value, sizeof(T)), lane % kWarp);
#else
  return value;
#endif
}

// Over groups of kLanes neighbours, a power of two; every lane has the same result, bit by bit.
template <unsigned kLanes = kWarp, class T>
__device__ __forceinline__ T warp_sum(T value) {
  STARLING_UNROLL
  for (unsigned bits = kLanes / 2; bits > 0; bits /= 2) value += shuffle_xor(value, bits);
  return value;
}
template <unsigned kLanes = kWarp>
__device__ __forceinline__ float warp_max(float value) {
  STARLING_UNROLL
  for (unsigned bits = kLanes / 2; bits > 0; bits /= 2) {
    value = fmaxf(value, shuffle_xor(value, bits));
  }
  return value;
}

// Of the whole block, for every thread; all of them call it.
template <class T, class Combine>
__device__ __forceinline__ T block_reduce(T value, T nothing, Combine combine) {
  STARLING_SHARED(T, of_warps, kWarp);
  STARLING_UNROLL
  for (unsigned bits = kWarp / 2; bits > 0; bits /= 2) {
    value = combine(value, shuffle_xor(value, bits));
  }
  __syncthreads();  // whoever called before has read
  if (lane_index() == 0) of_warps[warp_index()] = value;
  __syncthreads();
  value = lane_index() < blockDim.x / kWarp ? of_warps[lane_index()] : nothing;
  STARLING_UNROLL
  for (unsigned bits = kWarp / 2; bits > 0; bits /= 2) {
    value = combine(value, shuffle_xor(value, bits));
  }
  return value;
}
template <class T>
__device__ __forceinline__ T block_sum(T value) {
  return block_reduce(value, T(0), [](T left, T right) { return left + right; });
}
__device__ __forceinline__ float block_max(float value) {
  return block_reduce(value, -INFINITY, [](float left, float right) { return fmaxf(left, right); });
}

}  // namespace starling::cuda
