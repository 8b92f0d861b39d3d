#include "gossip/state_fetcher.h"

#include <algorithm>

#include "tests/gossip/random_messages.h"
#include "tests/gossip/state_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;

std::size_t different(const std::vector<std::uint64_t>& snapshots) {
  return std::set<std::uint64_t>(snapshots.begin(), snapshots.end()).size();
}

bool is_data(const StorePiece& order) { return order.piece < kManifestPiece; }

}  // namespace

TEST_CASE("a newcomer gets every piece, from several donors, each stripe from one of them") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 3; ++id) bench.add_donor(id);
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(different(bench.snapshots()) == 3);
  CHECK(bench.ended[0].step == 501);
  CHECK(bench.ended[0].tokens == 1'000'000);
  CHECK(bench.context->tokens.in_own_weights() == 1'000'000);
  CHECK(bench.context->newcomer.weight() == 0);
  CHECK(std::count_if(bench.stored.begin(), bench.stored.end(), is_data) == 32);
  CHECK_FALSE(bench.fetcher->active());
}

TEST_CASE("without moments only the weights are asked for") {
  StateBench bench;
  bench.config.state.moments = false;
  bench.add_donor(1);
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(std::count_if(bench.stored.begin(), bench.stored.end(), is_data) == 16);
  for (const StorePiece& order : bench.stored) CHECK((!is_data(order) || order.piece < 16));
}

TEST_CASE("who is not behind, or finds nobody that has trained, trains at once") {
  StateBench bench;
  bench.add_donor(1);
  bench.start(false);
  bench.context->newcomer.decide(1e6, 1e6, 65536);
  bench.run(seconds(10));
  REQUIRE(bench.ended.size() == 1);
  CHECK(bench.ended[0].outcome == JoinOutcome::kNotBehind);
  CHECK(bench.now - Instant{} < std::chrono::milliseconds(200));

  StateBench alone;
  alone.start(false);
  alone.run(seconds(10));
  REQUIRE(alone.ended.size() == 1);
  CHECK(alone.ended[0].outcome == JoinOutcome::kAlone);
  CHECK(alone.now - Instant{} < 3 * alone.config.state.wait + seconds(1));
}

TEST_CASE("a donor that sends wrong bytes is dropped with all it gave and never asked again") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 3; ++id) bench.add_donor(id);
  std::size_t from_liar = 0;
  bench.judge = [&from_liar](const StorePiece& order) {
    if (order.from != PeerId{2} || !is_data(order)) return PieceStored::kStored;
    return ++from_liar == 6 ? PieceStored::kWrong : PieceStored::kStored;
  };
  std::size_t asked = 0;
  bench.passes = [&asked](const StateBench::Letter& letter) {
    if (letter.to == PeerId{2}) asked += std::holds_alternative<StateRequest>(letter.message);
    return true;
  };
  bench.start();
  bench.run(seconds(30));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorWrong) == 1);
  for (const std::uint64_t snapshot : bench.snapshots()) CHECK(snapshot != 1002);
  CHECK(asked == 2);  // once answered with "preparing", once with the offer
  // Both operators are told, and nothing else of the liar is listened to.
  REQUIRE(bench.rejected.size() == 1);
  CHECK(bench.rejected[0].by_us);
  CHECK(bench.rejected[0].peer == PeerId{2});
  CHECK(bench.rejected[0].reason == RejectReason::kWrongPiece);
  CHECK(bench.context->conduct.muted(bench.now, PeerId{2}));
  const auto& heard = bench.donors.at(PeerId{2}).rejected;
  REQUIRE(heard.size() == 1);
  CHECK_FALSE(heard[0].by_us);
  CHECK(heard[0].reason == RejectReason::kWrongPiece);
}

