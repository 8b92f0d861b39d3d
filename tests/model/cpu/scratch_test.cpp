#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "base/cpu_device.h"
#include "base/thread_team.h"
#include "model/cpu/cpu_layer_ops.h"
#include "model/cpu/cpu_scratch.h"
#include "model/init.h"
#include "model/llama.h"
#include "tests/model/cpu/plain_gemm_kernel.h"

namespace starling::model {

namespace {

// Of this process: what it may write to, whether it was touched or not.
std::int64_t data_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0;
  for (int field = 0; field < 6; ++field) statm >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

// What new takes besides; the address sanitizer also keeps what was freed.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kBesides = 4 << 20;
#else
constexpr std::int64_t kBesides = 1 << 20;
#endif

std::vector<Compute> computes() {
  if (has_bf16()) return {Compute::kFp32, Compute::kBf16};
  MESSAGE("bf16 skipped: this processor has no arithmetic for it");
  return {Compute::kFp32};
}

}  // namespace

TEST_CASE("the CPU's scratch is cut into pieces that do not overlap, in whole pages") {
  const StepShape shape{.longest = {.tokens = 1000, .head_width = 64}, .width = 500};
  for (const GemmKernel* kernel : {static_cast<const GemmKernel*>(nullptr), &kPlainRows}) {
    const CpuScratch plan(kernel, 3, shape);
    CHECK(plan.of_worker() >= sizeof(float) * 1000);
    for (int worker = 0; worker < 3; ++worker) {
      CHECK(plan.worker_at(worker) % 4096 == 0);
      CHECK(plan.worker_at(worker) + plan.of_worker() == plan.worker_at(worker + 1));
    }
    CHECK(plan.gain_parts_at() == plan.worker_at(3));
    CHECK(plan.bytes() - plan.gain_parts_at() >= sizeof(float) * 500 * kGainPartsMax);
    CHECK(plan.no_room(shape).message().find("sequences of up to 1000 tokens") !=
          std::string::npos);
  }
}

TEST_CASE("the CPU's operations take the memory that they tell, for any shape and threads") {
  for (const Compute compute : computes()) {
    for (const int threads : {1, 3, 8}) {
      for (const HeadShape& longest :
           {HeadShape{.tokens = 9000, .head_width = 64}, HeadShape{.tokens = 16384},
            HeadShape{.tokens = 8193, .heads = 4, .kv_heads = 2, .head_width = 200}}) {
        CAPTURE(static_cast<int>(compute));
        CAPTURE(threads);
        CAPTURE(longest.tokens);
        ThreadTeam team(threads);
        const auto ops = make_cpu_layer_ops(team, compute);
        const StepShape shape{.longest = longest};
        const std::size_t told = ops->scratch_bytes(shape);
        CHECK(told == cpu_scratch_bytes(compute, threads, shape));
        const std::int64_t before = data_bytes();
        REQUIRE(ops->reserve(shape).ok());
        const std::int64_t taken = data_bytes() - before;
        CHECK(taken <= static_cast<std::int64_t>(told) + kBesides);
        CHECK(static_cast<std::int64_t>(told) <= 2 * taken);
      }
    }
  }
}

TEST_CASE("a step takes no memory of the CPU's operations that was not told") {
  const LlamaConfig config{.vocabulary = 64,
                           .width = 128,
                           .layers = 1,
                           .heads = 2,
                           .kv_heads = 1,
                           .ffn = 96,
                           .context = 4096};
  const BatchShape batch{.sequences = 1, .tokens = 2048};
  const ParamLayout layout = ParamLayout::plan(config, 1).value();
  std::vector<float> params(layout.elements()), gradients(layout.elements());
  initialise(layout, 1, params);
  const std::vector<std::int32_t> tokens(2048, 7);
  for (const Compute compute : computes()) {
    CAPTURE(static_cast<int>(compute));
    ThreadTeam team(4);
    CpuDevice device;
    const auto ops = make_cpu_layer_ops(team, compute);
    const std::int64_t before = data_bytes();
    auto llama = Llama::create(config, layout, batch, device, *ops).value();
    const std::size_t told = Llama::activation_bytes(config, batch, ops->activations()) +
                             ops->scratch_bytes(step_shape(config, batch, layout.elements()));
    const std::int64_t created = data_bytes();
    CHECK(created - before <= static_cast<std::int64_t>(told) + kBesides);
    CHECK(static_cast<std::int64_t>(told) <= 2 * (created - before));
    for (int step = 0; step < 3; ++step) {
      llama.forward_backward({params.data(), params.size()}, {gradients.data(), gradients.size()},
                             {tokens, tokens}, 1);
    }
    // In fp32 oneDNN leaves some of its own behind.
    if (compute == Compute::kBf16) CHECK(data_bytes() - created <= kBesides);
  }
}

TEST_CASE("room for more threads, longer sequences or wider heads is told as more") {
  const auto bytes = [](Compute compute, int threads, std::int64_t tokens, std::int64_t width) {
    return cpu_scratch_bytes(compute, threads,
                             {.longest = {.tokens = tokens, .head_width = width}});
  };
  // Where this machine has no bf16, that of others is told.
  for (const Compute compute : {Compute::kFp32, Compute::kBf16}) {
    CHECK(bytes(compute, 5, 1000, 64) > bytes(compute, 4, 1000, 64));
    CHECK(bytes(compute, 4, 2000, 64) > bytes(compute, 4, 1000, 64));
  }
  CHECK(bytes(Compute::kBf16, 4, 1000, 128) > bytes(Compute::kBf16, 4, 1000, 64));
  // As packed_attention.h and packed_gemm.h say, about.
  const double formula = 8.0 * 4096 * (700 + 14 * 64) + (4 << 20) + 8 * 0.3 * (1 << 20);
  const double told = static_cast<double>(bytes(Compute::kBf16, 8, 4096, 64));
  CHECK(told == doctest::Approx(formula).epsilon(0.1));
}

TEST_CASE("scratch that the system has not is an error that names what to lower, not an end") {
  for (const Compute compute : computes()) {
    ThreadTeam team(2);
    const auto ops = make_cpu_layer_ops(team, compute);
    const StepShape absurd{.longest = {.tokens = std::int64_t{1} << 40, .head_width = 64}};
    const Status refused = ops->reserve(absurd);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == ErrorCode::kExhausted);
    const std::string& message = refused.error().message();
    CAPTURE(message);
    CHECK(message.find(std::to_string(ops->scratch_bytes(absurd) >> 20) + " MiB") !=
          std::string::npos);
    CHECK(message.find("2 threads") != std::string::npos);
    CHECK(message.find("lower device.threads, batch.tokens or model.context") != std::string::npos);
    CHECK(ops->reserve({.longest = {.tokens = 64, .head_width = 64}}).ok());
  }
}

}  // namespace starling::model
