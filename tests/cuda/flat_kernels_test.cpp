// The GPU's flat operations, kernels and launches, on the emulator.
#include <doctest/doctest.h>

#include "base/cpu_device.h"
#include "cuda/flat_ops.cuh"
#include "tests/support/flat_ops_cases.h"

namespace starling::cuda {

namespace {

struct NoStreams {
  Stream of(Lane /*lane*/) const { return {}; }
};

// Of few blocks, so that threads go round.
void on_the_emulator(void (*check)(const testing::FlatOpsUnderTest&)) {
  using Ops = KernelFlatOps<NoStreams>;
  for (const auto order : {cuda_on_host::Order::kForward, cuda_on_host::Order::kBackward}) {
    cuda_on_host::set_order(order);
    CpuDevice device;
    Ops ops({}, 3, device.allocate(MemoryKind::kDevice, Ops::scratch_bytes()).value());
    check({device, ops});
  }
}

}  // namespace

TEST_CASE("kernels reach every element of a range and nothing beside it") {
  on_the_emulator(testing::check_element_wise);
}

TEST_CASE("the kernels' squared norm is the sum in double, with the same bits each time") {
  on_the_emulator(testing::check_squared_norm);
}

TEST_CASE("the kernel of AdamW is the CPU's formula, bit for bit") {
  on_the_emulator(testing::check_adamw);
}

TEST_CASE("the kernel of AdamW lets weights decay up to a border and from the next one on") {
  on_the_emulator(testing::check_adamw_borders);
}

TEST_CASE("the kernel of AdamW leaves all as it was where a gradient is not finite") {
  on_the_emulator(testing::check_adamw_not_finite);
}

TEST_CASE("kernels add from pinned memory") { on_the_emulator(testing::check_pinned_source); }

TEST_CASE("a long range has the same squared norm however many blocks fill the device") {
  using Ops = KernelFlatOps<NoStreams>;
  CpuDevice device;
  std::vector<float> values(100003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1009) / 1009;
  std::vector<float> norms;
  for (const unsigned blocks : {1U, 7U, 1000U}) {
    Ops ops({}, blocks, device.allocate(MemoryKind::kDevice, Ops::scratch_bytes()).value());
    float norm = 0;
    ops.squared_norm(Lane::kCompute, {&norm, 1}, {values.data(), values.size()});
    norms.push_back(norm);
  }
  CHECK(norms[0] > 0);
  CHECK(norms[1] == norms[0]);
  CHECK(norms[2] == norms[0]);
}

}  // namespace starling::cuda