TEST_CASE("a manifest of the wrong size, and an offer of nothing, end the acquaintance") {
  StateBench bench;
  REQUIRE(bench.add_donor(1).offer.manifest.try_push({}));
  bench.add_donor(2).offer.snapshot = 0;
  bench.add_donor(3);
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorWrong) == 2);
  CHECK(different(bench.snapshots()) == 1);
  CHECK(bench.rejected.size() == 2);
  for (const Rejected& event : bench.rejected) {
    CHECK(event.reason == RejectReason::kBadTerms);
    CHECK(bench.context->conduct.muted(bench.now, event.peer));
  }
}

TEST_CASE("pieces that were not asked for, or of another snapshot, are not stored") {
  StateBench bench;
  bench.add_donor(1);
  bench.passes = [&bench](const StateBench::Letter& letter) {
    if (const auto* piece = std::get_if<Piece>(&letter.message)) {
      bench.fetcher->on_piece(bench.now, PeerId{1}, {piece->snapshot + 1, piece->piece});
      bench.fetcher->on_piece(bench.now, PeerId{1}, {piece->snapshot, piece->piece + 100});
      bench.fetcher->on_piece(bench.now, PeerId{77}, *piece);
    }
    return true;
  };
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(bench.stored.size() == 33);
  CHECK(bench.context->stats.messages_refused > 90);
}

TEST_CASE("a donor that dies or stalls in the middle costs its unfinished stripes only") {
  for (const bool dies : {true, false}) {
    CAPTURE(dies);
    StateBench bench;
    for (std::uint64_t id = 1; id <= 2; ++id) bench.add_donor(id);
    bool stalled = false;
    bench.passes = [&stalled](const StateBench::Letter& letter) {
      return !stalled || letter.from != PeerId{1};
    };
    bench.start();
    bench.run_until([&bench] { return bench.stored.size() >= 14; });
    if (dies) bench.kill(1);
    stalled = true;
    const Instant since = bench.now;
    bench.run(seconds(60));
    REQUIRE(bench.fetched());
    CHECK(bench.count(JoinStep::kDonorLost) == 1);
    CHECK(bench.now - since < seconds(5));  // its pace was known: no fixed patience was waited for
    const auto data = std::count_if(bench.stored.begin(), bench.stored.end(), is_data);
    CHECK(data >= 32);
    CHECK(data <= 32 + 2 * 4);
    bench.snapshots();
  }
}

TEST_CASE("beside exchanges, too, what a lost donor leaves is given soon by one that was done") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 2; ++id) {
    bench.add_donor(id).context->leases.take(FragmentId{0});
  }
  std::size_t given = 0;  // by the one that is lost
  SUBCASE("a piece of its manifest") { given = 1; }
  SUBCASE("some stripes") { given = 7; }
  bench.passes = [&given](const StateBench::Letter& letter) {
    if (letter.from != PeerId{1} || !std::holds_alternative<Piece>(letter.message)) return true;
    return given > 0 && given-- > 0;
  };
  bench.start();
  bench.run_until([&bench] { return bench.count(JoinStep::kDonorLost) == 1; });
  const Instant since = bench.now;
  bench.run(seconds(60));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorLost) == 1);
  CHECK(bench.now - since < seconds(1));
  for (auto& [id, node] : bench.donors) node.context->leases.release(FragmentId{0});
}

TEST_CASE("a donor that changes its snapshot is asked for the new one") {
  StateBench bench;
  StateBench::DonorNode& donor = bench.add_donor(1);
  bench.start();
  bench.run_until([&bench] { return bench.stored.size() >= 10; });
  // It lost the file: the sessions end, and the next question finds the newer one.
  donor.offer.snapshot = 2000;
  donor.donor->on_piece_read(bench.now, {StateBench::kNewcomer, 1001, 0}, PieceRead::kFailed);
  bench.run(seconds(30));
  REQUIRE(bench.fetched());
  const auto snapshots = bench.snapshots();
  CHECK(std::count(snapshots.begin(), snapshots.end(), 2000U) > 0);
}

