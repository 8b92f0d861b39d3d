// A newcomer whose owner allows no traffic for a while.
#include <algorithm>

#include "gossip/state_fetcher.h"
#include "tests/gossip/state_bench.h"

namespace starling::gossip {

using std::chrono::seconds;

TEST_CASE("in its owner's quiet hours a newcomer fetches nothing, and goes on where it was") {
  StateBench bench;
  bench.config.state.patience = seconds(60);
  for (std::uint64_t id = 1; id <= 2; ++id) bench.add_donor(id);
  std::size_t asked = 0;
  bench.passes = [&](const StateBench::Letter& letter) {
    const bool quiet = bench.context && bench.context->resting;
    if (quiet && letter.from == StateBench::kNewcomer) ++asked;
    return true;
  };
  SUBCASE("that begin in the middle") {
    bench.start();
    bench.run_until([&bench] { return bench.stored.size() >= 14; });
    bench.context->resting = true;
    bench.run(seconds(1));
    CHECK(bench.stored.size() <= 14 + 2 * StateFetcher::kWindow);  // those under way
  }
  SUBCASE("that it begins in") {
    bench.start();
    bench.context->resting = true;
  }
  const std::size_t stored = bench.stored.size();
  bench.run(seconds(300));
  REQUIRE(bench.ended.empty());
  CHECK(asked == 0);
  CHECK(bench.stored.size() == stored);
  CHECK(bench.fetcher->progress().fetching);
  for (const auto& [id, node] : bench.donors) CHECK(node.donor->sessions() == 0);
  bench.context->resting = false;
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(std::count_if(bench.stored.begin(), bench.stored.end(),
                      [](const StorePiece& order) { return order.piece < kManifestPiece; }) == 32);
  CHECK(bench.count(JoinStep::kDonorLost) == 0);
}

TEST_CASE("where nobody answers when the quiet hours end, patience ends too") {
  StateBench bench;
  bench.config.state.patience = seconds(20);
  bench.config.state.serve_max = 0;
  bench.add_donor(1);
  bench.start();
  bench.context->resting = true;
  bench.run(seconds(100));
  REQUIRE(bench.ended.empty());
  bench.context->resting = false;
  bench.run(seconds(22));
  REQUIRE(bench.ended.size() == 1);
  CHECK(bench.ended[0].outcome == JoinOutcome::kNobodyServes);
}

TEST_CASE("a donor that drips has no longer because the newcomer began in its quiet hours") {
  StateBench bench;
  bench.now = Instant{} + std::chrono::hours(1000);  // the machine was not started just now
  bench.config.state.patience = seconds(20);
  bench.add_donor(1);
  std::size_t given = 0;
  bench.passes = [&given](const StateBench::Letter& letter) {
    const bool piece = std::holds_alternative<Piece>(letter.message);
    return !piece || ++given <= 3;
  };
  bench.start();
  bench.context->resting = true;
  bench.run(seconds(100));
  REQUIRE(bench.ended.empty());
  bench.context->resting = false;
  // Something is heard of it again and again, so that only the end of the whole is left.
  const Instant began = bench.now;
  while (bench.ended.empty() && bench.now - began < std::chrono::hours(2)) {
    bench.run(seconds(10));
    given = 2;
  }
  REQUIRE(bench.ended.size() == 1);
}

}  // namespace starling::gossip
