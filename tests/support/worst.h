// The largest of many errors, for tests that bound it. NaN is worse than any other: std::max would
// drop it, and what is broken altogether would pass for the best.
#pragma once

#include <cmath>

namespace starling::testing {

template <class Error>
void note_worst(Error& worst, Error error) {
  if (!(error <= worst) && !std::isnan(worst)) worst = error;
}

}  // namespace starling::testing
