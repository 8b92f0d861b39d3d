// How long a StateFetcher waits for donors that do not serve, or not yet.
#include <algorithm>

#include "gossip/state_fetcher.h"
#include "tests/gossip/state_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Whoever asks it is told that it has no place, for so long.
void keep_busy(StateBench& bench, Duration time) {
  bench.passes = [&bench, time](const StateBench::Letter& letter) {
    const bool asks = std::holds_alternative<StateRequest>(letter.message);
    if (!asks || bench.now - Instant{} >= time) return true;
    bench.at(bench.now + StateBench::kLatency, [&bench, from = letter.to] {
      bench.post(from, StateBench::kNewcomer, StateDeclined{StateReason::kBusy, 3000});
    });
    return false;
  };
}

}  // namespace

TEST_CASE("where nobody is willing to serve, patience ends and training begins") {
  StateBench bench;
  bench.config.state.patience = seconds(20);
  bench.config.state.serve_max = 0;
  bench.add_donor(1);
  bench.start();
  bench.run(seconds(60));
  REQUIRE(bench.ended.size() == 1);
  CHECK(bench.ended[0].outcome == JoinOutcome::kNobodyServes);
  CHECK(bench.count(JoinStep::kDonorDeclined) >= 1);
  CHECK(bench.now - Instant{} < seconds(22));
}

TEST_CASE("a donor without a checkpoint is asked again until it has one, beyond all patience") {
  StateBench bench;
  bench.config.state.patience = seconds(20);
  StateBench::DonorNode& donor = bench.add_donor(1);
  donor.has_snapshot = false;
  bench.start();
  bench.run(minutes(5));
  CHECK(bench.ended.empty());
  CHECK(bench.count(JoinStep::kDonorDeclined) > 60);
  donor.has_snapshot = true;
  bench.run(seconds(10));
  CHECK(bench.fetched());
}

TEST_CASE("a donor that has given its places to others is waited for, but not for ever") {
  StateBench bench;
  bench.bytes_of = [](std::uint32_t) { return std::size_t{8} << 20; };
  bench.add_donor(1);
  keep_busy(bench, StateDonor::kTurn);
  bench.start();
  bench.run(StateDonor::kTurn + minutes(1));
  CHECK(bench.fetched());

  StateBench in_vain;
  in_vain.stripes = {60, 100};  // what is missing could take longer than that
  in_vain.add_donor(1);
  keep_busy(in_vain, std::chrono::hours(24));
  in_vain.start(true, std::vector<std::uint64_t>(160, 0));
  in_vain.run(std::chrono::hours(1));
  REQUIRE(in_vain.ended.size() == 1);
  CHECK(in_vain.ended[0].outcome == JoinOutcome::kNobodyServes);
  CHECK(in_vain.now - Instant{} > 3 * StateDonor::kTurn);
  CHECK(in_vain.now - Instant{} < 4 * StateDonor::kTurn);
}

TEST_CASE("beside a donor that is alone others that are busy are waited for: it may be a liar") {
  StateBench bench;
  bench.add_donor(1, 5.0F);
  for (const std::uint64_t id : {2, 3}) bench.add_donor(id);
  keep_busy(bench, seconds(5));
  const auto busy = bench.passes;
  bench.passes = [busy](const StateBench::Letter& letter) {
    return letter.to == PeerId{1} || busy(letter);
  };
  bench.start();
  bench.run(minutes(1));
  REQUIRE(bench.fetched());
  for (const std::uint64_t snapshot : bench.snapshots()) CHECK(snapshot != 1001);
  CHECK(bench.count(JoinStep::kDonorDisagrees) == 1);
}

TEST_CASE("a partner that comes late is waited for, and its news from then on") {
  StateBench bench;
  const Duration wait = bench.config.state.wait;
  bench.start(false);
  bench.run(2 * wait);
  CHECK(bench.ended.empty());
  bench.context->peers.merge(bench.now, StateBench::identity(PeerId{1}, bench.stripes).self,
                             bench.context->rng);
  bench.context->peers.find(PeerId{1})->welcomed = true;
  bench.run(wait - std::chrono::milliseconds(200));
  CHECK(bench.ended.empty());
  bench.run(seconds(1));
  REQUIRE(bench.ended.size() == 1);  // which has trained nothing, or says nothing
  CHECK(bench.ended[0].outcome == JoinOutcome::kAlone);
  CHECK(bench.now - Instant{} < 4 * wait);
}

TEST_CASE("what an earlier process stored of another snapshot is not kept beside one donor alone") {
  // It could not be mixed with what is still missing: fetched in vain, and all once more.
  StateBench bench;
  bench.add_donor(1);
  bench.checks = [&bench] {
    return std::all_of(bench.kept.begin(), bench.kept.end(),
                       [](const auto& piece) { return piece.second.snapshot == 1001; });
  };
  bench.start(true, {7, 7, 7, 7, 7, 7, 7, 7, 1001, 1001, 1001, 1001, 0, 0, 0, 0});
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(bench.checked.size() == 1);
  CHECK(bench.count(JoinStep::kStartedOver) == 0);
  const auto fetched =
      std::count_if(bench.stored.begin(), bench.stored.end(),
                    [](const StorePiece& order) { return order.piece < kManifestPiece; });
  CHECK(fetched == 2 * 12);  // two sections of each stripe but of those four
}

}  // namespace starling::gossip
