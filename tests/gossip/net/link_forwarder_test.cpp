#include "gossip/net/link_forwarder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace starling::gossip {
namespace {

constexpr Duration kMinute = std::chrono::minutes(1);
constexpr PeerId kAnna{1};
constexpr PeerId kBert{2};
constexpr PeerId kCleo{3};

zmq::message_t payload(std::size_t bytes) { return zmq::message_t(bytes); }

Sending take(PeerId, zmq::message_t&) { return Sending::kSent; }

}  // namespace

TEST_CASE("only those who hold a promise are served, towards anybody and from anybody") {
  Forwarder forwarder(0);
  CHECK(!forwarder.serves(kAnna, kBert));
  forwarder.set_holder(kAnna, true);
  CHECK(forwarder.serves(kAnna, kBert));
  CHECK(forwarder.serves(kBert, kAnna));
  CHECK(!forwarder.serves(kBert, kCleo));
  forwarder.set_holder(kAnna, false);
  CHECK(!forwarder.serves(kAnna, kBert));
}

TEST_CASE("over a minute no more is forwarded than the rate, and nearly all of it is used") {
  for (const double rate : {20e3, 1e6, 12.5e6}) {
    CAPTURE(rate);
    Forwarder forwarder(rate);
    forwarder.set_holder(kAnna, true);
    Rng rng(3);
    const std::size_t frame = 300 * 1024;
    double bytes = 0;
    // Far more of both lanes than there is room for, at moments that are drawn.
    for (Instant now{}; now < Instant{} + kMinute;
         now += std::chrono::microseconds(1 + rng.below(20000))) {
      const std::size_t small = 100 + rng.below(2000);
      for (std::uint64_t i = 0; i < 80; ++i) {
        if (forwarder.admit(now, PeerId{10 + i % 8}, small)) bytes += static_cast<double>(small);
      }
      static_cast<void>(forwarder.hold(now, kAnna, kBert, payload(frame)));
      bytes += static_cast<double>(forwarder.pump(now, take).bytes);
    }
    // The burst, and one frame of each lane that made a debt.
    CHECK(bytes <= rate * 60.5 + frame + 2100);
    CHECK(bytes >= 0.85 * rate * 60);
  }
}

TEST_CASE("payloads leave room for small messages") {
  Forwarder forwarder(1e6);
  forwarder.set_holder(kAnna, true);
  Instant now{};
  std::uint64_t admitted = 0;
  for (int tenth = 0; tenth < 600; ++tenth) {
    now += std::chrono::milliseconds(100);
    static_cast<void>(forwarder.hold(now, kAnna, kBert, payload(1 << 20)));
    static_cast<void>(forwarder.pump(now, take));
    // 100 kB/s in all.
    for (std::uint64_t id = 10; id < 20; ++id) admitted += forwarder.admit(now, PeerId{id}, 1000);
  }
  CHECK(admitted == 6000);
}

TEST_CASE("who floods with small messages leaves room for those of others") {
  Forwarder forwarder(1e6);
  Instant now{};
  std::uint64_t flood = 0;
  std::uint64_t calm = 0;
  for (int tenth = 0; tenth < 600; ++tenth) {
    now += std::chrono::milliseconds(100);
    for (int i = 0; i < 1000; ++i) flood += forwarder.admit(now, kAnna, 1000);
    for (const PeerId other : {kBert, kCleo}) calm += forwarder.admit(now, other, 1000);
  }
  CHECK(calm == 1200);
  CHECK(flood * 1000 <= 0.25 * 0.125 * 1e6 * 60.5 + 1000);
  CHECK(flood * 1000 >= 0.24 * 0.125 * 1e6 * 60);
}

TEST_CASE("without a limit everything goes at once") {
  Forwarder forwarder(0);
  forwarder.set_holder(kAnna, true);
  for (std::size_t i = 0; i < 1000; ++i) {
    CHECK(forwarder.admit({}, kAnna, 16000));
    CHECK(forwarder.hold({}, kAnna, kBert, payload(1000)));
    CHECK(forwarder.pump({}, take).sent == 1);
  }
}

TEST_CASE("payloads wait in bounds: few in all, fewer of one sender, and not for ever") {
  Forwarder forwarder(0);
  for (std::uint64_t id = 1; id <= 10; ++id) forwarder.set_holder(PeerId{id}, true);
  const auto busy = [](PeerId, zmq::message_t&) { return Sending::kBusy; };
  std::size_t taken = 0;
  for (int i = 0; i < 100; ++i) taken += forwarder.hold({}, kAnna, kBert, payload(10));
  CHECK(taken == Forwarder::kHeldOfOneMax);
  for (std::uint64_t id = 2; id <= 10; ++id) {
    for (int i = 0; i < 10; ++i) taken += forwarder.hold({}, PeerId{id}, kAnna, payload(10));
  }
  CHECK(taken == Forwarder::kHeldMax);
  CHECK(forwarder.pump({}, busy).sent == 0);
  CHECK(forwarder.held() == Forwarder::kHeldMax);
  const Instant late = Instant{} + Forwarder::kHeldFor + std::chrono::milliseconds(1);
  CHECK(forwarder.pump(late, busy).lost == Forwarder::kHeldMax);
  CHECK(forwarder.held() == 0);
}

TEST_CASE("one receiver that is stuck holds up nobody else, and order is kept for each") {
  Forwarder forwarder(0);
  forwarder.set_holder(kAnna, true);
  for (const std::size_t size : {11U, 12U}) {
    REQUIRE(forwarder.hold({}, kAnna, kBert, payload(size)));
    REQUIRE(forwarder.hold({}, kAnna, kCleo, payload(size)));
  }
  std::vector<std::size_t> sent;
  const auto pumped = forwarder.pump({}, [&](PeerId to, zmq::message_t& frame) {
    if (to == kBert) return Sending::kBusy;
    sent.push_back(frame.size());
    return Sending::kSent;
  });
  CHECK(pumped.sent == 2);
  CHECK(sent == std::vector<std::size_t>{11, 12});
  CHECK(forwarder.held() == 2);
}

TEST_CASE("what waits for one whose promise ends is dropped") {
  Forwarder forwarder(0);
  forwarder.set_holder(kAnna, true);
  REQUIRE(forwarder.hold({}, kAnna, kBert, payload(10)));
  forwarder.set_holder(kAnna, false);
  CHECK(forwarder.pump({}, take).lost == 1);
}

}  // namespace starling::gossip
