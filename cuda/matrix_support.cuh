// What kernels on the tensor cores are written in: products of tiles by one warp, matrix loads from
// shared memory, and copies to it that go on while the warp computes. Layouts of fragments: PTX
// ISA, "Matrix fragments for mma.m16n8k16 with floating point type" and "ldmatrix". With group =
// lane / 4 and part = lane % 4, a lane holds
//   of A (16, 16): rows group and group + 8, columns 2 part, 2 part + 1, and those + 8;
//   of B (16, 8):  rows 2 part, 2 part + 1, and those + 8, of column group;
//   of C (16, 8):  rows group and group + 8, columns 2 part, 2 part + 1.
#pragma once

#include "cuda/kernel_support.cuh"

namespace starling::cuda {

// Two bf16 a word, the one of the lower row or column in the lower half.
struct FragmentA {
  std::uint32_t words[4];  // (group, 2 part), (group + 8, 2 part), then the same of columns + 8
};
struct FragmentB {
  std::uint32_t words[2];  // rows 2 part, then those + 8
};
struct FragmentC {
  float values[4];  // (group, 2 part), (group, 2 part + 1), then the same of row group + 8
};

#if !defined(__CUDACC__)
namespace emulated {

// What a lane holds of both factors, as floats: of A the columns 2 part, 2 part + 1, 2 part + 8 and
// 2 part + 9 of two rows, of B the rows of these numbers.
struct Factors {
  float left[2][4], right[4];
};

inline float half_of(std::uint32_t word, unsigned which) {
  return to_float(bf16{static_cast<std::uint16_t>(word >> (16 * which))});
}

inline void multiply_add(FragmentC& sum, const FragmentA& left, const FragmentB& right) {
  Factors mine;
  for (unsigned k = 0; k < 4; ++k) {
    mine.left[0][k] = half_of(left.words[k / 2 * 2], k % 2);
    mine.left[1][k] = half_of(left.words[k / 2 * 2 + 1], k % 2);
    mine.right[k] = half_of(right.words[k / 2], k % 2);
  }
  const std::byte* warp = host::meet_warp("multiply_add", &mine, sizeof(mine));
  const unsigned group = lane_index() / 4, part = lane_index() % 4;
  for (unsigned from = 0; from < 4; ++from) {
    const auto rows = host::from_lane<Factors>(warp, group * 4 + from);
    for (unsigned column = 0; column < 2; ++column) {
      const auto factor = host::from_lane<Factors>(warp, (2 * part + column) * 4 + from);
      for (unsigned k = 0; k < 4; ++k) {
        sum.values[column] += rows.left[0][k] * factor.right[k];
        sum.values[2 + column] += rows.left[1][k] * factor.right[k];
      }
    }
  }
}

inline void load_matrices(std::uint32_t (&words)[4], const bf16* row, bool transposed) {
  host::require(host::is_shared(row, 16), "a matrix load past shared memory");
  check_aligned(row, 16);
  const std::byte* warp = host::meet_warp("load_matrices", &row, sizeof(row));
  const unsigned group = lane_index() / 4, part = lane_index() % 4;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    const auto at = [&](unsigned r, unsigned c) -> std::uint32_t {
      return host::from_lane<const bf16*>(warp, matrix * 8 + r)[c].bits;
    };
    words[matrix] = transposed ? at(2 * part, group) | at(2 * part + 1, group) << 16
                               : at(group, 2 * part) | at(group, 2 * part + 1) << 16;
  }
}

}  // namespace emulated
#endif

// sum += left * right. Volatile, or it might be moved to where only some lanes of the warp come by:
// those that use it.
__device__ __forceinline__ void multiply_add(FragmentC& sum, const FragmentA& left,
                                             const FragmentB& right) {
#if defined(__CUDA_ARCH__)
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum.values[0]), "+f"(sum.values[1]), "+f"(sum.values[2]), "+f"(sum.values[3])
      : "r"(left.words[0]), "r"(left.words[1]), "r"(left.words[2]), "r"(left.words[3]),
        "r"(right.words[0]), "r"(right.words[1]));
#elif !defined(__CUDACC__)
  emulated::multiply_add(sum, left, right);
#endif
}

#if defined(__CUDACC__)
__device__ __forceinline__ std::uint32_t shared_address(const void* data) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(data));
}
#endif

// Four matrices (8, 8): lane i points to row i % 8 of matrix i / 8. Word m has of matrix m row
// group, columns 2 part and 2 part + 1; transposed: column group, rows 2 part and 2 part + 1.
template <bool kTransposed = false>
__device__ __forceinline__ void load_matrices(std::uint32_t (&words)[4], const bf16* row) {
#if defined(__CUDA_ARCH__)
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
#elif !defined(__CUDACC__)
  emulated::load_matrices(words, row, kTransposed);
#endif
}

// Copies 16 bytes to shared memory, of which only the first `bytes` are read and the others become
// zeros. Both places are aligned to 16 bytes.
__device__ __forceinline__ void copy_async(void* shared, const void* global, unsigned bytes = 16) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(bytes)
               : "memory");
#elif !defined(__CUDACC__)
  host::copy_async(shared, global, bytes);
#endif
}
// One float; zero unless it exists.
__device__ __forceinline__ void copy_float_async(float* shared, const float* global, bool exists) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(exists ? 4 : 0)
               : "memory");
#elif !defined(__CUDACC__)
  host::copy_async(shared, global, exists ? sizeof(float) : 0, sizeof(float));
#endif
}
// The copies since the last commit are a group.
__device__ __forceinline__ void commit_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#elif !defined(__CUDACC__)
  host::commit_copies();
#endif
}
// Until at most the last kPending groups of this thread are under way. Others see what was copied
// after a barrier.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#elif !defined(__CUDACC__)
  host::wait_copies(kPending);
#endif
}

}  // namespace starling::cuda
