#include "peer/roles/code_choice.h"

#include <doctest/doctest.h>

#include "peer/config/traffic_plan.h"

namespace starling::peer {

namespace {

constexpr double kLimit = 1e6;  // bytes per second

// A line with a limit, second by second.
struct Line {
  explicit Line(double ratio = 2) : choice({.upload = kLimit}, ratio) {}

  // `exchanged`, `other`: shares of the limit.
  void run(Duration span, double exchanged, double other) {
    for (const Instant end = now + span; now < end; now += std::chrono::seconds(1)) {
      bytes.out += static_cast<std::uint64_t>((exchanged + other) * kLimit);
      bytes.exchanged += static_cast<std::uint64_t>(exchanged * kLimit);
      fewer = choice.look(now, {.bytes = bytes, .line_full = exchanged + other > 0.9});
    }
  }

  CodeChoice choice;
  CodeChoice::Bytes bytes;
  Instant now{};
  bool fewer = false;
};

// A peer whose owner has limited the day, minute by minute, as the network role does it.
struct Day {
  static constexpr std::uint64_t kBytes = 24'000'000'000;
  Day() : plan(kBytes, std::nullopt), choice({.pace = plan.hour_share() / 3600}, 2) {}

  // Hour shares per hour: of exchanges in the configured code, and of states in the first ten
  // minutes of every sixth hour.
  void run(int hours, double exchanged, double state) {
    for (int end = minute + 60 * hours; minute < end; ++minute) {
      const WallTime date{500'000LL * 3600 + 60LL * minute, minute % 1440};
      const auto minutes_share = [&](double shares) {
        return static_cast<std::uint64_t>(shares * plan.hour_share() / 60);
      };
      std::uint64_t moved = 0;
      if (plan.verdict(date) == TrafficPlan::Verdict::kOpen) {
        moved = minutes_share(exchanged) / (fewer ? 2 : 1);
        bytes.exchanged += moved;
      }
      if (minute % 360 < 10) moved += minutes_share(6 * state);
      bytes.out += moved;
      plan.count(date, moved);
      const TrafficPlan::Verdict verdict = plan.verdict(date);
      REQUIRE(verdict != TrafficPlan::Verdict::kSpent);
      const bool rests = verdict == TrafficPlan::Verdict::kPaced;
      rest_count += rests && !rested ? 1 : 0;
      rested = rests;
      const bool before = fewer;
      fewer =
          choice.look(Instant{} + std::chrono::minutes(minute), {.bytes = bytes, .rests = rests});
      changes += fewer != before ? 1 : 0;
    }
  }

  TrafficPlan plan;
  CodeChoice choice;
  CodeChoice::Bytes bytes;
  int minute = 0, changes = 0, rest_count = 0;
  bool rested = false, fewer = false;
};

}  // namespace

TEST_CASE("fewer bits are wished for where the line is full of exchanges for minutes") {
  Line line;
  line.run(std::chrono::seconds(299), 1, 0);
  line.run(std::chrono::seconds(1), 0.5, 0);  // a break
  line.run(std::chrono::seconds(300), 1, 0);
  CHECK_FALSE(line.fewer);
  line.run(std::chrono::seconds(1), 1, 0);
  CHECK(line.fewer);
}

TEST_CASE("a line that is full of a state that is served is no reason for fewer bits") {
  Line line;
  line.run(std::chrono::hours(1), 0.4, 0.6);
  CHECK_FALSE(line.fewer);
}

TEST_CASE("the configured code comes back where twice the bytes have room for hours") {
  Line line;
  line.run(std::chrono::minutes(6), 1, 0);
  REQUIRE(line.fewer);
  line.run(std::chrono::hours(12), 0.5, 0);  // it would fill the line again
  CHECK(line.fewer);
  line.run(2 * CodeChoice::kRoomFor, 0.3, 0);
  CHECK_FALSE(line.fewer);
  line.run(std::chrono::hours(1), 0.6, 0);  // in the configured code: room enough
  CHECK_FALSE(line.fewer);
  line.run(std::chrono::minutes(6), 1, 0);
  CHECK(line.fewer);
}

TEST_CASE("the less a code saves, the sooner the configured one has room again") {
  Line line(1.25);
  line.run(std::chrono::minutes(6), 1, 0);
  REQUIRE(line.fewer);
  line.run(2 * CodeChoice::kRoomFor, 0.7, 0);
  CHECK(line.fewer);
  line.run(2 * CodeChoice::kRoomFor, 0.5, 0);
  CHECK_FALSE(line.fewer);
}

TEST_CASE("the day's pace is a reason where exchanges alone make themselves rest a second time") {
  Day day;
  day.run(48, 1.5, 0);
  CHECK(day.rest_count == 2);
  CHECK(day.fewer);
  CHECK(day.changes == 1);  // it stays: in the configured code they would rest again
  day.run(12, 0.3, 0);
  CHECK_FALSE(day.fewer);
  day.run(48, 0.9, 0);
  CHECK(day.changes == 2);
}

TEST_CASE("states that a donor serves never make the codes of its exchanges coarser") {
  Day day;
  day.run(72, 0.5, 1.2);
  CHECK(day.rest_count > 5);
  CHECK(day.changes == 0);
}

TEST_CASE("hours in which no exchange is allowed do not show that there is room") {
  Line line;
  line.run(std::chrono::minutes(6), 1, 0);
  REQUIRE(line.fewer);
  for (int minute = 0; minute < 12 * 60; ++minute) {
    line.now += std::chrono::minutes(1);
    CHECK(line.choice.look(line.now, {.bytes = line.bytes, .allowed = false}));
  }
  line.run(std::chrono::hours(5), 0, 0);
  CHECK_FALSE(line.fewer);
}

}  // namespace starling::peer
