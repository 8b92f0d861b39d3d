// The same tests of operations for every execution of LayerOps: each operation, forward and
// backward, against the reference in double. `ops` reads memory of the host.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bf16.h"
#include "tests/model/operator_cases.h"

namespace starling::model {

enum class Operands { kAny, kBf16 };

template <class Real>
Owned<Real> made(Owned<Real> values, Operands operands) {
  if (operands == Operands::kAny) return values;
  for (Real& value : values.values) value = to_float(to_bf16(static_cast<float>(value)));
  return values;
}

// By the name of the operation: the relative error that is allowed.
using Tolerance = std::function<double(const std::string& name, Operands operands)>;

// The sum of a float's rounding errors. In bf16 the reference rounds the same results: what differs
// is where a float's error tips one over, and in attention that weights and gradients of scores are
// rounded as operands, by up to 2^-9 of each; the errors of a sum are independent.
double tolerance(const std::string& name, Operands operands);
// In bf16, where what a kernel turns, gates or adds was rounded once before, when its product was
// stored.
double tolerance_rounded_twice(const std::string& name, Operands operands);
// And on a GPU, whose exponentials and orders of sums tip other roundings over: in tensors of a few
// numbers one weighs much. An H100 came to 1.05 of what the emulator keeps, in two of 24 seeds.
double tolerance_on_a_gpu(const std::string& name, Operands operands);

// With operands that need no rounding, so does arithmetic that rounds them.
void compare_with_reference(LayerOps& ops, std::vector<OperatorCase<float>> cases,
                            std::vector<OperatorCase<double>> expected_cases, Operands operands,
                            const Tolerance& allowed = tolerance);
void compare_with_reference(LayerOps& ops, std::uint64_t seed, Operands operands = Operands::kAny,
                            const Tolerance& allowed = tolerance);

}  // namespace starling::model
