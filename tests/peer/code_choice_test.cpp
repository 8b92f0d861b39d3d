#include "peer/code_choice.h"

#include <doctest/doctest.h>

namespace starling::peer {

namespace {

Instant at(int second) { return Instant{} + std::chrono::seconds(second); }

}  // namespace

TEST_CASE("fewer bits are wished for once, where the line is full for minutes") {
  CodeChoice choice;
  for (int second = 0; second < 299; ++second) CHECK_FALSE(choice.look(at(second), true, false));
  CHECK_FALSE(choice.look(at(299), false, false));  // a break
  for (int second = 300; second < 600; ++second) CHECK_FALSE(choice.look(at(second), true, false));
  CHECK(choice.look(at(600), true, false));
  CHECK_FALSE(choice.look(at(601), true, true));
}

TEST_CASE("the day's pace is a reason where it makes exchanges rest a second time") {
  CodeChoice choice;
  for (int second = 0; second < 10; ++second) CHECK_FALSE(choice.look(at(second), false, true));
  CHECK_FALSE(choice.look(at(10), false, false));
  CHECK(choice.look(at(11), false, true));
  CHECK_FALSE(choice.look(at(12), false, true));
}

}  // namespace starling::peer
