// Exchanges that rest so that the day's bytes last: all else goes on.
#include <doctest/doctest.h>

#include <initializer_list>
#include <vector>

#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;
using Letter = CoreBench::Letter;

}  // namespace

TEST_CASE("a paced peer neither begins nor accepts exchanges, until it is paced no more") {
  CoreBench bench;
  bench.start_swarm(2);
  bench.core(1).on_paced(bench.now, true);
  std::vector<DeclineReason> reasons;
  bench.passes = [&](const Letter& letter) {
    if (is<Decline>(letter.message)) reasons.push_back(std::get<Decline>(letter.message).reason);
    return true;
  };
  bench.publish(1, 0);
  bench.publish(2, 0);
  bench.run(seconds(5));
  CHECK(bench.core(1).stats().offers_sent == 0);
  REQUIRE(!reasons.empty());
  CHECK(reasons.front() == DeclineReason::kResting);
  bench.core(1).on_paced(bench.now, false);
  bench.run(seconds(5));
  CHECK(bench.core(1).stats().exchanges_completed > 0);
}

// What a peer of our version is configured for and then wishes for, and what it offers to one of an
// old version, and exchanges in when that one offers what it is configured for.
struct AcrossVersions {
  std::uint8_t old, configured, wished;
  std::uint8_t offered, exchanged;
};

TEST_CASE("between versions of the wire codes are those that both know") {
  // The bench's numbers: bf16 is 1, mod8 2, mod4 3; mod6, 4, and mod5, 5, came with version 4.
  for (const AcrossVersions& row : std::initializer_list<AcrossVersions>{
           // One of version 1 takes its own format and the cold one, and would call another an
           // offence.
           {1, 2, 3, 2, 2},
           {1, 4, 4, 2, 2},
           {1, 5, 3, 2, 2},
           {2, 2, 3, 3, 3},
           {2, 2, 5, 2, 2},
           {3, 2, 2, 2, 2},
           {3, 4, 4, 2, 2},
           {3, 5, 5, 2, 2},
           {3, 4, 3, 3, 3},
           {4, 4, 4, 4, 4},
           {4, 5, 5, 5, 5},
           {4, 5, 3, 3, 3}}) {
    CAPTURE(int{row.old});
    CAPTURE(int{row.configured});
    CAPTURE(int{row.wished});
    CoreBench bench;
    bench.config.format = row.configured;
    bench.start(1);
    bench.config.format = 2;
    bench.run_identity.versions = {1, row.old};
    bench.start(2);
    bench.join(2, 1);
    bench.run(seconds(5));
    bench.core(1).on_format(bench.now, row.wished);
    for (const std::uint64_t id : {1, 2}) {
      bench.core(id).on_fragment_state(bench.now, FragmentId{0}, {false, 0.0F});
    }
    std::vector<int> offered, answered;
    bench.passes = [&](const Letter& letter) {
      if (is<Offer>(letter.message)) offered.push_back(std::get<Offer>(letter.message).format);
      if (is<Accept>(letter.message)) answered.push_back(std::get<Accept>(letter.message).format);
      return true;
    };
    bench.publish(1, 0, {false, 0.0F});
    bench.run(seconds(5));
    bench.publish(2, 0, {false, 0.0F});
    bench.run(seconds(5));
    CHECK(offered == std::vector<int>{row.offered, 2});
    CHECK(answered == std::vector<int>{row.exchanged, row.exchanged});
    CHECK(bench.core(1).stats().exchanges_completed == 2);
    CHECK(bench.core(2).stats().exchanges_completed == 2);
  }
}

TEST_CASE("a code that came after a peer's version is not taken from it") {
  // It does not know what it says: the format that everybody knows.
  CoreBench bench;
  bench.start(1);
  bench.run_identity.versions = {1, 3};
  bench.start(2);
  bench.join(2, 1);
  bench.run(seconds(5));
  bench.core(1).on_fragment_state(bench.now, FragmentId{0}, {false, 0.0F});
  std::vector<Letter> offers;
  bench.passes = [&](const Letter& letter) {
    if (!is<Offer>(letter.message)) return true;
    offers.push_back(letter);
    return false;
  };
  bench.publish(2, 0, {false, 0.0F});
  REQUIRE(!offers.empty());
  std::vector<int> answered;
  bench.passes = [&](const Letter& letter) {
    if (is<Accept>(letter.message)) answered.push_back(std::get<Accept>(letter.message).format);
    return true;
  };
  std::get<Offer>(offers[0].message).format = 4;
  bench.deliver(offers[0]);
  CHECK(answered == std::vector<int>{bench.config.cold_format});
}

}  // namespace starling::gossip
