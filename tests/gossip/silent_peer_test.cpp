// A partner that is there, answers pings, and does not do what it agreed to: what it may cost.
#include <doctest/doctest.h>

#include <vector>

#include "gossip/conduct.h"
#include "gossip/fragment_turns.h"
#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using Letter = CoreBench::Letter;

constexpr std::uint64_t kPeers = 7;  // few enough would be worth another try
constexpr PeerId kVictim{1};
constexpr PeerId kSilent{2};

ExchangeKey begun(std::uint64_t counter) { return {{kSilent, 1}, {kVictim, 1}, counter}; }
Offer offer(std::uint64_t counter, std::uint32_t patience_ms) {
  return {begun(counter), FragmentId{0}, 3, 2, false, 1.0F, 0.5F, 0.0F, patience_ms};
}

// Only what keeps it alive leaves the silent peer by itself.
void hush(CoreBench& bench) {
  bench.passes = [](const Letter& letter) {
    const bool lives = is<Ping>(letter.message) || is<Pong>(letter.message) ||
                       is<PingAnswer>(letter.message) || is<Hello>(letter.message) ||
                       is<Welcome>(letter.message);
    return letter.from != kSilent || lives;
  };
}

}  // namespace

TEST_CASE("an initiator that only talks does not keep a lease") {
  CoreBench bench;
  bench.start_swarm(kPeers);
  hush(bench);
  bench.deliver({kSilent, kVictim, offer(900, 2000)});
  REQUIRE(bench.core(1).exchanges_open() == 1);
  const StripeRef ref{begun(900), FragmentId{0}, 0, 0};
  for (int second = 0; second < 20; ++second) {  // eight times what it says it waits, and some
    bench.run(seconds(1));
    bench.deliver({kSilent, kVictim, Commit{ref}});
    bench.deliver({kSilent, kVictim, Resend{ref}});
    bench.deliver({kSilent, kVictim, Abort{ref}});
  }
  CHECK(bench.core(1).exchanges_open() == 0);
}

TEST_CASE("a lease ends, however often its initiator tries anew") {
  CoreBench bench;
  bench.config.stripe_timeout = seconds(5);
  bench.start_swarm(kPeers);
  hush(bench);
  bench.deliver({kSilent, kVictim, offer(900, 5000)});
  const Instant begins = bench.now;
  for (int push = 0; bench.core(1).exchanges_open() == 1; ++push) {
    REQUIRE(push < 100);
    const auto stripe = static_cast<std::uint32_t>(push % 3);
    const auto attempt = static_cast<std::uint8_t>(push / 3);
    bench.deliver({kSilent, kVictim, Push{{begun(900), FragmentId{0}, stripe, attempt}}});
    bench.run(seconds(2));
  }
  CHECK(bench.now - begins <= 4 * seconds(10) + seconds(2));  // stripes + 1, times the silence
}

TEST_CASE("who was silent in an exchange is not accepted again for a while, others are") {
  CoreBench bench;
  bench.start_swarm(kPeers);
  hush(bench);
  std::vector<DeclineReason> reasons;
  const auto hushed = bench.passes;
  bench.passes = [&](const Letter& letter) {
    const bool told = letter.to == kSilent && is<Decline>(letter.message);
    if (told) reasons.push_back(std::get<Decline>(letter.message).reason);
    return hushed(letter);
  };
  bench.deliver({kSilent, kVictim, offer(900, 2000)});
  bench.run(seconds(17));
  REQUIRE(bench.core(1).exchanges_open() == 0);
  bench.deliver({kSilent, kVictim, offer(901, 2000)});
  CHECK(bench.core(1).exchanges_open() == 0);
  REQUIRE(!reasons.empty());
  CHECK(reasons.back() == DeclineReason::kResting);
  CHECK_FALSE(bench.core(1).muted(bench.now, kSilent));
  for (std::uint64_t id = 3; id <= kPeers; ++id) bench.publish(id, 0);
  bench.run(Conduct::kRestFactor * seconds(16));
  CHECK(bench.core(1).stats().exchanges_completed > 0);
  bench.publish(1, 0);  // a round of its own
  bench.run(seconds(1));
  bench.deliver({kSilent, kVictim, offer(902, 2000)});
  CHECK(bench.core(1).exchanges_open() == 1);
}

