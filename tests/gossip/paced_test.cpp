// Exchanges that rest so that the day's bytes last: all else goes on.
#include <doctest/doctest.h>

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

TEST_CASE("between versions of the wire codes are as they are set, or none") {
  // An old peer takes its own format and the cold one, and would call another an offence.
  for (const std::uint8_t old : {std::uint8_t{1}, std::uint8_t{2}}) {
    CAPTURE(static_cast<int>(old));
    CoreBench bench;
    bench.start(1);
    bench.run_identity.versions = {1, old};
    bench.start(2);
    bench.join(2, 1);
    bench.run(seconds(5));
    bench.core(1).on_format(bench.now, bench.config.last_code);
    std::vector<std::uint8_t> offered;
    bench.passes = [&](const Letter& letter) {
      if (is<Offer>(letter.message)) offered.push_back(std::get<Offer>(letter.message).format);
      return true;
    };
    bench.publish(1, 0);
    bench.run(seconds(5));
    REQUIRE(!offered.empty());
    CHECK(offered.front() == (old < 2 ? bench.config.format : bench.config.last_code));
  }
}

}  // namespace starling::gossip
