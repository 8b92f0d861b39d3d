#include "optim/flat_ops.h"

#include <doctest/doctest.h>

#include "base/cpu_device.h"
#include "optim/cpu_flat_ops.h"
#include "tests/support/flat_ops_cases.h"

namespace starling::optim {

namespace {

void on_the_cpu(void (*check)(const testing::FlatOpsUnderTest&)) {
  CpuDevice device;
  ThreadTeam team(2);
  const auto ops = make_cpu_flat_ops(team);
  check({device, *ops});
}

}  // namespace

TEST_CASE("the CPU reaches every element of a range and nothing beside it") {
  on_the_cpu(testing::check_element_wise);
}

TEST_CASE("the CPU's squared norm is the sum in double, with the same bits each time") {
  on_the_cpu(testing::check_squared_norm);
}

TEST_CASE("the CPU's AdamW is the formula, element by element") {
  on_the_cpu(testing::check_adamw);
}

TEST_CASE("the CPU's AdamW lets weights decay up to a border and from the next one on") {
  on_the_cpu(testing::check_adamw_borders);
}

TEST_CASE("the CPU's AdamW leaves all as it was where a gradient is not finite") {
  on_the_cpu(testing::check_adamw_not_finite);
}

TEST_CASE("the CPU adds from pinned memory") { on_the_cpu(testing::check_pinned_source); }

}  // namespace starling::optim
