// The GPU's flat operations on a GPU: the same bodies as for the CPU's and for the emulator.
#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include "tests/support/device_floats.h"
#include "tests/support/flat_ops_cases.h"
#include "tests/support/gpu.h"

namespace starling::cuda {

namespace {

void on_the_gpu(void (*check)(const testing::FlatOpsUnderTest&)) {
  testing::Gpu gpu = testing::open_gpu(STARLING_CUDA_MODULE);
  if (!gpu.device) {
    MESSAGE("skipped: no GPU: " << gpu.problem);
    return;
  }
  auto ops = gpu.module->make_flat_ops(*gpu.device);
  if (!ops.ok()) FAIL(ops.error().message());
  check({*gpu.device, *ops.value()});
}

// Copies, fences and holds, in the way the trainer uses them.
void check_order(const testing::FlatOpsUnderTest& test) {
  Device& device = test.device;
  constexpr std::size_t kCount = std::size_t{1} << 22;
  const Buffer far = device.allocate(MemoryKind::kDevice, kCount * sizeof(float)).value();
  const Buffer host = device.allocate(MemoryKind::kHostPinned, kCount * sizeof(float)).value();
  const std::vector<float> zeros = testing::floats_of(device, far.as<float>());
  CHECK(zeros == std::vector<float>(kCount));
  const std::span<std::byte> bytes(static_cast<std::byte*>(host.data()), host.bytes());
  const float* const seen = host.as<float>().data;
  // More rounds than there are events, so that their reuse is met.
  for (int round = 1; round <= 700; ++round) {
    const auto value = static_cast<float>(round);
    test.ops.fill(Lane::kCompute, far.as<float>(), value);
    device.hold(Lane::kCopyOut, device.record(Lane::kCompute));
    device.copy_out(Lane::kCopyOut, bytes, far.as<std::byte>());
    const Fence copied = device.record(Lane::kCopyOut);
    device.hold(Lane::kCompute, copied);
    test.ops.fill(Lane::kCompute, far.as<float>(), -1.0F);
    while (!device.reached(copied)) continue;
    REQUIRE(seen[0] == value);
    REQUIRE(seen[kCount - 1] == value);
    device.drain();
  }
}

void check_copy(const testing::FlatOpsUnderTest& test) {
  Device& device = test.device;
  const Buffer buffer = device.allocate(MemoryKind::kDevice, 8 * sizeof(float)).value();
  const DeviceSpan<float> floats = buffer.as<float>();
  const DeviceSpan<std::byte> bytes = buffer.as<std::byte>();
  test.ops.fill(Lane::kCompute, floats.subspan(0, 3), 2.5F);
  device.copy(Lane::kCompute, bytes.subspan(16, 12), bytes.subspan(0, 12));
  device.copy(Lane::kCompute, bytes.subspan(0, 0), bytes.subspan(4, 0));
  CHECK(testing::floats_of(device, floats) ==
        std::vector<float>{2.5F, 2.5F, 2.5F, 0, 2.5F, 2.5F, 2.5F, 0});
}

}  // namespace

TEST_CASE("a GPU copies within its memory") { on_the_gpu(check_copy); }

TEST_CASE("a GPU reaches every element of a range and nothing beside it") {
  on_the_gpu(testing::check_element_wise);
}

TEST_CASE("a GPU's squared norm is the sum in double, with the same bits each time") {
  on_the_gpu(testing::check_squared_norm);
}

TEST_CASE("a GPU's AdamW is the CPU's formula, bit for bit") { on_the_gpu(testing::check_adamw); }

TEST_CASE("a GPU's AdamW lets weights decay up to a border and from the next one on") {
  on_the_gpu(testing::check_adamw_borders);
}

TEST_CASE("a GPU's AdamW leaves all as it was where a gradient is not finite") {
  on_the_gpu(testing::check_adamw_not_finite);
}

TEST_CASE("a GPU adds from pinned memory") { on_the_gpu(testing::check_pinned_source); }

TEST_CASE("a GPU's lanes hold for each other, and its fences outlive the events") {
  on_the_gpu(check_order);
}

TEST_CASE("memory that a GPU has not is refused with what is free") {
  on_the_gpu([](const testing::FlatOpsUnderTest& test) {
    auto buffer = test.device.allocate(MemoryKind::kDevice, std::size_t{1} << 45);
    REQUIRE(!buffer.ok());
    CHECK(buffer.error().code() == ErrorCode::kExhausted);
    CHECK(buffer.error().message().find("are free") != std::string::npos);
    CHECK(test.device.allocate(MemoryKind::kDevice, 1 << 20).ok());  // and it goes on
  });
}

}  // namespace starling::cuda
