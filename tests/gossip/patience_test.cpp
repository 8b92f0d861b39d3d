// Deadlines that follow the partner's pace, and exchanges that outlive broken connections.
#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "gossip/initiator.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

// Nobody is given up by membership: what ends an exchange is its own patience.
void trust_everybody(CoreBench& bench) { bench.config.suspect_after = hours(10); }

std::size_t count_held_pushes(const CoreBench& bench) {
  return static_cast<std::size_t>(
      std::count_if(bench.held.begin(), bench.held.end(),
                    [](const Letter& letter) { return is<Push>(letter.message); }));
}

}  // namespace

TEST_CASE("a partner on a fast line that falls silent is noticed in seconds") {
  CoreBench bench;
  trust_everybody(bench);
  bench.start_swarm(2);
  bench.exchange_all(1, 0);
  bench.passes = [](const Letter& letter) { return letter.from != PeerId{2}; };
  bench.publish(1, 0);  // not even the offer is answered
  bench.run(bench.config.silence_min + milliseconds(100));
  CHECK(bench.core(1).stats().offers_timed_out == 1);

  pass_all(bench);
  bench.run(seconds(5));
  bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
  bench.publish(1, 0);
  bench.run(bench.config.silence_min + milliseconds(100));
  CHECK(bench.core(1).stats().attempts_fenced == 3);
  CHECK(bench.core(1).exchanges_open() == 1);
  bench.run(seconds(13));  // 2, 4 and 8 seconds
  CHECK(bench.core(1).exchanges_open() == 0);
  bench.run(seconds(5));
  CHECK(bench.core(2).exchanges_open() == 0);
}

TEST_CASE("an unknown partner may have a line of 1 Mbit/s, and is not waited for much longer") {
  for (const auto& [bytes, least, most] :
       {std::tuple{4096, seconds(2), seconds(3)}, std::tuple{1 << 20, seconds(33), seconds(36)},
        std::tuple{16 << 20, seconds(59), seconds(61)}}) {
    CAPTURE(bytes);
    CoreBench bench;
    bench.payload_bytes = static_cast<std::size_t>(bytes);
    trust_everybody(bench);
    bench.start_swarm(2);
    bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
    bench.publish(1, 0);
    bench.run(least - milliseconds(100));
    CHECK(bench.core(1).stats().attempts_fenced == 0);
    bench.run(most - least);
    CHECK(bench.core(1).stats().attempts_fenced == 1);
  }
}

TEST_CASE("after an exchange that ended in silence the next one waits longer") {
  CoreBench bench;
  trust_everybody(bench);
  bench.config.silence_min = milliseconds(1);
  bench.start_swarm(2);
  bench.stripes = {3, 5};
  // A line on which a stripe takes a second.
  const auto slowly = [&bench](int times) {
    bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
    bench.publish(1, 0);
    for (int i = 0; i < times; ++i) {
      bench.now += seconds(1);
      const std::vector<Letter> held = std::exchange(bench.held, {});
      for (const Letter& letter : held) bench.deliver(letter);
    }
  };
  slowly(3);
  CHECK(bench.core(1).stats().exchanges_completed == 1);
  const std::uint64_t fenced = bench.core(1).stats().attempts_fenced;
  bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
  bench.publish(1, 0);
  const Instant begun = bench.now;
  while (bench.core(1).exchanges_open() > 0) bench.run(milliseconds(100));
  const Duration first = bench.now - begun;
  CHECK(bench.core(1).stats().attempts_fenced > fenced);
  bench.run(minutes(5));
  bench.publish(1, 0);
  const Instant again = bench.now;
  while (bench.core(1).exchanges_open() > 0) bench.run(milliseconds(100));
  CHECK(bench.now - again > first * 3 / 2);
}

TEST_CASE("a silence teaches patience with others, for most of the way to all is our own line") {
  CoreBench bench;
  trust_everybody(bench);
  bench.start_swarm(3);
  bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
  std::vector<PeerId> asked;
  std::vector<Duration> patience;  // with the first attempt at each
  for (int i = 0; i < 8 && asked.size() < 2; ++i) {
    bench.held.clear();
    const std::uint64_t fenced = bench.core(1).stats().attempts_fenced;
    bench.publish(1, 0);
    const Instant begun = bench.now;
    while (bench.core(1).stats().attempts_fenced == fenced) bench.run(milliseconds(100));
    REQUIRE(!bench.held.empty());
    const PeerId partner = bench.held.front().from;
    if (std::find(asked.begin(), asked.end(), partner) == asked.end()) {
      asked.push_back(partner);
      patience.push_back(bench.now - begun);
    }
    while (bench.core(1).exchanges_open() > 0) bench.run(milliseconds(100));
    bench.run(minutes(1));
  }
  REQUIRE(asked.size() == 2);
  CHECK(patience[0] < seconds(3));
  CHECK(patience[1] > 2 * patience[0]);
}