TEST_CASE("who accepts and stays silent is asked ever more rarely") {
  CoreBench bench;
  bench.config.stripe_timeout = seconds(5);
  bench.start_swarm(kPeers);
  std::uint64_t offers = 0;
  bench.passes = [&offers](const Letter& letter) {
    const bool asked = letter.to == kSilent && is<Offer>(letter.message);
    offers += asked && letter.from == kVictim ? 1 : 0;
    return letter.from != kSilent || !is<Delta>(letter.message);
  };
  for (int minute = 0; minute < 60; ++minute) {
    for (int second = 0; second < 60; second += 5) {
      for (std::uint64_t id = 1; id <= kPeers; ++id) {
        if (PeerId{id} != kSilent) bench.publish(id, 0);
      }
      bench.run(seconds(5));
    }
  }
  // 15 s each; rests of 1, 2, 4, 8, 16 and 32 minutes in the hour. One in six would be 120.
  CHECK(offers >= 4);
  CHECK(offers <= 12);
}

TEST_CASE("who takes a lease, waits and says that it is done has no more of it than the silent") {
  CoreBench bench;
  bench.start_swarm(kPeers);
  hush(bench);
  seconds held{};
  std::uint64_t counter = 900;
  for (seconds hour{}; hour < seconds(3600);) {
    bench.deliver({kSilent, kVictim, offer(++counter, 60000)});
    const bool taken = bench.core(1).exchanges_open() == 1;
    const seconds waits(taken ? 100 : 10);  // a lease that nobody stirs would last for 120
    bench.run(waits);
    hour += waits;
    if (taken) held += waits;
    bench.deliver({kSilent, kVictim, Finish{begun(counter)}});
    REQUIRE(bench.core(1).exchanges_open() == 0);
  }
  // Shut out for 5 minutes after each.
  CHECK(held <= seconds(1000));
}

TEST_CASE("stripes that only come and go, or are never applied, do not prolong a lease") {
  CoreBench bench;
  bench.start_swarm(kPeers);
  hush(bench);
  const seconds silence = seconds(120);
  const auto say = [&](const Message& message) {
    bench.deliver({kSilent, kVictim, message});
    bench.run(seconds(10));
  };
  const auto ref = [](std::uint32_t stripe, std::uint8_t attempt) {
    return StripeRef{begun(900), FragmentId{0}, stripe, attempt};
  };
  bench.deliver({kSilent, kVictim, offer(900, 60000)});
  const Instant begins = bench.now;
  Duration most{};
  SUBCASE("attempt after attempt") {
    say(Push{ref(0, 0)});
    say(Commit{ref(0, 0)});
    for (std::uint8_t attempt = 0; attempt < kAttemptsMax && bench.core(1).exchanges_open() == 1;
         ++attempt) {
      for (const std::uint32_t stripe : {1, 2}) say(Push{ref(stripe, attempt)});
      for (const std::uint32_t stripe : {1, 2}) say(Abort{ref(stripe, attempt)});
    }
    most = seconds(40) + silence;  // the last first attempt
  }
  SUBCASE("one by one") {
    for (const std::uint32_t stripe : {0, 1, 2}) {
      say(Push{ref(stripe, 0)});
      for (int i = 0; i < 10 && bench.core(1).exchanges_open() == 1; ++i) bench.run(seconds(10));
    }
    most = 2 * silence;
  }
  while (bench.core(1).exchanges_open() == 1) bench.run(seconds(10));
  CHECK(bench.now - begins <= most + seconds(20));
}

