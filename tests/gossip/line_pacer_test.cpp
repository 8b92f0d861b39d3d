#include "gossip/line_pacer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <vector>

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant kStart{seconds(1000)};

// A line of one rate with a queue in front of it, fed by a sender that always has more and is as
// fast as it is let, up to four times the line. What the pacer hears is a round trip old and
// smoothed as TCP does it.
struct Line {
  double bytes_per_second = 0;
  Duration round_trip{};
  double room = 0;    // bytes in the queue at most; what is more is lost
  double others = 0;  // share of the line that somebody else takes

  Instant now = kStart;
  double queue = 0, delivered = 0, lost = 0;
  Duration smoothed = round_trip;
  std::deque<std::pair<Instant, std::pair<Duration, double>>> on_the_way;
  std::vector<double> queue_seconds;

  void run(LinePacer& pacer, Duration span) {
    constexpr Duration kTick = milliseconds(5);
    for (const Instant end = now + span; now < end; now += kTick) {
      const double rate = pacer.rate().value_or(4 * bytes_per_second);
      const double free = bytes_per_second * (1 - others);
      const double offered = queue + rate * to_seconds(kTick);
      const double gone = std::min(offered, free * to_seconds(kTick));
      queue = std::min(offered - gone, room);
      lost += offered - gone - queue;
      delivered += gone;
      const Duration waited = from_seconds(queue / free);
      queue_seconds.push_back(to_seconds(waited));
      on_the_way.push_back({now + round_trip + waited, {round_trip + waited, delivered}});
      hear(pacer);
    }
  }
  void hear(LinePacer& pacer) {
    while (!on_the_way.empty() && on_the_way.front().first <= now) {
      const auto [sample, bytes] = on_the_way.front().second;
      smoothed = (15 * smoothed + sample) / 16;
      acknowledged = std::max(acknowledged, bytes);
      on_the_way.pop_front();
    }
    pacer.update(now, {smoothed, static_cast<std::uint64_t>(acknowledged)});
  }
  double acknowledged = 0;
};

Line make_line(double mbit, Duration round_trip) {
  Line line;
  line.bytes_per_second = mbit * 1e6 / 8;
  line.round_trip = round_trip;
  line.room = line.bytes_per_second;  // a second: a bloated one
  line.smoothed = round_trip;
  return line;
}

}  // namespace

TEST_CASE("the rate finds the line: full, and no long queue in front of it") {
  for (const double mbit : {5.0, 10.0, 100.0, 1000.0}) {
    for (const int round_trip : {10, 50, 100, 200}) {
      CAPTURE(mbit);
      CAPTURE(round_trip);
      Line line = make_line(mbit, milliseconds(round_trip));
      LinePacer pacer;
      line.run(pacer, seconds(10));  // finds it
      line.queue_seconds.clear();
      const double before = line.delivered;
      line.run(pacer, seconds(60));
      CHECK(line.delivered - before > 0.93 * 60 * line.bytes_per_second);
      std::sort(line.queue_seconds.begin(), line.queue_seconds.end());
      CHECK(line.queue_seconds[line.queue_seconds.size() * 99 / 100] < 0.150);
    }
  }
}

TEST_CASE("where no queue shows there is no limit") {
  Line line = make_line(100, milliseconds(50));
  line.room = 0.02 * line.bytes_per_second;
  LinePacer pacer;
  line.run(pacer, seconds(60));
  CHECK(!pacer.rate().has_value());
}

TEST_CASE("a line that becomes slower is followed, and one that becomes faster again") {
  Line line = make_line(100, milliseconds(40));
  line.room = 0.2 * line.bytes_per_second;
  LinePacer pacer;
  line.run(pacer, seconds(20));
  line.others = 0.9;
  line.run(pacer, seconds(20));
  CHECK(*pacer.rate() < 0.2 * line.bytes_per_second);
  line.others = 0;
  line.run(pacer, seconds(20));
  CHECK(*pacer.rate() > 0.8 * line.bytes_per_second);
}

TEST_CASE("a rate that nobody uses does not grow") {
  Line line = make_line(10, milliseconds(40));
  LinePacer pacer;
  line.run(pacer, seconds(20));
  const double rate = *pacer.rate();
  Instant now = line.now + seconds(1);
  for (int i = 0; i < 600; ++i, now += milliseconds(100)) {
    pacer.update(now, {milliseconds(40), static_cast<std::uint64_t>(line.acknowledged)});
  }
  CHECK(*pacer.rate() == doctest::Approx(rate).epsilon(0.12));  // it may have been draining
}

TEST_CASE("however slow the others make the line, something is left") {
  LinePacer pacer;
  std::uint64_t delivered = 0;
  for (Instant now = kStart; now < kStart + seconds(60); now += milliseconds(100)) {
    delivered += 100;
    pacer.update(now, {now == kStart ? milliseconds(10) : milliseconds(900), delivered});
  }
  CHECK(*pacer.rate() == LinePacer::kRateMin);
}

TEST_CASE("a path that has become longer is a queue for some minutes and then no more") {
  LinePacer pacer;
  std::uint64_t delivered = 0;
  Instant now = kStart;
  const auto run = [&](Duration span, Duration round_trip) {
    for (const Instant end = now + span; now < end; now += milliseconds(100)) {
      delivered += static_cast<std::uint64_t>(pacer.rate().value_or(1e6) / 10);
      pacer.update(now, {round_trip, delivered});
    }
  };
  run(seconds(10), milliseconds(20));
  CHECK(!pacer.rate());
  run(seconds(60), milliseconds(150));
  REQUIRE(pacer.rate());
  const double limited = *pacer.rate();
  run(2 * LinePacer::kBaseMemory, milliseconds(150));
  CHECK(*pacer.rate() > 1.5 * limited);
}

TEST_CASE("a new connection counts what it delivered from zero") {
  Line line = make_line(10, milliseconds(40));
  LinePacer pacer;
  line.run(pacer, seconds(20));
  const double rate = *pacer.rate();
  pacer.on_new_connection();
  pacer.update(line.now + seconds(1), {milliseconds(200), 0});
  CHECK(*pacer.rate() <= 1.1 * rate);
  pacer.update(line.now + seconds(2), {milliseconds(200), 1'000'000});
  CHECK(*pacer.rate() <= 1.1 * rate);
  CHECK(*pacer.rate() >= LinePacer::kRateMin);
}

TEST_CASE("a rate that is forgotten is found anew, however low it was") {
  Line line = make_line(1, milliseconds(100));
  LinePacer pacer;
  line.run(pacer, seconds(20));
  REQUIRE(pacer.rate());
  pacer.on_new_connection();
  pacer.forget_rate();
  CHECK(!pacer.rate());
  Line wide = make_line(100, milliseconds(100));
  wide.now = line.now;
  wide.run(pacer, seconds(10));
  const double before = wide.delivered;
  wide.run(pacer, seconds(5));
  CHECK(wide.delivered - before > 0.9 * 5 * wide.bytes_per_second);
}

}  // namespace starling::gossip
