// What every FlatOps must do, whatever device it is on: bodies of tests, for the CPU's, for the
// kernels on the emulator and for a GPU. Data goes in and out by the device's copies alone.
#pragma once

#include "base/device.h"
#include "optim/flat_ops.h"

namespace starling::testing {

struct FlatOpsUnderTest {
  Device& device;
  optim::FlatOps& ops;
};

// Ranges of any size that begin anywhere: every element is reached, and nothing beside them.
void check_element_wise(const FlatOpsUnderTest& test);
// Against sums in double; the same bits each time.
void check_squared_norm(const FlatOpsUnderTest& test);
// Against the CPU's, bit for bit, and the CPU's own against the formula, element by element.
void check_adamw(const FlatOpsUnderTest& test);
// Ranges in which decay ends and begins anywhere, also within one access of a kernel.
void check_adamw_borders(const FlatOpsUnderTest& test);
// A gradient that is not finite changes nothing, and nothing of what is rounded.
void check_adamw_not_finite(const FlatOpsUnderTest& test);
// Pinned host memory is read where it lies: that is how corrections come to the device.
void check_pinned_source(const FlatOpsUnderTest& test);

}  // namespace starling::testing
