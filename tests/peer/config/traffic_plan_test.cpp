#include "peer/config/traffic_plan.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "gossip/core_context.h"
#include "gossip/state_donor.h"
#include "tests/peer/config/config_texts.h"

namespace starling::peer {
namespace {

constexpr std::int64_t kHour = 3600;
constexpr std::int64_t kStart = 500'000 * kHour;
using Verdict = TrafficPlan::Verdict;

WallTime after(std::int64_t seconds) {
  return {kStart + seconds, static_cast<int>(seconds / 60 % 1440)};
}

QuietHours quiet(std::string_view text) { return *parse_quiet_hours(text).value(); }

}  // namespace

TEST_CASE("quiet hours begin and end to the minute, also over midnight") {
  CHECK(quiet("08:00-17:30").contains(8 * 60));
  CHECK(quiet("08:00-17:30").contains(17 * 60 + 29));
  CHECK_FALSE(quiet("08:00-17:30").contains(17 * 60 + 30));
  CHECK_FALSE(quiet("08:00-17:30").contains(7 * 60 + 59));
  CHECK(quiet("22:00-7:05").contains(23 * 60));
  CHECK(quiet("22:00-7:05").contains(7 * 60 + 4));
  CHECK_FALSE(quiet("22:00-7:05").contains(7 * 60 + 5));
  CHECK_FALSE(quiet("22:00-7:05").contains(12 * 60));
  CHECK(quiet("00:00-00:00").contains(720));
  CHECK_FALSE(parse_quiet_hours("").value().has_value());
}

TEST_CASE("what is no span of hours is refused with an example of one") {
  for (const char* text : {"22", "22:00", "22:00-", "22:00-24:00", "-1:00-2:00", "22:60-7:00",
                           "22:00-07:00x", "22:00 - 07:00", "a-b", "99999999999:00-1:00"}) {
    CAPTURE(text);
    const auto parsed = parse_quiet_hours(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().message().find("22:00-07:30") != std::string::npos);
  }
}

TEST_CASE("quiet hours of a whole day are refused, unless the peer is to train alone") {
  for (const std::string hours : {"00:00-00:00", "22:00-22:00"}) {
    CAPTURE(hours);
    const std::string set = "bandwidth.quiet_hours=" + hours;
    names_both({set}, "bandwidth.quiet_hours = " + hours, "outer.method = \"local\"");
    CHECK(parse("", {set, "outer.method=local"}).ok());
  }
  CHECK(parse("", {"bandwidth.quiet_hours=22:00-21:59"}).ok());
}

TEST_CASE("quiet hours that are written otherwise are told their form, however long they are") {
  for (const std::string hours :
       {"22:00 - 07:30", "22:00:00-07:30:00", "late at night until dawn"}) {
    CAPTURE(hours);
    const std::string error = error_of("[bandwidth]\nquiet_hours = \"" + hours + "\"\n");
    CHECK(contains(error, "bandwidth.quiet_hours: \"" + hours + "\" is no span of hours"));
    CHECK(contains(error, "\"22:00-07:30\""));
  }
}

TEST_CASE("a spent day reopens hour by hour as its bytes grow old") {
  TrafficPlan plan(1000, std::nullopt);
  plan.count(after(0), 600);
  CHECK(plan.verdict(after(10)) == Verdict::kPaced);
  plan.count(after(5 * kHour), 400);
  CHECK(plan.verdict(after(5 * kHour)) == Verdict::kSpent);
  CHECK(plan.verdict(after(24 * kHour)) == Verdict::kSpent);
  plan.count(after(25 * kHour), 0);
  CHECK(plan.verdict(after(25 * kHour)) == Verdict::kOpen);
  CHECK(plan.bytes_in_day(after(25 * kHour)) == 400);
  plan.count(after(25 * kHour), 0);
  CHECK(plan.bytes_in_day(after(30 * kHour)) == 0);
}

TEST_CASE("without a limit a day never ends and quiet hours still hold") {
  TrafficPlan plan(0, quiet("01:00-02:00"));
  plan.count(after(0), UINT64_MAX / 2);
  CHECK(plan.verdict(after(0)) == Verdict::kOpen);
  CHECK(plan.verdict(after(kHour + 60)) == Verdict::kQuiet);
  CHECK(plan.verdict(after(2 * kHour)) == Verdict::kOpen);
}

// As many exchanges as it lets through: one of 10 bytes a minute.
TEST_CASE("a day's bytes last all day, also where some of it is quiet") {
  for (const char* hours : {"", "00:00-12:00"}) {
    CAPTURE(hours);
    TrafficPlan plan(4800, parse_quiet_hours(hours).value());
    std::vector<std::uint64_t> by_hour(48, 0);
    for (std::int64_t second = 0; second < 48 * kHour; second += 60) {
      plan.count(after(second), 0);
      if (plan.verdict(after(second)) != Verdict::kOpen) continue;
      plan.count(after(second), 10);
      by_hour[static_cast<std::size_t>(second / kHour)] += 10;
    }
    const std::uint64_t share = *hours == 0 ? 200 : 400;
    const std::size_t first = *hours == 0 ? 0 : 12;
    std::uint64_t second_day = 0;
    for (std::size_t hour = 24; hour < 48; ++hour) second_day += by_hour[hour];
    CHECK(second_day <= 4800);
    CHECK(second_day >= 4200);
    int hours_used = 0;
    for (std::size_t hour = 0; hour < 12; ++hour) {
      hours_used += by_hour[24 + first + hour] > 0 ? 1 : 0;
      CHECK(by_hour[24 + first + hour] <= 2 * share);
    }
    CHECK(hours_used >= 11);  // the first day began with an hour's share at once
  }
}

TEST_CASE("whatever was received at once costs a pause of two hours at most") {
  TrafficPlan plan(24'000, std::nullopt);
  plan.count(after(0), 20'000);
  CHECK(plan.verdict(after(0)) == Verdict::kPaced);
  plan.count(after(2 * kHour), 0);
  CHECK(plan.verdict(after(2 * kHour)) == Verdict::kOpen);
}

TEST_CASE("a restart remembers the day, whatever else stands in its file") {
  TrafficPlan before(1000, std::nullopt);
  before.count(after(0), 300);
  std::string file = "garbage\n99999999999999999999 5\n" + before.take_lines(after(0)) + "\n";
  before.count(after(60), 300);
  before.count(after(2 * kHour), 500);
  file += before.take_lines(after(2 * kHour)) + "\n12345";
  TrafficPlan restarted(1000, std::nullopt);
  restarted.restore(file, after(3 * kHour));
  CHECK(restarted.bytes_in_day(after(3 * kHour)) == 1100);
  CHECK(restarted.verdict(after(3 * kHour)) == Verdict::kSpent);
}

TEST_CASE("a line that was cut short takes nothing back") {
  TrafficPlan plan(1000, std::nullopt);
  plan.restore("500000 900\n500000 12\n", after(0));
  CHECK(plan.bytes_in_day(after(0)) == 900);
}

TEST_CASE("lines are due after a minute, at the end of an hour, and when much has moved") {
  TrafficPlan plan(10'000, std::nullopt);
  CHECK_FALSE(plan.lines_due(after(0)));
  plan.count(after(0), 1);
  CHECK(plan.lines_due(after(0)));
  CHECK(plan.take_lines(after(0)) == "500000 1");
  CHECK(plan.take_lines(after(0)).empty());
  plan.count(after(10), 1);
  CHECK_FALSE(plan.lines_due(after(59)));
  CHECK(plan.lines_due(after(60)));
  CHECK(plan.lines_due(after(-1)));  // the clock was set back
  plan.count(after(11), 98);
  CHECK_FALSE(plan.lines_due(after(11)));
  plan.count(after(11), 1);  // a hundredth
  CHECK(plan.lines_due(after(11)));
  CHECK(plan.take_lines(after(11)) == "500000 101");
  CHECK_FALSE(plan.lines_due(after(kHour)));
  // What came behind the last line of an hour is told with the next one's.
  plan.count(after(kHour - 1), 7);
  CHECK(plan.take_lines(after(kHour - 1)) == "500000 108");
  plan.count(after(kHour - 1), 3);
  plan.count(after(kHour), 5);
  CHECK(plan.lines_due(after(kHour)));
  CHECK(plan.take_lines(after(kHour)) == "500000 111\n500001 5");
  CHECK_FALSE(plan.lines_due(after(2 * kHour)));

  TrafficPlan restarted(10'000, std::nullopt);
  restarted.restore("500000 111\n500001 5\n", after(kHour));
  CHECK(restarted.take_lines(after(kHour)).empty());  // they are there
  TrafficPlan unlimited(0, std::nullopt);
  unlimited.count(after(0), 1'000'000);
  CHECK_FALSE(unlimited.lines_due(after(0)));
}

TEST_CASE("a restart remembers how far ahead of its pace exchanges were") {
  constexpr std::uint64_t kDay = 24'000'000;
  std::string file;
  std::int64_t second = 0;
  std::uint64_t sent = 0;
  // Restarted every ten minutes, it still keeps to the pace.
  for (int life = 0; life < 6 * 12; ++life) {
    TrafficPlan plan(kDay, std::nullopt);
    plan.restore(file, after(second));
    for (int minute = 0; minute < 10; ++minute, second += 60) {
      plan.count(after(second), 0);
      if (plan.verdict(after(second)) != Verdict::kOpen) continue;
      plan.count(after(second), kDay / 24 / 10);
      sent += kDay / 24 / 10;
    }
    file += plan.take_lines(after(second - 60)) + "\n";
  }
  CHECK(sent >= kDay / 3);
  CHECK(sent <= kDay / 2 + 2 * kDay / 24);  // half a day
}

TEST_CASE("a restart in an even hour does not rest, nor after a day at the pace") {
  TrafficPlan plan(24'000'000, std::nullopt);
  std::string file;
  for (std::int64_t hour = 499'976; hour < 500'000; ++hour) {
    file += std::to_string(hour) + " 900000\n";
  }
  plan.restore(file + "500000 450000\n", after(kHour / 2));
  CHECK(plan.verdict(after(kHour / 2)) == Verdict::kOpen);
  plan.restore("500000 1600000\n", after(kHour / 2));
  CHECK(plan.verdict(after(kHour / 2)) == Verdict::kPaced);
}

TEST_CASE("a damaged file makes exchanges rest for two hours, or for a day at most") {
  TrafficPlan plan(24'000'000, std::nullopt);
  plan.restore("499999 15000000\n", after(0));
  CHECK(plan.verdict(after(0)) == Verdict::kPaced);
  plan.count(after(2 * kHour), 0);
  CHECK(plan.verdict(after(2 * kHour)) == Verdict::kOpen);
  TrafficPlan spent(24'000'000, std::nullopt);
  spent.restore("499998 18446744073709551615\n499999 9223372036854775809\n", after(0));
  CHECK(spent.bytes_in_day(after(0)) >= 24'000'000);
  CHECK(spent.verdict(after(0)) == Verdict::kSpent);
  spent.count(after(25 * kHour), 0);
  CHECK(spent.verdict(after(25 * kHour)) == Verdict::kOpen);
}

TEST_CASE("a clock that was set back forgets the hours to come") {
  TrafficPlan plan(1000, std::nullopt);
  plan.count(after(10 * kHour), 1000);
  CHECK(plan.verdict(after(10 * kHour)) == Verdict::kSpent);
  plan.count(after(kHour), 1);
  CHECK(plan.verdict(after(kHour)) == Verdict::kOpen);
  CHECK(plan.bytes_in_day(after(10 * kHour)) == 1);
}

TEST_CASE("newcomers do not make a donor spend more than its owner's day") {
  constexpr std::uint64_t kPieceBytes = 1 << 20;
  constexpr std::uint64_t kDay = 50 * kPieceBytes;
  constexpr std::uint32_t kStripes = 100;
  const gossip::StandInSeal seal(PeerId{1});
  gossip::CoreIdentity identity;
  identity.seal = &seal;
  identity.self.key = {PeerId{1}, 1};
  identity.stripes = {kStripes};
  gossip::CoreContext context({}, identity, {}, Instant{});
  gossip::StateDonor donor(context);
  gossip::StateOffer offer;
  offer.snapshot = 7;
  REQUIRE(offer.manifest.try_push({}));
  donor.on_request(Instant{}, PeerId{5}, false);
  donor.on_snapshot(Instant{}, offer);
  TrafficPlan plan(kDay, std::nullopt);
  std::uint64_t sent = 0;
  for (std::int64_t second = 0; second < 24 * kHour; ++second) {
    const Instant now = Instant{} + std::chrono::seconds(second);
    // As the network role does it: the plan is asked, and then the core told.
    plan.count(after(second), 0);
    const Verdict verdict = plan.verdict(after(second));
    const bool open = verdict == Verdict::kOpen || verdict == Verdict::kPaced;
    if (context.resting == open) {
      context.resting = !open;
      if (!open) donor.on_resting(now);
    }
    donor.on_request(now, PeerId{5}, false);
    donor.on_piece_request(now, PeerId{5}, {7, static_cast<std::uint32_t>(second) % kStripes, 0});
    while (!context.actions.empty()) {
      const gossip::Action action = context.actions.front();
      context.actions.pop_front();
      const auto* order = std::get_if<gossip::StateOrder>(&action);
      const auto* read = order == nullptr ? nullptr : std::get_if<gossip::ReadPiece>(order);
      if (read != nullptr) donor.on_piece_read(now, *read, gossip::PieceRead::kRead);
      if (!std::holds_alternative<gossip::SendPayload>(action)) continue;
      sent += kPieceBytes;
      plan.count(after(second), kPieceBytes);
    }
  }
  CHECK(sent >= kDay);
  CHECK(sent <= kDay + kPieceBytes);  // one under way
}

}  // namespace starling::peer
