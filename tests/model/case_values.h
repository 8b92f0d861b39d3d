// What operands of operator cases hold before an operation.
#pragma once

#include <limits>

#include "tests/model/operator_cases.h"

namespace starling::model {

// What is there already where a gradient is added to; and what must not survive where it is set.
inline constexpr double kAlready = 0.5;

template <class Real>
Owned<Real> unset(const Shape& shape) {
  return Owned<Real>(shape, std::numeric_limits<Real>::quiet_NaN());
}

template <class Real>
Owned<Real> already(const Shape& shape) {
  return Owned<Real>(shape, static_cast<Real>(kAlready));
}

template <class Real>
Owned<Real> minus_already(Owned<Real> sum) {
  for (Real& value : sum.values) value -= static_cast<Real>(kAlready);
  return sum;
}

}  // namespace starling::model
