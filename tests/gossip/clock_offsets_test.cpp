#include "gossip/clock_offsets.h"

#include <doctest/doctest.h>

#include <array>

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr PeerId kPeer{5};
constexpr std::uint64_t kNoon = 1'700'000'000'000'000;
constexpr Instant kStart{};

// Two clocks, and messages that take what a test says.
struct World {
  World() { offsets.watch(std::array{kPeer}); }
  void ask(std::uint64_t nonce) { offsets.on_ping(now, kPeer, nonce); }
  std::uint64_t time_of_day() const {
    return kNoon + static_cast<std::uint64_t>((now - kStart) / std::chrono::microseconds(1));
  }
  std::uint64_t theirs() const { return time_of_day() + static_cast<std::uint64_t>(theirs_ahead); }
  // Asked now, answered after `there`, heard after `back` more.
  void exchange(std::uint64_t nonce, Duration there, Duration back) {
    ask(nonce);
    now += there;
    const std::uint64_t told = theirs();
    now += back;
    offsets.on_pong(now, kPeer, {nonce, time_of_day(), told});
  }
  ClockOffset offset() const {
    REQUIRE(offsets.of(kPeer));
    return *offsets.of(kPeer);
  }
  bool is_right() const {
    return std::chrono::abs(offset().ahead - std::chrono::microseconds(theirs_ahead)) <=
           offset().within;
  }

  Instant now = kStart;
  std::int64_t theirs_ahead = 0;  // microseconds
  ClockOffsets offsets;
};

}  // namespace

TEST_CASE("on a line that is as fast both ways the offset is exact") {
  for (const std::int64_t ahead : {0, 1, 12'000, -12'000, 86'400'000}) {
    CAPTURE(ahead);
    World world;
    world.theirs_ahead = ahead;
    world.exchange(1, milliseconds(20), milliseconds(20));
    CHECK(world.offset().ahead == std::chrono::microseconds(ahead));
    CHECK(world.offset().within > milliseconds(20));
    CHECK(world.offset().within < milliseconds(21));
  }
}

TEST_CASE("however the time is divided between the ways, the bound holds, and is reached") {
  for (const int there : {0, 1, 50, 99, 100}) {
    CAPTURE(there);
    World world;
    world.theirs_ahead = 777'000;
    world.exchange(1, milliseconds(there), milliseconds(100 - there));
    CHECK(world.is_right());
    const Duration off = std::chrono::abs(world.offset().ahead - milliseconds(777));
    CHECK(off == milliseconds(std::abs(there - 50)));
  }
}

TEST_CASE("the quickest answer counts, and one that nobody asked for does not") {
  World world;
  world.exchange(1, milliseconds(100), milliseconds(0));
  world.exchange(2, milliseconds(1), milliseconds(1));
  const ClockOffset best = world.offset();
  world.exchange(3, milliseconds(0), milliseconds(300));
  CHECK(world.offset().within == best.within);
  CHECK(world.offset().ahead == Duration::zero());

  World other;
  other.ask(1);
  other.offsets.on_pong(other.now, kPeer, {2, kNoon, kNoon});
  other.offsets.on_pong(other.now, kPeer, {0, kNoon, kNoon});
  CHECK(!other.offsets.of(kPeer));
  other.offsets.on_ping(other.now, PeerId{6}, 7);  // not watched
  other.offsets.on_pong(other.now, PeerId{6}, {7, kNoon, kNoon});
  CHECK(!other.offsets.of(PeerId{6}));
}

TEST_CASE("answers to pings that others overtook on a long line count, as far as is remembered") {
  World world;
  for (std::uint64_t nonce = 1; nonce <= 20; ++nonce) world.ask(nonce);
  world.now += seconds(1);
  world.offsets.on_pong(world.now, kPeer, {4, kNoon, kNoon});
  CHECK(!world.offsets.of(kPeer));
  world.offsets.on_pong(world.now, kPeer, {5, world.time_of_day(), world.theirs()});
  CHECK(world.is_right());
}

TEST_CASE("a peer that tells no time has no offset, and extreme times overflow nothing") {
  World world;
  world.ask(1);
  world.offsets.on_pong(world.now, kPeer, {1, kNoon, 0});
  CHECK(!world.offsets.of(kPeer));
  const auto years = [](const ClockOffset& offset) {
    return to_seconds(offset.ahead) / (365.25 * 86400);
  };
  for (const std::uint64_t theirs : {kTimeOfDayMax, ~std::uint64_t{0}}) {
    World far;
    far.ask(1);
    far.offsets.on_pong(far.now, kPeer, {1, 1, theirs});
    CHECK(years(far.offset()) == doctest::Approx(285.4).epsilon(0.001));
    World past;
    past.ask(1);
    past.offsets.on_pong(past.now, kPeer, {1, theirs, 1});
    CHECK(years(past.offset()) == doctest::Approx(-285.4).epsilon(0.001));
  }
}

TEST_CASE("a machine's own clock is told as the nearest time that can be told") {
  CHECK(to_time_of_day(seconds(3) + std::chrono::nanoseconds(1999)) == 3'000'001);
  CHECK(to_time_of_day(Duration::zero()) == 1);
  CHECK(to_time_of_day(Duration::min()) == 1);
  CHECK(to_time_of_day(Duration::max()) == kTimeOfDayMax);
}

}  // namespace starling::gossip