TEST_CASE("weights unlike the others' and stale weights are left alone") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 4; ++id) bench.add_donor(id, id == 4 ? 2.0F : 1.0F);
  bench.add_donor(5).offer.tokens = 100;
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorDisagrees) == 2);
  for (const std::uint64_t snapshot : bench.snapshots()) CHECK(snapshot < 1004);
}

TEST_CASE("a donor that claims to have trained more than all makes nobody else stale") {
  StateBench bench;
  std::uint64_t honest = 0;
  SUBCASE("beside one honest donor") { honest = 1; }
  SUBCASE("beside three honest donors") { honest = 3; }
  for (std::uint64_t id = 1; id <= honest; ++id) bench.add_donor(id);
  bench.add_donor(9).offer.tokens = kTokensOfProcessMax;
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorDisagrees) == 0);
  CHECK(bench.count(JoinStep::kDonorFound) == honest + 1);
}

TEST_CASE("a donor whose steps or tokens are impossible is turned down by that name") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 2; ++id) bench.add_donor(id);
  SUBCASE("steps") { bench.add_donor(3).offer.step = ~std::uint64_t{0}; }
  SUBCASE("just too many steps") { bench.add_donor(3).offer.step = kStepsOfStateMax + 1; }
  SUBCASE("tokens") { bench.add_donor(3).offer.tokens = std::uint64_t{1} << 63; }
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorImpossible) == 1);
  REQUIRE(bench.rejected.size() == 1);
  CHECK(bench.rejected[0].peer == PeerId{3});
  CHECK(bench.rejected[0].reason == RejectReason::kBadTerms);
  CHECK(bench.context->conduct.muted(bench.now, PeerId{3}));
  for (const std::uint64_t snapshot : bench.snapshots()) CHECK(snapshot < 1003);
  CHECK(bench.ended[0].step == 501);
}

TEST_CASE("where donors are far apart everything comes from one, the nearest to the others") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 3; ++id) bench.add_donor(id, static_cast<float>(id));
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  for (const std::uint64_t snapshot : bench.snapshots()) CHECK(snapshot == 1002);
  CHECK(bench.count(JoinStep::kDonorAlone) == 1);
  REQUIRE(bench.checked.size() == 1);
  CHECK(bench.checked[0].sketch == bench.donors[PeerId{2}].offer.sketch);
}

TEST_CASE("a late offer far from the others costs what is of a third snapshot, and nothing else") {
  for (std::size_t ticks = 0; ticks < 10; ++ticks) {  // whatever is under way by then
    CAPTURE(ticks);
    StateBench bench;
    bench.add_donor(1, 1.0F);
    bench.add_donor(2, 1.5F);
    bool late = false;
    bench.passes = [&late](const StateBench::Letter& letter) {
      return late || letter.from != PeerId{2};
    };
    bench.checks = [&bench] { return bench.kept.size() == 32; };
    bench.start(true, {7, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    bench.run_until([&bench] { return bench.stored.size() >= 6; });
    for (std::size_t i = 0; i < ticks; ++i) bench.tick();
    late = true;
    bench.post(PeerId{2}, StateBench::kNewcomer, bench.donors[PeerId{2}].offer);
    bench.run(seconds(60));
    REQUIRE(bench.fetched());
    CHECK(bench.count(JoinStep::kDonorAlone) == 1);
    CHECK(bench.count(JoinStep::kStartedOver) == 0);
    CHECK(bench.checked.size() == 1);
    CHECK(different(bench.snapshots()) == 1);
  }
}

TEST_CASE("when the only donor of one snapshot dies, another's takes its place as a whole") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 3; ++id) bench.add_donor(id, static_cast<float>(id));
  bench.start();
  bench.run_until([&bench] { return bench.stored.size() >= 20; });
  bench.kill(2);
  bench.run(seconds(60));
  REQUIRE(bench.fetched());
  CHECK(different(bench.snapshots()) == 1);
  CHECK(bench.snapshots()[0] != 1002);
}

