#include "model/cpu/cpu_limits.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

namespace starling::model {
namespace {

TEST_CASE("a loop that only computes does all its rounds") {
  CHECK(!fp32_loops().empty());
  for (const ComputeLoop& loop : fp32_loops()) {
    CAPTURE(loop.name);
    CHECK(loop.operations > 0);
    CHECK(loop.run(0) == 0.0F);
    const float once = loop.run(1), often = loop.run(100);
    CHECK(once > 0);  // every sum: a term, then a half of it and a term, and so on to two terms
    CHECK(often == doctest::Approx(2 * once));
  }
  for (const ComputeLoop& loop : bf16_loops()) {
    CAPTURE(loop.name);
    CHECK(loop.run(0) == 0.0F);
    CHECK(loop.run(100) == doctest::Approx(100 * loop.run(1)));
  }
}

TEST_CASE("both copies copy everything and nothing else, wherever it begins") {
  std::vector<float> source(103);
  std::iota(source.begin(), source.end(), 1.0F);
  for (const auto copy : {copy_through_caches, copy_past_caches}) {
    for (std::size_t first = 0; first < 5; ++first) {
      for (const std::size_t count :
           {std::size_t{0}, std::size_t{1}, std::size_t{6}, std::size_t{64}, std::size_t{97}}) {
        CAPTURE(first);
        CAPTURE(count);
        std::vector<float> target(source.size(), -1.0F);
        copy(target.data() + first, source.data() + 1, count);
        for (std::size_t i = 0; i < target.size(); ++i) {
          const bool copied = i >= first && i < first + count;
          CHECK(target[i] == (copied ? source[i - first + 1] : -1.0F));
        }
      }
    }
  }
}

}  // namespace
}  // namespace starling::model
