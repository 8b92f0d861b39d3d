// Whole peers that cannot be dialled, are not trusted, or speak another version.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "tests/gossip/net/driver_peer.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;

constexpr FragmentId kFragment{0};

SwarmSecret secret_of(char letter) {
  const std::string text(32, letter);
  return SwarmSecret(std::as_bytes(std::span(text)));
}

AllowList only(std::initializer_list<std::uint8_t> members) {
  AllowList list;
  for (const std::uint8_t member : members) list.add(test_identity(member).key());
  return list;
}

bool completed_with(const DriverPeer& peer, Role role, std::uint64_t count) {
  const auto done = std::count_if(
      peer.events.ended.begin(), peer.events.ended.end(), [role](const ExchangeEnded& event) {
        return event.role == role && event.outcome == Outcome::kCompleted;
      });
  return static_cast<std::uint64_t>(done) >= count;
}

bool refused_for(const DriverPeer& peer, RefuseReason reason) {
  return std::any_of(peer.events.refused.begin(), peer.events.refused.end(),
                     [reason](const Refused& event) { return event.reason == reason; });
}

}  // namespace

TEST_CASE("a peer that only dials begins exchanges and is asked for some") {
  DriverPeer anna({.id = 1, .value = 100});
  DriverPeer bert({.id = 2, .value = 0, .listens = false});
  join(bert, anna.address());
  REQUIRE(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
  bert.driver().publish(kFragment, {});
  REQUIRE(run_until({&anna, &bert}, [&] {
    return completed_with(bert, Role::kInitiator, 1) && completed_with(anna, Role::kResponder, 1);
  }));
  CHECK(bert.mixer.sum() == 8 * 50);
  anna.driver().publish(kFragment, {});
  REQUIRE(run_until({&anna, &bert}, [&] {
    return completed_with(anna, Role::kInitiator, 1) && completed_with(bert, Role::kResponder, 1);
  }));
  CHECK(anna.driver().core().self().dialable);
  CHECK(!bert.driver().core().self().dialable);
  CHECK(anna.driver().stats().frames_dropped == 0);
  CHECK(bert.driver().stats().frames_dropped == 0);
}

TEST_CASE("two peers that cannot be dialled know of each other and leave it at that") {
  DriverPeer anna({.id = 1});
  DriverPeer bert({.id = 2, .listens = false});
  DriverPeer cleo({.id = 3, .listens = false});
  join(bert, anna.address());
  join(cleo, anna.address());
  REQUIRE(run_until({&anna, &bert, &cleo}, [&] { return sees(bert, 2) && sees(cleo, 2); }));
  // Longer than any suspicion: nobody may accuse one whom he cannot ask.
  const Instant end = steady_now() + seconds(4);
  CHECK(run_until({&anna, &bert, &cleo}, [&] { return steady_now() > end; }));
  for (DriverPeer* peer : {&anna, &bert, &cleo}) {
    CHECK(sees(*peer, 2));
    CHECK(std::none_of(
        peer->events.changed.begin(), peer->events.changed.end(),
        [](const PeerChanged& event) { return event.record.health != Health::kAlive; }));
  }
  bert.driver().publish(kFragment, {});
  CHECK(
      run_until({&anna, &bert, &cleo}, [&] { return completed_with(anna, Role::kResponder, 1); }));
}

TEST_CASE("a peer that was restarted is found again by one that only dials") {
  auto anna = std::make_unique<DriverPeer>(PeerSetup{.id = 1, .value = 100});
  DriverPeer bert({.id = 2, .listens = false});
  const PeerAddress address = anna->address();
  join(bert, address);
  REQUIRE(run_until({anna.get(), &bert}, [&] { return sees(*anna, 1) && sees(bert, 1); }));
  anna.reset();
  anna = std::make_unique<DriverPeer>(PeerSetup{.id = 1,
                                                .incarnation = 2,
                                                .value = 100,
                                                .control_port = address.control_port,
                                                .bulk_port = address.bulk_port});
  REQUIRE(run_until({anna.get(), &bert}, [&] { return sees(*anna, 1) && sees(bert, 1); }));
  anna->driver().publish(kFragment, {});
  CHECK(run_until({anna.get(), &bert}, [&] { return completed_with(*anna, Role::kInitiator, 1); }));
}

TEST_CASE("peers with the same secret find each other, and one with another is refused") {
  DriverPeer anna({.id = 1, .secret = secret_of('s')});
  DriverPeer bert({.id = 2, .secret = secret_of('s')});
  DriverPeer cleo({.id = 3, .secret = secret_of('t')});
  join(bert, anna.address());
  join(cleo, anna.address());
  REQUIRE(run_until({&anna, &bert, &cleo}, [&] {
    return sees(anna, 1) && sees(bert, 1) && refused_for(anna, RefuseReason::kSecret) &&
           refused_for(cleo, RefuseReason::kSecret);
  }));
  CHECK(sees(cleo, 0));
  CHECK(anna.driver().link_stats().unproven > 0);
}

TEST_CASE("a peer taken off the list is out, told so, and back when it is on it again") {
  DriverPeer anna({.id = 1, .value = 100, .allow = only({2})});
  DriverPeer bert({.id = 2});
  join(bert, anna.address());
  REQUIRE(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
  anna.driver().allow(only({}));
  CHECK(run_until({&anna, &bert}, [&] {
    return refused_for(anna, RefuseReason::kNotAllowed) &&
           refused_for(bert, RefuseReason::kNotAllowed);
  }));
  anna.driver().publish(kFragment, {});  // to nobody
  bert.driver().publish(kFragment, {});
  CHECK(run_until({&anna, &bert}, [&] {
    return anna.driver().core().exchanges_open() == 0 && bert.driver().core().exchanges_open() == 0;
  }));
  CHECK(anna.mixer.sum() == 800);
  CHECK(bert.mixer.sum() == 0);

  anna.driver().allow(only({2}));
  // Who was distrusted is left alone for a while: the clock jumps over it.
  anna.ahead += seconds(40);
  bert.ahead += seconds(40);
  CHECK(run_until({&anna, &bert}, [&] {
    bert.driver().publish(kFragment, {});
    return anna.mixer.sum() == 400 && bert.mixer.sum() == 400;
  }));
}

TEST_CASE("one that cannot call back is told too that it was taken off the list") {
  DriverPeer anna({.id = 1, .listens = false, .allow = only({2})});
  DriverPeer bert({.id = 2});
  join(anna, bert.address());
  REQUIRE(run_until({&anna, &bert}, [&] { return sees(anna, 1) && sees(bert, 1); }));
  anna.driver().allow(only({}));
  CHECK(run_until({&anna, &bert}, [&] { return refused_for(bert, RefuseReason::kNotAllowed); }));
}

TEST_CASE("two adjacent versions share a swarm, whoever begins") {
  for (std::uint8_t version = kVersions.min; version < kVersions.max; ++version) {
    CAPTURE(int{version});
    const auto newer = static_cast<std::uint8_t>(version + 1);
    DriverPeer old({.id = 1, .value = 90, .versions = {version, version}});
    DriverPeer both({.id = 2, .value = 0, .versions = {version, newer}});
    DriverPeer next({.id = 3, .value = 0, .versions = {newer, newer}});
    join(both, old.address());
    join(next, both.address());
    REQUIRE(run_until({&old, &both, &next}, [&] {
      return sees(both, 2) && refused_for(old, RefuseReason::kProtocol) &&
             refused_for(next, RefuseReason::kProtocol);
    }));
    // The one in the middle exchanges with each of the two that cannot meet.
    const auto publish_until = [&](DriverPeer& by, auto&& done) {
      return run_until({&old, &both, &next}, [&] {
        if (by.driver().core().exchanges_open() == 0) by.driver().publish(kFragment, {});
        return done();
      });
    };
    for (DriverPeer* peer : {&old, &next}) {
      CHECK(publish_until(*peer, [&] { return completed_with(*peer, Role::kInitiator, 1); }));
    }
    CHECK(publish_until(both, [&] {
      return completed_with(old, Role::kResponder, 1) && completed_with(next, Role::kResponder, 1);
    }));
    CHECK(old.driver().link_stats().malformed == 0);
    CHECK(both.driver().link_stats().malformed == 0);
    CHECK(next.driver().link_stats().malformed == 0);
  }
}

TEST_CASE("a peer that comes back with an older version mutes nobody for what was on its way") {
  DriverPeer anna({.id = 1, .value = 100});
  auto bert = std::make_unique<DriverPeer>(PeerSetup{.id = 2});
  const PeerAddress address = bert->address();
  join(anna, address);
  REQUIRE(run_until({&anna, bert.get()}, [&] { return sees(anna, 1) && sees(*bert, 1); }));
  bert.reset();
  // A payload that waits in a socket of Anna's for whoever listens there next.
  BareSender late(address, address.bulk_port, test_identity(1));
  std::vector<std::byte> payload(kBulkHeadBytes + 64);
  encode_bulk_head(test_identity(1).id(), Push{}, payload, kVersions.max);
  late.send(payload);
  bert = std::make_unique<DriverPeer>(PeerSetup{.id = 2,
                                                .incarnation = 2,
                                                .control_port = address.control_port,
                                                .bulk_port = address.bulk_port,
                                                .versions = {1, kVersions.max - 1}});
  join(*bert, anna.address());
  REQUIRE(run_until({&anna, bert.get()}, [&] {
    return sees(anna, 1) && sees(*bert, 1) && bert->driver().link_stats().other_version == 1;
  }));
  CHECK(run_until({&anna, bert.get()}, [&] {
    if (anna.driver().core().exchanges_open() == 0) anna.driver().publish(kFragment, {});
    return completed_with(anna, Role::kInitiator, 1);
  }));
  CHECK(bert->driver().link_stats().malformed == 0);
  CHECK(bert->events.muted.empty());
}

TEST_CASE("clocks are compared within half a round trip, but not with a peer of version 1") {
  DriverPeer anna({.id = 1});
  DriverPeer late({.id = 2});
  DriverPeer early({.id = 3});
  DriverPeer old({.id = 4, .versions = {1, 1}});
  late.time_of_day_ahead = -std::chrono::hours(3);
  early.time_of_day_ahead = seconds(7);
  old.time_of_day_ahead = seconds(7);
  const auto clock_of = [&](std::uint8_t id) {
    return anna.driver().clock_of(test_identity(id).id());
  };
  const std::array compared{test_identity(2).id(), test_identity(4).id()};
  anna.driver().compare_clocks(compared);
  for (DriverPeer* peer : {&late, &early, &old}) join(*peer, anna.address());
  REQUIRE(run_until({&anna, &late, &early, &old}, [&] {
    const auto& views = anna.driver().core().peer_views(steady_now(), 3);
    const auto was_asked = [](const PeerView& view) { return view.round_trip > Duration::zero(); };
    return views.size() == 3 && std::all_of(views.begin(), views.end(), was_asked) && clock_of(2);
  }));
  CHECK(std::chrono::abs(clock_of(2)->ahead - late.time_of_day_ahead) <= clock_of(2)->within);
  CHECK(!clock_of(3));  // nobody asked for it
  CHECK(!clock_of(4));
  CHECK(old.driver().link_stats().malformed == 0);
  CHECK(anna.driver().link_stats().malformed == 0);
}

}  // namespace starling::gossip
