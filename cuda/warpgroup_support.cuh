// Products by a warpgroup, which only Hopper has: four warps that begin at a multiple of four
// multiply 64 rows, 16 each, by a matrix in shared memory, and go on while that is computed. PTX
// ISA, "Asynchronous warpgroup level matrix instructions": wgmma of shape m64n64k16, the fragments
// of registers (those of matrix_support.cuh for each warp), and matrices of 128-byte swizzling.
//
// A matrix in shared memory is rows of 64 bf16, 128 bytes, aligned to 1024 bytes; the 16 bytes
// number c of row r lie at number c ^ (r % 8). The emulator computes at once: it does not show a
// matrix that is overwritten, or a result that is read, too early.
#pragma once

#include "cuda/matrix_support.cuh"

// Which code has it: that for sm_90a, which runs on compute capability 9.0 alone.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define STARLING_WARPGROUP_PRODUCTS 1
#else
#define STARLING_WARPGROUP_PRODUCTS 0
#endif

namespace starling::cuda {

inline constexpr unsigned kGroupRows = 64;     // of a warpgroup's result
inline constexpr unsigned kGroupColumns = 64;  // of it, and of a matrix in shared memory
using GroupResult = FragmentC[kGroupColumns / 8];

// Columns of 16 from `first` on, of as many rows as are read; or, transposed, 16 rows from there.
struct SwizzledPart {
  const bf16* first;
};

#if STARLING_WARPGROUP_PRODUCTS
// Rows follow each other in eights, 1024 bytes apart; what leads has no meaning for one matrix.
__device__ __forceinline__ std::uint64_t descriptor_of(SwizzledPart part) {
  constexpr std::uint64_t kEights = 1024 >> 4, kSwizzled128 = 1;
  const std::uint64_t start = (shared_address(part.first) & 0x3FFFF) >> 4;
  return start | kEights << 16 | kEights << 32 | kSwizzled128 << 62;
}
#endif

#if !defined(__CUDACC__)
namespace emulated {

inline bf16 swizzled_at(SwizzledPart part, unsigned row, unsigned column) {
  const auto linear =
      reinterpret_cast<std::uintptr_t>(part.first) + row * 128 + column * sizeof(bf16);
  const auto* at = reinterpret_cast<const bf16*>(linear ^ ((linear >> 3) & 0x70));
  host::require(host::is_shared(at, sizeof(bf16)), "a matrix past shared memory");
  return *at;
}

// `right` (16, 64), stored so if transposed, and else as (64, 16).
inline void multiply_group(GroupResult& sum, const FragmentA& left, SwizzledPart right, bool adds,
                           bool transposed) {
  const std::byte* warp = host::meet_warp("multiply_group", &left, sizeof(left));
  const unsigned group = lane_index() / 4, part = lane_index() % 4;
  float rows[2][16];
  for (unsigned k = 0; k < 16; ++k) {
    const auto from = host::from_lane<FragmentA>(warp, group * 4 + k % 8 / 2);
    for (unsigned half = 0; half < 2; ++half) {
      rows[half][k] = half_of(from.words[k / 8 * 2 + half], k % 2);
    }
  }
  for (unsigned i = 0; i < kGroupColumns / 8; ++i) {
    for (unsigned v = 0; v < 4; ++v) {
      const unsigned column = i * 8 + part * 2 + v % 2;
      float value = adds ? sum[i].values[v] : 0.0F;
      for (unsigned j = 0; j < 16; ++j) {  // in the order of emulated::multiply_add()
        const unsigned k = j / 4 * 2 + j % 2 + j % 4 / 2 * 8;
        const bf16 factor =
            transposed ? swizzled_at(right, k, column) : swizzled_at(right, column, k);
        value += rows[v / 2][k] * to_float(factor);
      }
      sum[i].values[v] = value;
    }
  }
}

// What this lane's warp would hold of a left factor that is in shared memory.
inline FragmentA left_of(SwizzledPart left) {
  const unsigned row = warp_index() % 4 * 16 + lane_index() / 4, part = lane_index() % 4;
  FragmentA fragment;
  for (unsigned word = 0; word < 4; ++word) {
    const unsigned r = row + word % 2 * 8, c = word / 2 * 8 + part * 2;
    fragment.words[word] = swizzled_at(left, r, c).bits |
                           static_cast<std::uint32_t>(swizzled_at(left, r, c + 1).bits) << 16;
  }
  return fragment;
}

}  // namespace emulated
#endif

// Registers that products read or write are settled; before the first product of a group. Code for
// other GPUs ends here: whoever launches it there has made a mistake.
__device__ __forceinline__ void begin_group_products() {
#if STARLING_WARPGROUP_PRODUCTS
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#elif defined(__CUDA_ARCH__)
  __trap();
#endif
}
__device__ __forceinline__ void commit_group_products() {
#if STARLING_WARPGROUP_PRODUCTS
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Until at most the last kPending commits are under way.
template <int kPending = 0>
__device__ __forceinline__ void wait_group_products() {
#if STARLING_WARPGROUP_PRODUCTS
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}
// Keeps the compiler from reading a result, or settling one, on the other side of a wait.
template <unsigned kFragments>
__device__ __forceinline__ void keep_in_order([[maybe_unused]] FragmentC (&result)[kFragments]) {
#if STARLING_WARPGROUP_PRODUCTS
  STARLING_UNROLL
  for (FragmentC& each : result) {
    asm volatile(""
                 : "+f"(each.values[0]), "+f"(each.values[1]), "+f"(each.values[2]),
                   "+f"(each.values[3])::"memory");
  }
#endif
}
// What this thread wrote to shared memory is seen by products that begin after the next barrier.
__device__ __forceinline__ void publish_to_products() {
#if STARLING_WARPGROUP_PRODUCTS
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#define STARLING_RESULT_4(f) \
  "+f"(f.values[0]), "+f"(f.values[1]), "+f"(f.values[2]), "+f"(f.values[3])
#define STARLING_RESULT_32(r)                                                    \
  STARLING_RESULT_4(r[0]), STARLING_RESULT_4(r[1]), STARLING_RESULT_4(r[2]),     \
      STARLING_RESULT_4(r[3]), STARLING_RESULT_4(r[4]), STARLING_RESULT_4(r[5]), \
      STARLING_RESULT_4(r[6]), STARLING_RESULT_4(r[7])
#define STARLING_WGMMA "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
#define STARLING_WGMMA_RESULT                                                                   \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "

// sum (64, 64) = left * right, added to what there is if `adds`: begun, and done when waited for.
// kTransposed: `right` is stored as (16, 64), else as (64, 16).
template <bool kTransposed>
__device__ __forceinline__ void multiply_group(GroupResult& sum, const FragmentA& left,
                                               SwizzledPart right, bool adds) {
#if STARLING_WARPGROUP_PRODUCTS
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n" STARLING_WGMMA STARLING_WGMMA_RESULT
      "{%32, %33, %34, %35}, %36, adds, 1, 1, %38;\n}"
      : STARLING_RESULT_32(sum)
      : "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3]),
        "l"(descriptor_of(right)), "r"(static_cast<int>(adds)), "n"(kTransposed ? 1 : 0));
#elif !defined(__CUDACC__)
  emulated::multiply_group(sum, left, right, adds, kTransposed);
#endif
}
// `left`: the 64 rows of the group.
template <bool kTransposed>
__device__ __forceinline__ void multiply_group(GroupResult& sum, SwizzledPart left,
                                               SwizzledPart right, bool adds) {
#if STARLING_WARPGROUP_PRODUCTS
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %34, 0;\n" STARLING_WGMMA STARLING_WGMMA_RESULT
      "%32, %33, adds, 1, 1, 0, %35;\n}"
      : STARLING_RESULT_32(sum)
      : "l"(descriptor_of(left)), "l"(descriptor_of(right)), "r"(static_cast<int>(adds)),
        "n"(kTransposed ? 1 : 0));
#elif !defined(__CUDACC__)
  emulated::multiply_group(sum, emulated::left_of(left), right, adds, kTransposed);
#endif
}

#undef STARLING_RESULT_4
#undef STARLING_RESULT_32
#undef STARLING_WGMMA
#undef STARLING_WGMMA_RESULT

}  // namespace starling::cuda
