#include "gossip/local_health.h"

#include <doctest/doctest.h>

namespace starling::gossip {

using std::chrono::seconds;

TEST_CASE("a suspicion shrinks with confirmations as Lifeguard's formula says") {
  const SuspicionTimes times = suspicion_times(seconds(5), 100);
  CHECK(times.least == seconds(10));
  CHECK(times.most == seconds(60));
  // max - (max - min) * log(c + 1) / log(k + 1), with k = 3.
  CHECK(suspicion_timeout(times, 0, 3) == seconds(60));
  CHECK(to_seconds(suspicion_timeout(times, 1, 3)) == doctest::Approx(35.0));
  CHECK(to_seconds(suspicion_timeout(times, 2, 3)) == doctest::Approx(20.376));
  CHECK(suspicion_timeout(times, 3, 3) == seconds(10));
  CHECK(suspicion_timeout(times, 9, 3) == seconds(10));
  CHECK(suspicion_timeout(times, 0, 0) == seconds(10));
}

TEST_CASE("small swarms have the shortest suspicion") {
  for (const double peers : {1.0, 2.0, 10.0}) {
    CHECK(suspicion_times(seconds(5), peers).least == seconds(5));
  }
  CHECK(suspicion_times(seconds(5), 10000).least == seconds(20));
}

TEST_CASE("bad news about oneself stretch patience and good ones shorten it again") {
  LocalHealth health;
  CHECK(health.stretch(seconds(1)) == seconds(1));
  health.bad(2);
  CHECK(health.stretch(seconds(1)) == seconds(3));
  health.bad(100);
  CHECK(health.stretch(seconds(1)) == seconds(1 + LocalHealth::kWorst));
  for (int i = 0; i < 20; ++i) health.good();
  CHECK(health.stretch(seconds(1)) == seconds(1));
}

TEST_CASE("that others suspect it tells a peer nothing but what it has noticed itself") {
  LocalHealth health;
  for (int i = 0; i < 100; ++i) health.suspected();
  CHECK(health.score() == 0);
  health.bad(2);
  for (int i = 0; i < 100; ++i) health.suspected();
  CHECK(health.score() == 4);  // each confirmed once
  for (int i = 0; i < 4; ++i) health.good();
  CHECK(health.score() == 0);
  for (int i = 0; i < 100; ++i) health.bad(1);
  for (int i = 0; i < 100; ++i) health.good();
  for (int i = 0; i < 100; ++i) health.suspected();
  CHECK(health.score() == LocalHealth::kWorst);
  for (int i = 0; i < 100; ++i) health.good();
  for (int i = 0; i < 100; ++i) health.suspected();
  CHECK(health.score() == 0);
}

}  // namespace starling::gossip
