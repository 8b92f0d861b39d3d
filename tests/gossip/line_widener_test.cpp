#include "gossip/line_widener.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// A line, and connections of which each is held to so much by its buffers.
struct Line {
  double bytes_per_second = 0;  // of the line, or of a receiver that is slower
  double of_each = 0;
  Duration round_trip = milliseconds(100);
  double busy = 1;             // share of the time in which there is something to send
  bool slow_receiver = false;  // then it is its buffers that are full

  std::size_t connections = 1;
  std::size_t opened = 0;
  Instant now{seconds(1000)};

  void run(LineWidener& widener, Duration span) {
    constexpr Duration kTick = milliseconds(100);
    for (const Instant end = now + span; now < end;) {
      now += kTick;
      const auto count = static_cast<double>(connections);
      const double rate = std::min(bytes_per_second, count * of_each);
      const bool buffers = slow_receiver || count * of_each < bytes_per_second;
      const Duration used = from_seconds(busy * count * to_seconds(kTick));
      const auto bytes = static_cast<std::uint64_t>(busy * rate * to_seconds(kTick));
      if (!widener.update(now, connections,
                          {bytes, used, buffers ? used : Duration{}, round_trip})) {
        continue;
      }
      ++connections;
      ++opened;
    }
  }
};

}  // namespace

TEST_CASE("connections are added until the line is full, and no more") {
  LineWidener widener;
  Line line{.bytes_per_second = 100e6, .of_each = 30e6};
  line.run(widener, minutes(10));
  CHECK(line.connections == 4);
}

TEST_CASE("never more than the most") {
  LineWidener widener;
  Line line{.bytes_per_second = 1e9, .of_each = 10e6};
  line.run(widener, minutes(10));
  CHECK(line.connections == LineWidener::kConnectionsMax);
}

TEST_CASE("a line that the network holds up, a short one and an idle one stay as they are") {
  LineWidener widener;
  Line line{.bytes_per_second = 10e6, .of_each = 30e6};
  SUBCASE("full") {}
  SUBCASE("short") {
    line.bytes_per_second = 1e9;
    line.round_trip = milliseconds(5);
  }
  SUBCASE("idle") {
    line.bytes_per_second = 1e9;
    line.busy = 0.3;
  }
  line.run(widener, minutes(10));
  CHECK(line.connections == 1);
}

TEST_CASE("where another carried nothing the next is a while in coming") {
  LineWidener widener;
  Line line{.bytes_per_second = 10e6, .of_each = 30e6, .slow_receiver = true};
  line.run(widener, LineWidener::kRest);
  CHECK(line.opened == 1);
  line.run(widener, LineWidener::kRest / 2);
  CHECK(line.opened == 2);
}

TEST_CASE("a pause after another was opened does not speak against it") {
  LineWidener widener;
  Line line{.bytes_per_second = 100e6, .of_each = 30e6};
  while (line.opened == 0) line.run(widener, milliseconds(100));
  line.busy = 0;
  line.run(widener, minutes(1));
  line.busy = 1;
  line.run(widener, minutes(1));
  CHECK(line.connections == 4);
}

}  // namespace starling::gossip
