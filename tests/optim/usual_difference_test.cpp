#include "optim/usual_difference.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace starling::optim {
namespace {

constexpr std::uint64_t kVotes = UsualDifference::kVotes;

}  // namespace

TEST_CASE("a lone partner decides what is usual, with bounded growth") {
  UsualDifference usual;
  CHECK(usual.median() == 0);
  usual.observe(PeerId{1}, 2.0);
  CHECK(usual.median() == 2.0);
  usual.observe(PeerId{1}, 1e9);
  CHECK(usual.median() == doctest::Approx(0.7 * 2.0 + 0.3 * kDifferenceGrowthMax * 2.0));
}

TEST_CASE("of two partners the nearer one decides, of three the middle one") {
  UsualDifference usual;
  usual.observe(PeerId{1}, 1.0);
  usual.observe(PeerId{2}, 100.0);
  CHECK(usual.median() == 1.0);
  usual.observe(PeerId{3}, 2.0);
  CHECK(usual.median() == 2.0);
}

TEST_CASE("one far-out partner cannot widen what is usual, however often it comes") {
  UsualDifference usual;
  for (std::uint64_t id = 1; id <= 3; ++id) usual.observe(PeerId{id}, 1.0);
  for (int push = 0; push < 100; ++push) usual.observe(PeerId{99}, 1e6);
  CHECK(usual.median() == 1.0);
}

TEST_CASE("what most of the last partners say is soon usual") {
  UsualDifference usual;
  for (std::uint64_t id = 1; id <= kVotes; ++id) usual.observe(PeerId{id}, 1.0);
  for (std::uint64_t id = 1; id <= kVotes / 2; ++id) usual.observe(PeerId{100 + id}, 3.0);
  CHECK(usual.median() == 1.0);
  usual.observe(PeerId{200}, 3.0);
  CHECK(usual.median() == 3.0);
}

TEST_CASE("the last differences count as long as most partners are not much nearer") {
  UsualDifference usual;
  CHECK(usual.bounded(5.0) == 5.0);
  for (std::uint64_t id = 1; id <= 3; ++id) usual.observe(PeerId{id}, 1.0);
  CHECK(usual.bounded(0.5) == 0.5);
  CHECK(usual.bounded(2.0) == 2.0);
  CHECK(usual.bounded(100.0) == UsualDifference::kSpread);
  CHECK(usual.bounded(0.0) == 1 / UsualDifference::kSpread);
}

TEST_CASE("who has met few partners often knows all that there are") {
  UsualDifference usual;
  for (std::size_t met = 1; met < UsualDifference::kMeetings; ++met) {
    usual.observe(PeerId{met % 2}, 1.0);
    CHECK(usual.voters() == std::min<std::size_t>(met, 2));
  }
  usual.observe(PeerId{2}, 1.0);
  CHECK(usual.voters() == kVotes);
}

TEST_CASE("what was usual before a restart gives way partner by partner") {
  UsualDifference usual;
  usual.restore(1.0);
  CHECK(usual.median() == 1.0);
  for (std::uint64_t id = 1; id <= kVotes / 2; ++id) usual.observe(PeerId{id}, 50.0);
  CHECK(usual.median() == 1.0);
  usual.observe(PeerId{20}, 50.0);
  CHECK(usual.median() == 50.0);
  usual.restore(1.0);  // nor does it stay where there is but one
  for (std::uint64_t met = 0; met <= kVotes; ++met) usual.observe(PeerId{1}, 50.0);
  CHECK(usual.median() > 10.0);
  CHECK(usual.voters() == kVotes);
  usual.restore(0.0);
  CHECK(usual.median() == 0.0);
}

}  // namespace starling::optim
