#include "gossip/core.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "gossip/message_meter.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

}  // namespace

TEST_CASE("strangers are not listened to") {
  CoreBench bench;
  bench.start(1);
  bench.start(2);
  const PeerKey stranger{PeerId{2}, 1};
  const StripeRef ref{{stranger, {PeerId{1}, 1}, 1}, FragmentId{0}, 0, 0};
  bench.deliver({PeerId{2}, PeerId{1}, Ping{}});
  bench.deliver({PeerId{2}, PeerId{1}, Leave{bench.core(2).self()}});
  bench.deliver({PeerId{2}, PeerId{1}, Offer{ref.exchange, FragmentId{0}, 3}});
  bench.deliver({PeerId{2}, PeerId{1}, Push{ref}});
  bench.deliver({PeerId{2}, PeerId{1}, Commit{ref}});
  CHECK(bench.core(1).stats().messages_refused == 5);
  CHECK(bench.core(1).peers().empty());
  CHECK(bench.core(1).exchanges_open() == 0);
}

TEST_CASE("a peer that slept judges nobody by the time it slept") {
  CoreBench bench;
  bench.start_swarm(3);
  // Peer 1 does not run for a minute; the others' messages to it are lost.
  bench.passes = [](const CoreBench::Letter& letter) { return letter.to != PeerId{1}; };
  bench.core(1).on_published(bench.now, FragmentId{0}, {});
  bench.now += minutes(1);
  bench.node(1).changed.clear();
  bench.core(1).on_deadline(bench.now);
  bench.settle();
  bench.passes = [](const CoreBench::Letter&) { return true; };
  bench.run(milliseconds(900));
  CHECK(bench.node(1).changed.empty());
  CHECK(bench.core(1).stats().offers_timed_out == 0);
}

TEST_CASE("a watcher is told of the others, those that matter most first") {
  CoreBench bench;
  bench.start_swarm(4);
  bench.core(2).on_progress(bench.now, 5000, 250.0F);
  bench.run(seconds(20));
  bench.crash(3);
  bench.run(seconds(60));
  const Core& core = bench.core(1);
  const std::vector<PeerView> all = core.peer_views(bench.now, 10);
  REQUIRE(all.size() == 3);
  CHECK(all.back().record.key.id == PeerId{3});
  CHECK(!all.back().partner);
  CHECK(all.back().record.health == Health::kDead);
  for (const PeerView& view : all) {
    CAPTURE(view.record.key.id.value);
    CHECK(view.record.key.id != PeerId{1});
    CHECK(!view.muted);
    CHECK(!view.relayed);
    const bool trains = view.record.key.id == PeerId{2};
    CHECK(view.tokens == (trains ? 5000 : 0));
    CHECK(view.tokens_per_second == (trains ? 250.0F : 0.0F));
  }
  CHECK(core.peer_views(bench.now, 2).size() == 2);
  CHECK(core.peer_views(bench.now, 2).back().partner);
}

TEST_CASE("the two of an exchange learn how the other stands, and nobody else does") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_standing(bench.now, make_standing(2.5F, "cpu, 4 threads"));
  bench.core(2).on_standing(bench.now, make_standing(3.5F, "another"));
  bench.run(seconds(5));
  CHECK(!bench.core(1).peer_views(bench.now, 1).at(0).standing_at);
  bench.publish(1, 0);
  bench.run(seconds(20));
  const PeerView of_two = bench.core(1).peer_views(bench.now, 1).at(0);
  REQUIRE(of_two.standing_at);
  CHECK(of_two.standing == make_standing(3.5F, "another"));
  const PeerView of_one = bench.core(2).peer_views(bench.now, 1).at(0);
  REQUIRE(of_one.standing_at);
  CHECK(of_one.standing == make_standing(2.5F, "cpu, 4 threads"));
  // Another process of the peer has told nothing yet.
  bench.crash(2);
  bench.start(2, 2);
  bench.run(seconds(5));
  CHECK(!bench.core(1).peer_views(bench.now, 1).at(0).standing_at);
}

