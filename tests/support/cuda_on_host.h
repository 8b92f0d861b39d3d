// CUDA on the host, for tests: what cuda/kernel_support.cuh needs to run kernels without a GPU.
//
// A launch runs block after block. The threads of a block are fibers on the caller's thread: each
// runs on until it waits at a barrier or for its warp, so that threads drift apart as far as CUDA
// allows, and always in the same order. A test runs a kernel in both orders: what the results
// differ in, or what is NaN, was read without a barrier. Found at once, as an Error that names the
// kernel: barriers and warp operations that not all threads reach, and accesses of shared arrays,
// asynchronous copies and matrix loads out of bounds or out of alignment. Shared memory begins as
// NaNs, and is one allocation a block, whose bounds the address sanitizer sees.
//
// Thread: any, one at a time. Not for kernels whose threads wait for other blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// Of the fiber that runs.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads();

namespace starling::cuda_on_host {

class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// kForward: warps and blocks from the first on, asynchronous copies as late as they may be.
// kBackward: from the last on, copies at once.
enum class Order : std::uint8_t { kForward, kBackward };
void set_order(Order order);

struct Grid {
  const char* kernel = "";
  dim3 blocks = {};
  unsigned threads = 1;  // of a block: whole warps
  std::size_t shared_bytes = 0;
};
// `body` is one thread.
void run(const Grid& grid, const std::function<void()>& body);

// --- called by kernels ---

// Throws away the launch; run() throws an Error that says where.
[[noreturn]] void fail(const char* what);
inline void require(bool holds, const char* what) {
  if (!holds) fail(what);
}

inline constexpr unsigned kWarpLanes = 32;
inline constexpr std::size_t kLaneBytes = 48;  // at most what a lane gives at a time
// Waits for the whole warp; what its lanes gave, until this lane's next call. `operation`, by its
// address: all lanes must be at the same.
const std::byte* meet_warp(const char* operation, const void* given, std::size_t bytes);

template <class T>
T from_lane(const std::byte* warp, unsigned lane) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  __builtin_memcpy(&value, warp + lane * kLaneBytes, sizeof(T));
  return value;
}

void* dynamic_shared();
// The block's one array of this name in this function.
void* static_shared(const char* function, const char* name, std::size_t bytes);
bool is_shared(const void* data, std::size_t bytes);

template <class T>
class SharedArray {
 public:
  SharedArray(const char* function, const char* name, std::size_t size)
      : data_(static_cast<T*>(static_shared(function, name, size * sizeof(T)))), size_(size) {}
  template <class Index>
  T& operator[](Index index) const {
    require(static_cast<std::size_t>(index) < size_, "an index past a shared array");
    return data_[index];
  }
  T* data() const { return data_; }

 private:
  T* data_;
  std::size_t size_;
};

// `size` bytes, as which both places are aligned, and of which the last ones become zeros where
// fewer count.
void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t size = 16);
void commit_copies();
// Until only the last `pending` committed groups may be under way.
void wait_copies(std::size_t pending);

}  // namespace starling::cuda_on_host