TEST_CASE("a mixture that is not what the offers said is fetched again from one donor") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 3; ++id) bench.add_donor(id);
  bench.checks = [&bench] { return bench.checked.size() > 1; };
  bench.start();
  bench.run(seconds(60));
  REQUIRE(bench.fetched());
  CHECK(bench.checked.size() == 2);
  CHECK(different(bench.snapshots()) == 1);
  CHECK(bench.count(JoinStep::kStartedOver) == 3);

  StateBench hopeless;
  for (std::uint64_t id = 1; id <= 5; ++id) hopeless.add_donor(id);
  hopeless.checks = [] { return false; };
  hopeless.start();
  hopeless.run(seconds(120));
  REQUIRE(hopeless.ended.size() == 1);
  CHECK(hopeless.ended[0].outcome == JoinOutcome::kRejected);
  CHECK(hopeless.checked.size() == 3);
}

TEST_CASE("what an earlier process has stored is not asked for again") {
  StateBench bench;
  bench.add_donor(1);
  bench.add_donor(2);
  bench.start(true, {1001, 0, 0, 1002, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(std::count_if(bench.stored.begin(), bench.stored.end(), is_data) == 26);

  StateBench whole;
  whole.add_donor(1);
  whole.start(true, std::vector<std::uint64_t>(StateBench::kStripes, 1));
  whole.run(seconds(10));
  REQUIRE(whole.fetched());
  CHECK(whole.checked.size() == 1);
  CHECK(std::count_if(whole.stored.begin(), whole.stored.end(), is_data) == 0);
  CHECK(whole.ended.back().step == 501);  // as far as the donor that it was compared with
  CHECK(whole.ended.back().tokens == 1'000'000);
}

TEST_CASE("a disk that fails ends the download, not the peer") {
  StateBench bench;
  bench.add_donor(1);
  bench.judge = [](const StorePiece&) { return PieceStored::kFailed; };
  bench.start();
  bench.run(seconds(10));
  REQUIRE(bench.ended.size() == 1);
  CHECK(bench.ended[0].outcome == JoinOutcome::kDiskFailed);
}

TEST_CASE("lost messages cost time only") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    StateBench bench;
    for (std::uint64_t id = 1; id <= 4; ++id) bench.add_donor(id);
    Rng rng(seed);
    bench.passes = [&rng](const StateBench::Letter&) { return !rng.chance(0.1); };
    bench.start();
    bench.run(seconds(600));
    REQUIRE(bench.fetched());
    bench.snapshots();
  }
}

TEST_CASE("nonsense from anybody at any time ends nothing and breaks no limit") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    StateBench bench;
    for (std::uint64_t id = 1; id <= 3; ++id) bench.add_donor(id);
    Rng rng(seed);
    RandomMessages draw(seed);
    bench.start();
    for (int i = 0; i < 200'000 && bench.ended.empty(); ++i) {
      if (i < 10'000 && rng.chance(0.2)) {
        Message message = draw.of_type(18 + rng.below(5));
        if (auto* piece = std::get_if<Piece>(&message)) {
          *piece = {1001 + rng.below(3), static_cast<std::uint32_t>(rng.below(40))};
        }
        if (auto* request = std::get_if<PieceRequest>(&message)) {
          request->snapshot = 1001 + rng.below(3);
          if (rng.chance(0.5)) request->piece = static_cast<std::uint32_t>(rng.below(40));
        }
        const PeerId donor{1 + rng.below(5)};
        const bool inwards = rng.chance(0.5);
        bench.post(inwards ? donor : StateBench::kNewcomer, inwards ? StateBench::kNewcomer : donor,
                   message);
      }
      bench.tick();
      bool within = bench.fetcher->progress().donors <= bench.config.state.donors_max;
      for (const auto& [id, node] : bench.donors) {
        within = within && node.donor->sessions() <= bench.config.state.serve_max;
      }
      REQUIRE(within);
    }
    REQUIRE(bench.ended.size() == 1);
    if (bench.fetched()) bench.snapshots();
  }
}

}  // namespace starling::gossip