TEST_CASE("a connection that breaks and comes back costs an attempt, not the exchange") {
  CoreBench bench;
  bench.stripes = {8};
  bench.start_swarm(2);
  bench.exchange_all(1, 0);
  std::size_t deltas = 0;
  bench.passes = [&deltas](const Letter& letter) {
    return !is<Delta>(letter.message) || ++deltas <= 3;  // three stripes get through
  };
  bench.publish(1, 0);
  const std::size_t settled = bench.node(1).net_applied.size();
  CHECK(settled == 8 + 3);
  // The line is down: nothing passes, and the link says so.
  bench.passes = [](const Letter&) { return false; };
  bench.core(1).on_send_failed(bench.now, PeerId{2});
  bench.run(milliseconds(1500));
  pass_all(bench);
  CHECK(bench.core(1).stats().attempts_resumed == 0);
  bench.run(seconds(4));  // the next ping tells that it is up
  CHECK(bench.core(1).stats().attempts_resumed + bench.core(1).stats().attempts_fenced > 0);
  check_same_applied(bench.node(1), bench.node(2), 16);
  CHECK(bench.core(1).stats().exchanges_completed == 2);
  check_no_lease(bench, 2);
}

TEST_CASE("stripes under way are repeated as soon as the partner is heard again") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.exchange_all(1, 0);
  bench.config.silence_min = seconds(2);
  bench.passes = [](const Letter& letter) { return !is<Push>(letter.message); };
  bench.publish(1, 0);
  REQUIRE(count_held_pushes(bench) == 3);
  bench.core(1).on_send_failed(bench.now, PeerId{2});
  pass_all(bench);
  bench.now += milliseconds(1100);
  bench.deliver({PeerId{2}, PeerId{1}, Ping{}});
  bench.core(1).on_deadline(bench.now);
  bench.settle();
  CHECK(bench.core(1).stats().attempts_resumed == 3);
  CHECK(bench.core(1).stats().attempts_fenced == 0);
  check_same_applied(bench.node(1), bench.node(2), 6);
  check_no_lease(bench, 2);
}

TEST_CASE("one way that stays broken is not hammered") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.exchange_all(1, 0);
  int pushes = 0;
  bench.passes = [&](const Letter& letter) {
    if (!is<Push>(letter.message)) return true;
    ++pushes;
    return false;
  };
  bench.publish(1, 0);
  for (int i = 0; i < 50; ++i) {  // every push fails, every message of the partner arrives
    bench.core(1).on_send_failed(bench.now, PeerId{2});
    bench.deliver({PeerId{2}, PeerId{1}, Ping{}});
    bench.run(milliseconds(20));
  }
  CHECK(pushes <= 3 * 2);
}

TEST_CASE("what was under way when a partner was lost is settled should it come back") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.exchange_all(1, 0);
  bench.passes = [](const Letter& letter) { return !is<Delta>(letter.message); };
  bench.publish(1, 0);
  bench.passes = [](const Letter&) { return false; };
  for (const std::uint64_t id : {1ULL, 2ULL}) {
    bench.core(id).on_send_failed(bench.now, PeerId{3 - id});
  }
  bench.run(minutes(3));
  for (const std::uint64_t id : {1ULL, 2ULL}) {
    CHECK(bench.core(id).stats().peers_dead == 1);
    CHECK(bench.core(id).exchanges_open() == 0);
    bench.core(id).on_send_failed(bench.now, PeerId{3 - id});
  }
  pass_all(bench);
  bench.run(minutes(5));
  check_no_lease(bench, 2);
  CHECK(bench.core(1).stripes_unsettled() == 0);
  bench.publish(1, 0);
  bench.run(seconds(10));
  CHECK(bench.core(1).stats().exchanges_completed == 2);
  check_same_applied(bench.node(1), bench.node(2), 6);
}

TEST_CASE("a partner not heard again after its connection broke is given up, and not blamed") {
  CoreBench bench;
  trust_everybody(bench);
  bench.start_swarm(2);
  bench.exchange_all(1, 0);
  std::vector<std::uint32_t> patience;  // as each offer says it
  bool breaks = true;                   // at the first push, for good
  bool down = false;
  const auto line = [&](const Letter& letter) {
    const auto* offer = std::get_if<Offer>(&letter.message);
    if (offer != nullptr) patience.push_back(offer->patience_ms);
    if (breaks && is<Push>(letter.message)) down = true;
    return !down;
  };
  bench.passes = line;
  bench.publish(1, 0);
  REQUIRE(down);
  for (int i = 0; i < 200 && bench.core(1).exchanges_open() > 0; ++i) {
    bench.core(1).on_send_failed(bench.now, PeerId{2});
    bench.run(milliseconds(100));
  }
  CHECK(bench.core(1).exchanges_open() == 0);
  bench.run(seconds(5));
  CHECK(bench.core(2).exchanges_open() == 0);  // it would not have spoken first

  breaks = down = false;
  pass_all(bench);
  bench.passes = line;
  bench.run(minutes(1));
  bench.publish(1, 0);
  bench.run(seconds(1));
  CHECK(bench.core(1).stats().exchanges_completed == 2);
  REQUIRE(patience.size() >= 2);
  CHECK(patience.back() == patience.front());
}

}  // namespace starling::gossip