TEST_CASE("the same inputs give the same outputs") {
  const auto trace = [] {
    CoreBench bench;
    std::string text;
    bench.passes = [&](const CoreBench::Letter& letter) {
      text += std::to_string(letter.from.value) + ">" + std::to_string(letter.to.value) + ":" +
              std::to_string(letter.message.index()) + "@" +
              std::to_string(bench.now.time_since_epoch().count()) + " ";
      return true;
    };
    bench.start_swarm(8);
    for (std::uint64_t id = 1; id <= 8; ++id) bench.publish(id, 0);
    bench.run(seconds(30));
    return text;
  };
  CHECK(trace() == trace());
}

TEST_CASE("any message in any state is survived") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    CoreBench bench;
    bench.start_swarm(3);
    std::vector<CoreBench::Letter> overheard;
    bench.passes = [&](const CoreBench::Letter& letter) {
      overheard.push_back(letter);
      return !rng.chance(0.1);
    };
    for (int step = 0; step < 200; ++step) {
      if (rng.chance(0.2)) {
        bench.publish(1 + rng.below(3), static_cast<std::uint16_t>(rng.below(2)));
      }
      if (!overheard.empty()) {  // an old message, perhaps from the wrong peer or to the wrong one
        CoreBench::Letter letter = overheard[rng.below(overheard.size())];
        if (rng.chance(0.3)) letter.from = PeerId{1 + rng.below(3)};
        if (rng.chance(0.3)) letter.to = PeerId{1 + rng.below(3)};
        bench.deliver(letter);
      }
      bench.run(milliseconds(rng.below(2000)));
    }
  }
}

TEST_CASE("frames that are no messages are an offence, and a flood of them is one of its own") {
  CoreBench bench;
  bench.start_swarm(2);
  const auto deluges = [&bench] {
    return bench.core(1).stats().rejected[static_cast<std::size_t>(RejectReason::kDeluge)];
  };
  const auto send_bad = [&](RejectReason reason, std::uint32_t count) {
    while (count-- > 0) bench.core(1).on_bad_frame(bench.now, PeerId{2}, reason);
    bench.run(seconds(1));
  };
  constexpr MessageMeter::Measure kMost = MessageMeter::kUnasked;
  constexpr auto kFlood = static_cast<std::uint32_t>(kMost.at_once) + kMost.deluge_drops;
  send_bad(RejectReason::kMalformed, kFlood);
  CHECK(deluges() == 1);
  // It was muted by the first of them; its connections end all the same, and no new ones come.
  const std::vector<Muted>& muted = bench.node(1).muted;
  REQUIRE(muted.size() == 2);
  CHECK(muted[0].reason == RejectReason::kMalformed);
  CHECK(muted[1].reason == RejectReason::kDeluge);
  CHECK(muted[1].length > minutes(9));
  CHECK(bench.core(1).stats().mutes == 1);
}

TEST_CASE(
    "frames that prove nothing are borne at the pace of bad memory, and a flood of them is not") {
  for (const auto reason :
       {RejectReason::kDamaged, RejectReason::kOtherVersion, RejectReason::kTooMany}) {
    CAPTURE(to_string(reason));
    CoreBench bench;
    bench.start_swarm(2);
    for (int i = 0; i < 30 * 20; ++i) {  // half an hour long, twenty a minute
      bench.core(1).on_bad_frame(bench.now, PeerId{2}, reason);
      bench.run(seconds(3));
    }
    CHECK(bench.node(1).muted.empty());
    constexpr MessageMeter::Measure kMost = MessageMeter::kWaste;
    constexpr auto kFlood = static_cast<std::uint32_t>(kMost.at_once) + kMost.deluge_drops;
    for (std::uint32_t i = 0; i < kFlood; ++i) {
      bench.core(1).on_bad_frame(bench.now, PeerId{2}, reason);
    }
    bench.run(seconds(1));
    REQUIRE(bench.node(1).muted.size() == 1);
    CHECK(bench.node(1).muted[0].reason == RejectReason::kDeluge);
    CHECK(bench.core(1).stats().peers_alive == 1);  // it is not listened to, and lives
  }
}

}  // namespace starling::gossip
