#include "tests/support/cuda_on_host.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "cuda/matrix_support.cuh"

namespace starling::cuda {

namespace {

using cuda_on_host::Order;

struct InOrder {
  explicit InOrder(Order order) { cuda_on_host::set_order(order); }
  ~InOrder() { cuda_on_host::set_order(Order::kForward); }
};

template <class... Params, class... Args>
std::string error_of(const Launch& how, void (*kernel)(Params...), const Args&... args) {
  try {
    launch(how, kernel, args...);
  } catch (const cuda_on_host::Error& error) {
    return error.what();
  }
  return "";
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

__global__ void reverse_blocks(float* values, bool waits) {
  STARLING_SHARED(float, mine, 64);
  const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  mine[threadIdx.x] = values[at];
  if (waits) __syncthreads();
  values[at] = mine[blockDim.x - 1 - threadIdx.x];
}

std::vector<float> reversed_blocks(bool waits, Order order) {
  const InOrder in_order(order);
  std::vector<float> values(128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  launch({.operation = "reverse", .blocks = {2, 1, 1}, .threads = 64}, reverse_blocks,
         values.data(), waits);
  return values;
}

__global__ void some_wait(bool divergent) {
  if (!divergent || threadIdx.x < 40) __syncthreads();
}

__global__ void some_shuffle(float* out) {
  if (lane_index() < 31) out[threadIdx.x] = shuffle_xor(1.0F, 1);
}

__global__ void mixed_operations(float* out) {
  out[threadIdx.x] = lane_index() < 16 ? shuffle(1.0F, 0) : shuffle_xor(1.0F, 1);
}

__global__ void write_at(unsigned index) {
  STARLING_SHARED(int, values, 32);
  values[index] = 1;
}

__global__ void sums(float* out) {
  const auto value = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = block_sum(value) + 10000.0F * block_max(value) + warp_sum<4>(0.125F);
}

__global__ void copy_then_read(const float* in, float* out, bool waits) {
  STARLING_DYNAMIC_SHARED(memory);
  auto* tile = reinterpret_cast<float*>(memory);
  copy_async(tile + threadIdx.x * 4, in + threadIdx.x * 4, threadIdx.x == 31 ? 8 : 16);
  commit_copies();
  if (waits) wait_copies<0>();
  sync_warp();
  const unsigned neighbour = (threadIdx.x + 1) % 32;
  for (unsigned i = 0; i < 4; ++i) out[neighbour * 4 + i] = tile[neighbour * 4 + i];
}

// out (16, 8) = left (16, 16) * right (16, 8); right^T is given where it is read transposed.
template <bool kTransposed>
__global__ void multiply_tiles(const bf16* left, const bf16* right, float* out) {
  STARLING_DYNAMIC_SHARED(memory);
  auto* tile = reinterpret_cast<bf16*>(memory);
  auto* factor = tile + 256;
  for (unsigned i = threadIdx.x; i < 256; i += kWarp) tile[i] = left[i];
  for (unsigned i = threadIdx.x; i < 128; i += kWarp) factor[i] = right[i];
  sync_warp();
  const unsigned lane = lane_index(), row = lane % 8, matrix = lane / 8;
  FragmentA a;
  load_matrices(a.words, tile + (row + matrix % 2 * 8) * 16 + matrix / 2 * 8);
  std::uint32_t words[4];
  const bf16* at =
      kTransposed ? factor + (row + matrix % 2 * 8) * 8 : factor + row * 16 + matrix % 2 * 8;
  load_matrices<kTransposed>(words, at);
  FragmentC sum{};
  multiply_add(sum, a, {{words[0], words[1]}});
  for (unsigned i = 0; i < 4; ++i) {
    out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum.values[i];
  }
}

__global__ void load_past_the_end(float* out) {
  STARLING_DYNAMIC_SHARED(memory);
  std::uint32_t words[4];
  load_matrices(words, reinterpret_cast<bf16*>(memory) + lane_index() * 8);
  out[lane_index()] = static_cast<float>(words[0]);
}

__global__ void load_misaligned(const float* in, float* out) {
  out[threadIdx.x] = load_pack<4>(in + 1).values[0];
}

}  // namespace

TEST_CASE("threads meet at barriers whatever the order they run in") {
  const auto forward = reversed_blocks(true, Order::kForward);
  CHECK(forward == reversed_blocks(true, Order::kBackward));
  for (std::size_t i = 0; i < 128; ++i) {
    CHECK(forward[i] == static_cast<float>(i / 64 * 64 + 63 - i % 64));
  }
}

TEST_CASE("a missing barrier shows as what was never written") {
  for (const Order order : {Order::kForward, Order::kBackward}) {
    bool missed = false;
    for (const float value : reversed_blocks(false, order)) missed |= std::isnan(value);
    CHECK(missed);
  }
}

TEST_CASE("what only some threads come to is an error that names the kernel") {
  std::vector<float> out(64);
  const Launch two_warps{.operation = "apart", .blocks = {3, 1, 1}, .threads = 64};
  CHECK(error_of(two_warps, some_wait, false).empty());
  const std::string barrier = error_of(two_warps, some_wait, true);
  CHECK(holds(barrier, "apart, block (0, 0, 0): only 40 of 64 threads came to a barrier"));
  CHECK(holds(error_of(two_warps, some_shuffle, out.data()), "only 31 lanes of a warp came to"));
  CHECK(holds(error_of(two_warps, mixed_operations, out.data()), "different operations"));
  CHECK(holds(error_of({.operation = "few", .threads = 40}, some_wait, false), "not of 1 to 32"));
  CHECK(error_of(two_warps, some_wait, false).empty());  // the next launch is not touched
}

TEST_CASE("what is out of bounds or misaligned is an error") {
  std::vector<float> values(128);
  CHECK(error_of({.operation = "write"}, write_at, 31U).empty());
  CHECK(holds(error_of({.operation = "write"}, write_at, 32U), "past a shared array"));
  CHECK(holds(error_of({.shared_bytes = 500}, load_past_the_end, values.data()), "past shared"));
  CHECK(error_of({.shared_bytes = 512}, load_past_the_end, values.data()).empty());
  CHECK(holds(error_of({.shared_bytes = 500}, copy_then_read, values.data(), values.data(), true),
              "past shared"));
  alignas(16) float aligned[8] = {};
  CHECK(holds(error_of({}, load_misaligned, aligned, values.data()), "misaligned"));
}

TEST_CASE("sums and maxima of a block reach every thread") {
  std::vector<float> out(96);
  launch({.threads = 96}, sums, out.data());
  for (const float value : out) CHECK(value == 95 * 48 + 10000.0F * 95 + 0.5F);
}

TEST_CASE(
    "an asynchronous copy may come as late as the wait for it, and as early as it was asked") {
  std::vector<float> storage(132, 1.0F), out(128);
  auto* in =
      reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(storage.data()) + 15) / 16 * 16);
  const Launch how{.operation = "copy", .shared_bytes = 512};
  const auto run = [&](bool waits, Order order) {
    const InOrder in_order(order);
    launch(how, copy_then_read, in, out.data(), waits);
  };
  for (const Order order : {Order::kForward, Order::kBackward}) {
    run(true, order);
    for (std::size_t i = 0; i < 128; ++i) CHECK(out[i] == (i < 126 ? 1.0F : 0.0F));
  }
  run(false, Order::kForward);
  CHECK(std::isnan(out[0]));
}

TEST_CASE("a product of tiles is that of the matrices whose fragments the lanes hold") {
  Rng rng(1);
  std::vector<bf16> left(256), right(128), right_transposed(128);
  for (bf16& value : left) value = to_bf16(static_cast<float>(rng.normal()));
  for (std::size_t k = 0; k < 16; ++k) {
    for (std::size_t n = 0; n < 8; ++n) {
      right[k * 8 + n] = to_bf16(static_cast<float>(rng.normal()));
      right_transposed[n * 16 + k] = right[k * 8 + n];
    }
  }
  std::vector<float> out(128), same(128);
  const Launch how{.operation = "multiply", .shared_bytes = 768};
  launch(how, multiply_tiles<true>, left.data(), right.data(), out.data());
  launch(how, multiply_tiles<false>, left.data(), right_transposed.data(), same.data());
  CHECK(out == same);
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t n = 0; n < 8; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < 16; ++k) {
        sum += static_cast<double>(to_float(left[row * 16 + k])) * to_float(right[k * 8 + n]);
      }
      CHECK(out[row * 8 + n] == doctest::Approx(sum).epsilon(1e-5));
    }
  }
}

}  // namespace starling::cuda
