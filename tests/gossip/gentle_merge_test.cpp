#include "gossip/gentle_merge.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace starling::gossip {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
constexpr Instant kStart{};
constexpr FragmentId kFirst{0}, kSecond{1};

// The first fragment usually has the radius 2; the second is not known yet.
float usual(FragmentId fragment) { return fragment == kFirst ? 2.0F : 0.0F; }

}  // namespace

TEST_CASE("after a split the radius from before it is the most, until the sides have met") {
  GentleMerge gentle(2);
  CHECK(gentle.radius(kStart, kFirst, 50, 0) == 50);
  gentle.on_split(kStart, usual);
  CHECK(gentle.radius(kStart, kFirst, 50, 0) == 2);
  CHECK(gentle.radius(kStart, kFirst, 1, 0) == 1);
  CHECK(gentle.radius(kStart, kFirst, 0, 0) == 2);  // cold again: not without a bound
  CHECK(gentle.radius(kStart, kSecond, 50, 0) == 50);
  // What the other side does to the running radius comes too late to count.
  gentle.on_healed(kStart + hours(1), [](FragmentId) { return 50.0F; });
  CHECK(gentle.radius(kStart + hours(1) + minutes(5), kFirst, 40, 0) == 2);
  CHECK(gentle.radius(kStart + hours(1) + minutes(5), kFirst, 1.9F, 0) == 1.9F);
  CHECK(gentle.radius(kStart + hours(1) + minutes(11), kFirst, 40, 0) == 2);
  // Back in the usual range: from now on as ever.
  CHECK(gentle.radius(kStart + hours(1) + minutes(12), kFirst, 1.9F, 0) == 1.9F);
  CHECK(gentle.radius(kStart + hours(1) + minutes(13), kFirst, 40, 0) == 40);
}

TEST_CASE("the bound grows by a tenth with every exchange, and falls with the usual radius") {
  GentleMerge gentle(1);
  gentle.on_split(kStart, usual);
  for (int i = 0; i < 40; ++i) gentle.on_completed(kFirst, 200);
  CHECK(gentle.radius(kStart, kFirst, 200, 0) ==
        doctest::Approx(2 * std::pow(1.1, 40)).epsilon(1e-3));
  for (int i = 0; i < 10; ++i) gentle.on_completed(kFirst, 0);  // nothing is known: as it was
  for (int i = 0; i < 10; ++i) gentle.on_completed(kFirst, 200);
  CHECK(gentle.radius(kStart, kFirst, 300, 0) == 200);
  gentle.on_completed(kFirst, 3);
  CHECK(gentle.radius(kStart, kFirst, 300, 0) == 3);
}

TEST_CASE("partners that differ ever more after a split are not torn apart") {
  // Some peers of a small swarm vanish for good, early in training.
  GentleMerge gentle(1);
  gentle.on_split(kStart, usual);
  float wanted = 2;
  for (int i = 0; i < 60; ++i) {
    wanted *= 1.05F;
    gentle.on_completed(kFirst, wanted);
    CHECK(gentle.radius(kStart + minutes(i), kFirst, wanted, 0) == wanted);
  }
}

TEST_CASE("no bound is smaller than a few own steps, or one could not follow those who make them") {
  GentleMerge gentle(2);
  CHECK(gentle.radius(kStart, kFirst, 1, 5) == 1);
  gentle.on_split(kStart, usual);
  CHECK(gentle.radius(kStart, kFirst, 50, 0.25F) == 2);
  CHECK(gentle.radius(kStart, kFirst, 50, std::numeric_limits<float>::infinity()) == 2);
  CHECK(gentle.radius(kStart, kFirst, 50, 5) == 20);
  CHECK(gentle.radius(kStart, kFirst, 3, 5) == 3);
  // It grows from there.
  gentle.on_completed(kFirst, 50);
  CHECK(gentle.radius(kStart, kFirst, 50, 0) == doctest::Approx(22));
}

TEST_CASE("gentleness ends after two hours, and after a day if nobody comes back") {
  GentleMerge healed(1);
  healed.on_split(kStart, usual);
  healed.on_healed(kStart, usual);
  CHECK(healed.radius(kStart + hours(2), kFirst, 40, 0) == 2);
  CHECK(healed.radius(kStart + hours(2) + minutes(1), kFirst, 40, 0) == 40);
  GentleMerge lost(1);
  lost.on_split(kStart, usual);
  CHECK(lost.radius(kStart + hours(24), kFirst, 40, 0) == 2);
  CHECK(lost.radius(kStart + hours(25), kFirst, 40, 0) == 40);
}

}  // namespace starling::gossip
