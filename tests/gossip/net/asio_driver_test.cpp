#include "gossip/net/asio_driver.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "gossip/net/payload_queues.h"
#include "gossip/responder.h"
#include "tests/gossip/net/driver_peer.h"
#include "tests/gossip/net/puppet.h"

namespace starling::gossip {

static_assert(!std::is_copy_constructible_v<AsioDriver>);

namespace {

constexpr FragmentId kFragment{0};

std::uint64_t completed(const DriverPeer& peer) {
  return static_cast<std::uint64_t>(
      std::count_if(peer.events.ended.begin(), peer.events.ended.end(),
                    [](const auto& event) { return event.outcome == Outcome::kCompleted; }));
}

// Nothing under way and nothing in doubt.
bool settled(DriverPeer& peer) {
  const Core& core = peer.driver().core();
  return core.exchanges_open() == 0 && core.stripes_unsettled() == 0;
}

}  // namespace

TEST_CASE("two peers find each other through a seed and average a fragment") {
  DriverPeer anna({.id = 1, .value = 100});
  DriverPeer bert({.id = 2, .value = 0});
  join(bert, anna.address());
  REQUIRE(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
  bert.driver().publish(kFragment, {.cold = true, .clip_radius = 0});
  REQUIRE(run_until({&anna, &bert}, [&] {
    return completed(anna) == 1 && completed(bert) == 1 && settled(anna) && settled(bert);
  }));
  CHECK(anna.events.ended[0].stripes_applied == TestMixer::kStripes);
  CHECK(anna.events.ended[0].role == Role::kResponder);
  CHECK(bert.events.ended[0].role == Role::kInitiator);
  for (const std::int64_t value : anna.mixer.values()) CHECK(value == 50);
  for (const std::int64_t value : bert.mixer.values()) CHECK(value == 50);
  CHECK(run_until({&anna, &bert},
                  [&] { return anna.mixer.slots_home() && bert.mixer.slots_home(); }));
  CHECK(anna.driver().link_stats().malformed == 0);
  CHECK(bert.driver().link_stats().bulk.frames_out >= TestMixer::kStripes);
  // All that was sent was sent to the other, and what comes is counted to whom it comes from.
  const LinkStats& sent = anna.driver().link_stats();
  const PeerTraffic traffic = anna.driver().traffic_with(test_identity(2).id());
  CHECK(traffic.bytes_out == sent.control.bytes_out + sent.bulk.bytes_out);
  CHECK(traffic.bytes_in > 0);
  CHECK(traffic.bytes_in <= sent.control.bytes_in + sent.bulk.bytes_in);
  CHECK(anna.driver().traffic_with(PeerId{12345}).bytes_in == 0);
  CHECK(bert.driver().stats().frames_dropped == 0);
}

TEST_CASE("many exchanges in both directions keep the sum") {
  DriverPeer anna({.id = 1, .value = 1'000'003});
  DriverPeer bert({.id = 2, .value = -77});
  DriverPeer cleo({.id = 3, .value = 12'345});
  const std::int64_t sum = anna.mixer.sum() + bert.mixer.sum() + cleo.mixer.sum();
  join(bert, anna.address());
  join(cleo, anna.address());
  REQUIRE(run_until({&anna, &bert, &cleo},
                    [&] { return sees(anna, 2) && sees(bert, 2) && sees(cleo, 2); }));
  const auto apart = [&] {
    std::int64_t widest = 0;
    for (std::size_t stripe = 0; stripe < TestMixer::kStripes; ++stripe) {
      const auto [least, most] = std::minmax(
          {anna.mixer.values()[stripe], bert.mixer.values()[stripe], cleo.mixer.values()[stripe]});
      widest = std::max(widest, most - least);
    }
    return widest;
  };
  // Who meets whom depends on real time, and peers that decline each other pause: so this is
  // bounded by time and not by rounds.
  const auto all_settled = [&] { return settled(anna) && settled(bert) && settled(cleo); };
  CHECK(run_until(
      {&anna, &bert, &cleo},
      [&] {
        if (apart() <= 100) return true;
        for (DriverPeer* peer : {&anna, &bert, &cleo}) {
          if (settled(*peer)) peer->driver().publish(kFragment, {});
        }
        return false;
      },
      30));
  CHECK(run_until({&anna, &bert, &cleo}, all_settled));
  CHECK(anna.mixer.sum() + bert.mixer.sum() + cleo.mixer.sum() == sum);
  CHECK(apart() <= 100);
}

TEST_CASE("a mixer that is nearly always full delays orders and loses none") {
  DriverPeer anna({.id = 1, .value = 64, .orders_max = 1});
  DriverPeer bert({.id = 2, .value = 0, .orders_max = 1});
  join(bert, anna.address());
  REQUIRE(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
  bert.driver().publish(kFragment, {});
  REQUIRE(run_until({&anna, &bert}, [&] {
    return completed(anna) == 1 && completed(bert) == 1 && settled(anna) && settled(bert);
  }));
  CHECK(anna.mixer.refused() + bert.mixer.refused() > 0);
  for (const std::int64_t value : anna.mixer.values()) CHECK(value == 32);
  CHECK(anna.driver().stats().orders_waiting == 0);
}

TEST_CASE("while the mixer is far behind payloads are left unread, and all are read in the end") {
  DriverPeer anna({.id = 1, .orders_max = 4});
  Puppet bert(2);
  bert.join(anna.address());
  const auto turn = [&] {
    anna.turn();
    bert.turn();
  };
  REQUIRE(eventually([&] { return turn(), bert.heard_of<Welcome>() > 0 && sees(anna, 1); }));
  ExchangeKey key{bert.key(), {id_of(anna.address().key), 1}, 0};
  REQUIRE(eventually([&] {  // until it knows its own weight
    ++key.counter;
    bert.offer(key, kFragment);
    for (int i = 0; i < 20; ++i) turn();
    return bert.accepted.has_value();
  }));

  anna.mixer_sleeps = true;
  constexpr std::uint32_t kPushes = TestMixer::kStripes * kAttemptsMax;
  std::uint32_t pushed = 0;
  std::uint64_t most_waiting = 0;
  const auto push_more = [&] {
    const std::uint32_t stripe = pushed % TestMixer::kStripes;
    const auto attempt = static_cast<std::uint8_t>(pushed / TestMixer::kStripes);
    if (pushed < kPushes && bert.push({*bert.accepted, kFragment, stripe, attempt})) ++pushed;
    turn();
    most_waiting = std::max(most_waiting, anna.driver().stats().orders_waiting);
    return pushed == kPushes;
  };
  static_cast<void>(eventually(push_more, 1));
  CHECK(most_waiting >= AsioDriver::kOrdersWaitingMax);
  CHECK(most_waiting <= AsioDriver::kOrdersWaitingMax + 1);  // one push drops what was there
  const std::size_t pongs = bert.heard_of<Pong>();
  bert.say(ping(1));
  CHECK(eventually([&] { return turn(), bert.heard_of<Pong>() > pongs; }));

  anna.mixer_sleeps = false;
  CHECK(eventually(push_more));
  CHECK(eventually([&] {
    turn();
    return bert.heard_of<Delta>() >= TestMixer::kStripes &&
           anna.driver().stats().orders_waiting == 0;
  }));
  CHECK(sees(anna, 1));
}

TEST_CASE("when a peer dies the others notice in time and go on") {
  DriverPeer anna({.id = 1, .value = 8});
  DriverPeer bert({.id = 2, .value = 0});
  auto cleo = std::make_unique<DriverPeer>(PeerSetup{.id = 3, .value = 4});
  join(bert, anna.address());
  join(*cleo, anna.address());
  REQUIRE(run_until({&anna, &bert, cleo.get()},
                    [&] { return sees(anna, 2) && sees(bert, 2) && sees(*cleo, 2); }));
  anna.driver().publish(kFragment, {});  // perhaps with the one about to die
  cleo.reset();
  CHECK(run_until(
      {&anna, &bert},
      [&] { return anna.events.saw(3, Health::kDead) && bert.events.saw(3, Health::kDead); }, 20));
  CHECK(sees(anna, 1));
  CHECK(run_until(
      {&anna, &bert}, [&] { return settled(anna) && settled(bert); }, 30));
  const std::uint64_t before = completed(bert);
  bert.driver().publish(kFragment, {});
  CHECK(run_until({&anna, &bert}, [&] { return completed(bert) > before; }));
}

TEST_CASE("a peer that leaves is known to have left and not to have died") {
  DriverPeer anna({.id = 1});
  auto bert = std::make_unique<DriverPeer>(PeerSetup{.id = 2});
  join(*bert, anna.address());
  REQUIRE(run_until({&anna, bert.get()}, [&] { return sees(anna, 1) && sees(*bert, 1); }));
  bert->driver().leave();
  bert.reset();  // at once: the last word still gets out
  CHECK(run_until(
      {&anna}, [&] { return anna.events.saw(2, Health::kLeft); }, 20));
  CHECK(!anna.events.saw(2, Health::kDead));
}

TEST_CASE("a peer that was killed and comes back at its address takes part again") {
  DriverPeer anna({.id = 1, .value = 10});
  auto bert = std::make_unique<DriverPeer>(PeerSetup{.id = 2});
  join(*bert, anna.address());
  REQUIRE(run_until({&anna, bert.get()}, [&] { return sees(anna, 1) && sees(*bert, 1); }));
  const PeerAddress address = bert->address();
  bert = nullptr;
  bert = std::make_unique<DriverPeer>(PeerSetup{.id = 2,
                                                .incarnation = 2,
                                                .control_port = address.control_port,
                                                .bulk_port = address.bulk_port});
  join(*bert, anna.address());
  REQUIRE(run_until({&anna, bert.get()}, [&] { return sees(anna, 1) && sees(*bert, 1); }));
  bert->driver().publish(kFragment, {});
  CHECK(run_until({&anna, bert.get()}, [&] { return completed(*bert) == 1; }));
}

TEST_CASE("peers of another model refuse each other and both say so") {
  DriverPeer anna({.id = 1, .model = 1});
  DriverPeer bert({.id = 2, .model = 2});
  join(bert, anna.address());
  REQUIRE(run_until({&anna, &bert},
                    [&] { return !anna.events.refused.empty() && !bert.events.refused.empty(); }));
  CHECK(anna.events.refused[0].reason == RefuseReason::kModel);
  CHECK(anna.events.refused[0].by_us);
  CHECK(anna.events.refused[0].theirs.model == 2);
  CHECK(bert.events.refused[0].reason == RefuseReason::kModel);
  CHECK(!bert.events.refused[0].by_us);
  CHECK(sees(anna, 0));
  CHECK(sees(bert, 0));
}

TEST_CASE("payloads that cannot be delivered are given up and their slots come home") {
  const ClosedPort closed;
  DriverPeer anna({.id = 1, .value = 10, .advertised_bulk = closed.port()});
  DriverPeer bert(
      {.id = 2, .value = 0, .stripe_timeout = std::chrono::milliseconds(200), .listens = false});
  join(bert, anna.address());
  REQUIRE(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
  bert.driver().publish(kFragment, {});
  REQUIRE(run_until({&anna, &bert}, [&] { return bert.driver().stats().frames_waiting > 0; }));
  CHECK(!bert.mixer.slots_home());
  // The core gives the exchange up in its time; what is queued is given up with its line.
  CHECK(run_until({&anna, &bert}, [&] { return settled(bert); }));
  bert.ahead += PayloadQueues::kStuckMax + std::chrono::seconds(1);
  CHECK(run_until({&anna, &bert}, [&] { return bert.mixer.slots_home(); }));
  CHECK(bert.driver().stats().frames_dropped > 0);
  CHECK(bert.driver().stats().frames_waiting == 0);
  CHECK(bert.mixer.sum() == 0);
}

TEST_CASE("an exchange over a limited line completes, and no faster than the limit") {
  constexpr double kLimit = 1e6;
  for (const bool upload : {true, false}) {
    CAPTURE(upload);
    const DriverLimits limits{.upload_bytes_per_second = upload ? kLimit : 0,
                              .download_bytes_per_second = upload ? 0 : kLimit};
    DriverPeer anna({.id = 1, .value = 100, .limits = limits});
    DriverPeer bert({.id = 2, .value = 0});
    join(bert, anna.address());
    REQUIRE(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
    const Instant start = steady_now();
    for (std::uint64_t round = 1; round <= 2; ++round) {
      bert.driver().publish(kFragment, {});
      REQUIRE(run_until({&anna, &bert}, [&] { return completed(anna) == round; }));
    }
    const LinkStats& link = anna.driver().link_stats();
    const std::uint64_t bytes = upload ? link.control.bytes_out + link.bulk.bytes_out
                                       : link.control.bytes_in + link.bulk.bytes_in;
    // What was said before the start, the burst and the last frame went for nothing.
    const double seconds = to_seconds(steady_now() - start);
    CHECK(static_cast<double>(bytes) <=
          kLimit * (seconds + 0.05) + TestMixer::kPayloadBytes + 10'000);
    CHECK(bytes > 2 * TestMixer::kStripes * TestMixer::kPayloadBytes);
    CHECK(anna.driver().stats().frames_dropped == 0);
  }
}

TEST_CASE("an exchange whose connections are cut in the middle goes on where it was") {
  DriverPeer anna({.id = 1, .value = 100, .limits = {.download_bytes_per_second = 5e5}});
  DriverPeer bert({.id = 2, .value = 0});
  join(bert, anna.address());
  REQUIRE(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
  bert.driver().publish(kFragment, {});
  REQUIRE(run_until({&anna, &bert}, [&] { return anna.mixer.sum() < 8 * 100; }));
  REQUIRE(anna.mixer.sum() > 8 * 50);
  int cut = 0;
  for_connections_at(anna.address().bulk_port, [&cut](int descriptor) {
    cut += ::shutdown(descriptor, SHUT_RDWR) == 0 ? 1 : 0;
  });
  CHECK(cut > 0);
  REQUIRE(run_until(
      {&anna, &bert},
      [&] {
        return completed(anna) == 1 && completed(bert) == 1 && settled(anna) && settled(bert);
      },
      30));
  CHECK(bert.events.ended[0].stripes_applied == TestMixer::kStripes);
  for (const std::int64_t value : anna.mixer.values()) CHECK(value == 50);
  for (const std::int64_t value : bert.mixer.values()) CHECK(value == 50);
  CHECK(run_until({&anna, &bert},
                  [&] { return anna.mixer.slots_home() && bert.mixer.slots_home(); }));
}

TEST_CASE("a burst of messages is taken in to the last one") {
  DriverPeer anna({.id = 1});
  ZmqLink stranger = open_link(test_identity(7));
  REQUIRE(connect(stranger, anna.address()));
  const Message message = Ping{1, {}, {}, {}};
  std::uint64_t sent = 0;
  // Bursts of many sizes, each after the loop had time to fall asleep.
  for (std::uint64_t burst = 1; burst <= 256; burst = 2 * burst + 1) {
    CAPTURE(burst);
    for (std::uint64_t i = 0; i < burst; ++i) {
      if (stranger.try_send_control(id_of(anna.address().key), message) == Sending::kSent) ++sent;
    }
    CHECK(run_until({&anna}, [&] {
      stranger.flush(steady_now());
      return anna.driver().core().stats().messages_refused == sent;
    }));
  }
  CHECK(sent > 300);
}

TEST_CASE("an unreachable seed does no harm") {
  const ClosedPort closed;
  DriverPeer anna({.id = 1});
  DriverPeer bert({.id = 2});
  PeerAddress nowhere = anna.address();
  nowhere.key = test_identity(9).key();
  nowhere.control_port = nowhere.bulk_port = closed.port();
  const std::array<PeerAddress, 2> seeds{nowhere, anna.address()};
  bert.driver().join(seeds);
  CHECK(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
}

}  // namespace starling::gossip
