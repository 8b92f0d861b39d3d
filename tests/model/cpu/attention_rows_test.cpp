#include "model/cpu/attention_rows.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

namespace starling::model {

TEST_CASE("scores of any size have weights of which the largest is one") {
  constexpr std::int64_t kKeys = 48, kSeen = 35;
  for (const float largest : {1.0F, 1e6F, 1e16F, 1e30F, -1e30F}) {
    CAPTURE(largest);
    std::array<float, kKeys> scores{};
    scores.fill(-std::abs(largest) * 2);
    scores[3] = scores[20] = largest;
    std::array<bf16, kKeys> weights{};
    float inverse = 0, log_sum = 0;
    softmax_rows({.scores = scores.data(),
                  .weights = weights.data(),
                  .row = kKeys,
                  .count = 1,
                  .visible = kSeen,
                  .keys = kKeys,
                  .scale = 0.125F},
                 &inverse, &log_sum);
    CHECK(to_float(weights[3]) == 1.0F);
    CHECK(to_float(weights[20]) == 1.0F);
    for (std::size_t key = kSeen; key < kKeys; ++key) CHECK(to_float(weights[key]) == 0.0F);
    float sum = 0;
    for (const bf16 weight : weights) sum += to_float(weight);
    CHECK(inverse == doctest::Approx(1 / sum).epsilon(0.02));
    CHECK(log_sum == doctest::Approx(0.125F * largest + std::log(sum)).epsilon(0.02));
  }
}

}  // namespace starling::model
