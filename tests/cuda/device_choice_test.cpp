#include "cuda/device_choice.h"

#include <doctest/doctest.h>

#include <string>

namespace starling::cuda {

namespace {

constexpr int kNeeded = 13000;

std::string refusal(const DriverAnswer& answer, int ordinal = 0) {
  const Status judged = judge_driver(answer, ordinal);
  if (judged.ok()) return "";
  CHECK(judged.error().code() == ErrorCode::kUnavailable);
  CHECK(judged.error().message().find("device.name = \"cpu\"") != std::string::npos);
  return judged.error().message();
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a machine without a driver, with an old one or without a GPU is told what to do") {
  CHECK(has(refusal({.driver = 0, .needed = kNeeded}), "install one for CUDA 13.0"));
  const std::string old = refusal({.driver = 12040, .needed = kNeeded, .problem = "whatever"});
  CHECK(has(old, "of CUDA 12.4, this program needs 13.0"));
  CHECK(has(old, "update the driver"));
  const std::string hidden =
      refusal({.driver = 13000, .needed = kNeeded, .problem = "no CUDA-capable device"});
  CHECK(has(hidden, "no CUDA-capable device"));
  CHECK(has(hidden, "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("a driver of the same major version serves, older or newer") {
  CHECK(refusal({.driver = 13000, .needed = 13020, .gpus = 1}).empty());
  CHECK(refusal({.driver = 13020, .needed = 13000, .gpus = 1}).empty());
  CHECK(refusal({.driver = 14000, .needed = 13000, .gpus = 1}).empty());
}

TEST_CASE("an ordinal beyond the GPUs is told which there are") {
  const DriverAnswer one{.driver = 13000, .needed = kNeeded, .gpus = 1};
  const DriverAnswer four{.driver = 13000, .needed = kNeeded, .gpus = 4};
  CHECK(refusal(four, 3).empty());
  CHECK(has(refusal(four, 4), "cuda:4 does not exist; there are cuda:0 to cuda:3"));
  CHECK(has(refusal(one, 1), "there is only cuda:0"));
  CHECK(has(refusal(four, -1), "does not exist"));
}

TEST_CASE("a GPU older than Ampere is refused by name") {
  const GpuFacts turing{.name = "Quadro RTX 4000", .major = 7, .minor = 5, .memory = 8UL << 30};
  const Status judged = judge_gpu(turing, 1, kNeeded);
  REQUIRE(!judged.ok());
  CHECK(has(judged.error().message(), "cuda:1 (Quadro RTX 4000, sm_75, 8.0 GiB) is too old"));
  CHECK(judge_gpu({.name = "A100", .major = 8}, 0, kNeeded).ok());
}

// "CUDA Compatibility", minor version compatibility: older drivers run machine code of their major
// version, and translate no newer PTX.
TEST_CASE("a GPU newer than the module's machine code needs a driver as new as its PTX") {
  GpuFacts facts{.name = "B200", .major = 10, .memory = 180UL << 30, .driver = kNeeded};
  CHECK(judge_gpu(facts, 0, kNeeded).ok());
  const Status judged = judge_gpu(facts, 0, kNeeded + 20);
  REQUIRE(!judged.ok());
  CHECK(has(judged.error().message(), "too old for cuda:0 (B200, sm_100, 180.0 GiB)"));
  CHECK(has(judged.error().message(), "of CUDA 13.0"));
  CHECK(has(judged.error().message(), "from 13.2 on; update the driver"));
  facts.major = 9;
  CHECK(judge_gpu(facts, 0, kNeeded + 20).ok());
}

TEST_CASE("memory that cannot be had is named with what is free and the settings that help") {
  const GpuFacts facts{.name = "H200", .memory = 140UL << 30, .memory_free = 3UL << 30};
  const Error device = no_memory(MemoryKind::kDevice, 5UL << 30, facts);
  CHECK(device.code() == ErrorCode::kExhausted);
  CHECK(has(device.message(),
            "5.0 GiB are wanted, and of the 140.0 GiB of H200 3.0 GiB are free beside 0.5 GiB"));
  CHECK(has(device.message(), "batch.micro"));
  CHECK(no_context(3).code() == ErrorCode::kExhausted);
  CHECK(has(no_context(3).message(), "cuda:3 has no memory free"));
  CHECK(has(no_memory(MemoryKind::kHostPinned, 1UL << 30, facts).message(), "gossip.slots"));
}

TEST_CASE("some memory of a GPU stays free for CUDA, of a small one a smaller share") {
  CHECK(reserve_of(140UL << 30) == 512UL << 20);
  CHECK(reserve_of(8UL << 30) == 512UL << 20);
  CHECK(reserve_of(4UL << 30) == 256UL << 20);
  for (const std::size_t bytes : {1000UL, 3UL << 30, 7UL << 30, (15UL << 30) / 2, 20UL << 30}) {
    CAPTURE(bytes);
    const std::size_t all = memory_for(bytes) - kContextBytes;
    CHECK(all - reserve_of(all) >= bytes);
    CHECK(all - 17 - reserve_of(all - 17) < bytes);
  }
}

TEST_CASE("a GPU whose memory is full is told so, and what makes room") {
  const std::string text =
      failure_text({"linear", "cudaLaunchKernel", "out of memory (cudaErrorMemoryAllocation)"},
                   Lane::kCompute, 0);
  for (const char* part : {"batch.micro", "batch.recompute", "what else uses this GPU"}) {
    CAPTURE(part);
    CHECK(has(text, part));
  }
  CHECK_FALSE(has(text, "CUDA_LAUNCH_BLOCKING"));
}

TEST_CASE("a failure names operation, lane, call and what CUDA says, and the way on") {
  const std::string text = failure_text(
      {"adamw", "cudaLaunchKernel", "an illegal memory access (cudaErrorIllegalAddress)"},
      Lane::kCopyOut, 2);
  for (const char* part :
       {"cuda:2", "adamw", "copy-out lane", "cudaLaunchKernel", "cudaErrorIllegalAddress",
        "newest checkpoint", "CUDA_LAUNCH_BLOCKING=1"}) {
    CAPTURE(part);
    CHECK(has(text, part));
  }
}

}  // namespace starling::cuda
