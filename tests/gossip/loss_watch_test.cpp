#include "gossip/loss_watch.h"

#include <doctest/doctest.h>

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// A connection that is looked at ten times a second.
struct Connection {
  double busy = 1, held = 0;  // share of the time; of that
  Duration queue = milliseconds(5);
  Instant now{seconds(1000)};
  LossWatch watch;

  // Whether it turned out to be lossy meanwhile. One packet is lost at the end of each `every`.
  bool run(Duration span, Duration every) {
    constexpr Duration kTick = milliseconds(100);
    bool news = false;
    for (Duration passed{}; passed < span; passed += kTick) {
      now += kTick;
      const bool loses = (passed + kTick) % every == Duration::zero();
      const Duration used = from_seconds(busy * to_seconds(kTick));
      news = watch.update(now,
                          {loses ? 1U : 0U, used, from_seconds(held * to_seconds(used)), queue}) ||
             news;
    }
    return news;
  }
};

}  // namespace

TEST_CASE("losses without a queue make a line lossy, once and for good") {
  Connection line;
  CHECK(!line.run(seconds(19), seconds(10)));
  CHECK(!line.watch.lossy());
  CHECK(line.run(seconds(21), seconds(10)));
  CHECK(line.watch.lossy());
  CHECK(!line.run(minutes(2), seconds(10)));
  CHECK(line.watch.lossy());
}

TEST_CASE("many losses of one moment are one") {
  Connection line;
  CHECK(!line.run(seconds(3), milliseconds(100)));
  CHECK(line.run(seconds(1), milliseconds(100)));
}

TEST_CASE("losses that a minute parts are no cause to do anything") {
  Connection line;
  CHECK(!line.run(minutes(20), seconds(31)));
}

TEST_CASE("losses of a full line, of an idle one and of one behind full buffers do not count") {
  Connection line;
  SUBCASE("full") { line.queue = LossWatch::kQueueLeast; }
  SUBCASE("idle") { line.busy = 0.2; }
  SUBCASE("held") { line.held = 0.6; }
  CHECK(!line.run(minutes(10), seconds(2)));
}

TEST_CASE("a queue at any time of the step explains its losses") {
  Connection line;
  for (int step = 0; step < 100; ++step) {
    line.queue = milliseconds(40);
    CHECK(!line.run(milliseconds(100), seconds(1)));
    line.queue = milliseconds(5);
    CHECK(!line.run(milliseconds(900), milliseconds(900)));
  }
}

}  // namespace starling::gossip