TEST_CASE("who stretches its exchanges has a quarter of the time of a fragment that others want") {
  CoreBench bench;
  bench.start_swarm(kPeers);
  hush(bench);
  const auto others_train = [&bench](Duration length) {
    for (const Instant end = bench.now + length; bench.now < end;) {
      for (std::uint64_t id = 3; id <= kPeers; ++id) bench.publish(id, 0);
      bench.run(seconds(10));
    }
  };
  const Duration whole = std::chrono::hours(4);
  const Instant end = bench.now + whole;
  Duration held{};
  for (std::uint64_t counter = 901; bench.now < end; ++counter) {
    const Instant begins = bench.now;
    bench.deliver({kSilent, kVictim, offer(counter, 60000)});
    const bool taken = bench.core(1).exchanges_open() == 1;
    for (std::uint32_t stripe = 0; taken && stripe < 3; ++stripe) {
      const StripeRef ref{begun(counter), FragmentId{0}, stripe, 0};
      bench.deliver({kSilent, kVictim, Push{ref}});
      bench.deliver({kSilent, kVictim, Commit{ref}});
      if (stripe < 2) others_train(seconds(100));
    }
    bench.deliver({kSilent, kVictim, Finish{begun(counter)}});
    REQUIRE(bench.core(1).exchanges_open() == 0);
    if (taken) held += bench.now - begins;
    if (!taken) others_train(seconds(10));
  }
  CHECK(held <= whole / 4 + seconds(400));
  CHECK(held >= whole / 8);  // nor is it shut out
}

TEST_CASE("a fragment's turns are kept by fragment and peer, and as many as there is room for") {
  FragmentTurns turns;
  const Instant start{seconds(1000)};
  turns.kept_others_out(start, FragmentId{0}, kSilent, minutes(20));
  CHECK(turns.is_others(start + minutes(59), FragmentId{0}, kSilent));
  CHECK_FALSE(turns.is_others(start + minutes(60), FragmentId{0}, kSilent));
  CHECK_FALSE(turns.is_others(start, FragmentId{1}, kSilent));
  CHECK_FALSE(turns.is_others(start, FragmentId{0}, PeerId{3}));
  for (std::uint64_t id = 100; id < 3000; ++id) {
    turns.kept_others_out(start, FragmentId{0}, PeerId{id}, seconds(10));
  }
  CHECK(turns.size() == FragmentTurns::kRowsMax);
  CHECK(turns.is_others(start, FragmentId{0}, kSilent));
  turns.kept_others_out(start + minutes(5), FragmentId{0}, PeerId{3}, seconds(10));
  CHECK(turns.size() == 2);  // those that are over made room
}

TEST_CASE("one peer has one place, and another is left to others") {
  CoreBench bench;
  bench.start_swarm(kPeers);
  hush(bench);
  bench.deliver({kSilent, kVictim, offer(900, 60000)});
  Offer second = offer(901, 60000);
  second.fragment = FragmentId{1};
  second.stripes = 5;
  bench.deliver({kSilent, kVictim, second});
  CHECK(bench.core(1).exchanges_open() == 1);
  for (std::uint64_t id = 3; id <= kPeers; ++id) bench.publish(id, 1);
  bench.run(seconds(5));
  CHECK(bench.core(1).stats().exchanges_completed > 0);
}

TEST_CASE("who kept others out for long leaves the last place to them for a while") {
  Conduct conduct;
  const Instant start{seconds(1000)};
  conduct.kept_others_out(start, kSilent, seconds(20));
  CHECK(conduct.yields(start, kSilent));
  CHECK(conduct.yields(start + seconds(59), kSilent));
  CHECK_FALSE(conduct.yields(start + seconds(60), kSilent));
  CHECK_FALSE(conduct.yields(start, PeerId{3}));
  conduct.kept_others_out(start, kSilent, minutes(10));
  CHECK(conduct.yields(start + Conduct::kLongestShutOut - seconds(1), kSilent));
  CHECK_FALSE(conduct.yields(start + Conduct::kLongestShutOut, kSilent));
}

}  // namespace starling::gossip
