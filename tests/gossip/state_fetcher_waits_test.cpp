// How long a StateFetcher waits for donors that do not serve, or not yet.
#include <algorithm>
#include <functional>
#include <vector>

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

enum class Answer { kServes, kBusy, kNothing };

// Three donors that are far apart: the second gives everything, until so much is here.
void fetch_from_second(StateBench& bench, std::size_t pieces) {
  for (std::uint64_t id = 1; id <= 3; ++id) bench.add_donor(id, static_cast<float>(id));
  std::size_t stripes = 0;
  for (const std::uint32_t count : bench.stripes) stripes += count;
  bench.start(true, std::vector<std::uint64_t>(stripes, 0));
  bench.run_until([&bench, pieces] { return bench.stored.size() >= pieces; });
}

// It makes room for others; what it does from then on.
void end_turn(StateBench& bench, const std::function<Answer()>& answer) {
  const PeerId second{2};
  bench.donors[second].donor->on_finished(bench.now, StateBench::kNewcomer);
  bench.post(second, StateBench::kNewcomer, StateDeclined{StateReason::kBusy, 30'000});
  bench.passes = [&bench, second, answer](const StateBench::Letter& letter) {
    if (letter.to != second || answer() == Answer::kServes) return true;
    if (answer() == Answer::kNothing) return false;
    bench.at(bench.now + StateBench::kLatency, [&bench, second] {
      bench.post(second, StateBench::kNewcomer, StateDeclined{StateReason::kBusy, 3000});
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

TEST_CASE("whoever is to give everything is waited for while others have their turn at it") {
  StateBench bench;
  fetch_from_second(bench, 20);
  // Whoever is next comes a little later, and is sent away a little later.
  const Instant over = bench.now + StateDonor::kTurn + seconds(5);
  end_turn(bench, [&bench, over] { return bench.now < over ? Answer::kBusy : Answer::kServes; });
  bench.run(StateDonor::kTurn + minutes(1));
  REQUIRE(bench.fetched());
  for (const std::uint64_t snapshot : bench.snapshots()) CHECK(snapshot == 1002);
  for (const std::uint64_t id : {1, 3}) CHECK(bench.donors[PeerId{id}].pieces_sent == 0);
  // Again comes what was under way, and the manifest.
  CHECK(bench.stored.size() <= 2 * StateBench::kStripes + 2 + StateFetcher::kWindow);
}

TEST_CASE("it takes turn after turn, and what it gave is mixed with nobody's") {
  StateBench bench;
  bench.stripes = {60, 100};
  fetch_from_second(bench, 60);
  for (const std::size_t pieces : {120, 180}) {
    const Instant over = bench.now + StateDonor::kTurn;
    end_turn(bench, [&bench, over] { return bench.now < over ? Answer::kBusy : Answer::kServes; });
    bench.run(StateDonor::kTurn);
    bench.run_until([&bench, pieces] { return bench.stored.size() >= pieces; });
  }
  bench.run(minutes(1));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kStartedOver) == 0);
  for (const StorePiece& order : bench.stored) CHECK(order.snapshot == 1002);
}

TEST_CASE("one whose turn brought little is not waited for") {
  StateBench bench;
  fetch_from_second(bench, 10);
  end_turn(bench, [] { return Answer::kBusy; });
  bench.run(minutes(1));
  REQUIRE(bench.fetched());
  CHECK(bench.snapshots()[0] != 1002);
}

TEST_CASE("who has no turn for us again, or falls silent, is not waited for: another gives all") {
  for (const Answer answer : {Answer::kBusy, Answer::kNothing}) {
    const bool silent = answer == Answer::kNothing;
    CAPTURE(silent);
    StateBench bench;
    fetch_from_second(bench, 20);
    end_turn(bench, [answer] { return answer; });
    const Instant ended = bench.now;
    bench.run(StateDonor::kTurn + minutes(1));
    REQUIRE(bench.fetched());
    const std::vector<std::uint64_t> from = bench.snapshots();
    CHECK(from[0] != 1002);
    CHECK(std::count(from.begin(), from.end(), from[0]) == StateBench::kStripes);
    CHECK((bench.now - ended < minutes(1)) == silent);
  }
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
