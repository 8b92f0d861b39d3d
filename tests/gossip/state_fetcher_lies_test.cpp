// Donors that lie about whose snapshot theirs is, and one that is taken for a liar by mistake.
#include <algorithm>
#include <set>

#include "gossip/state_fetcher.h"
#include "tests/gossip/state_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;

bool is_data(const StorePiece& order) { return order.piece < kManifestPiece; }

}  // namespace

TEST_CASE("a liar that names its snapshot as another's costs that one nothing") {
  for (std::size_t wrong = 1; wrong <= 8; ++wrong) {  // whatever the honest one is giving then
    CAPTURE(wrong);
    StateBench bench;
    bench.add_donor(1);
    bench.add_donor(2).offer.snapshot = bench.donors.at(PeerId{1}).offer.snapshot;
    std::size_t from_liar = 0;
    bench.judge = [&](const StorePiece& order) {
      if (order.from != PeerId{2} || !is_data(order)) return PieceStored::kStored;
      return ++from_liar == wrong ? PieceStored::kWrong : PieceStored::kStored;
    };
    bench.start();
    bench.run(seconds(30));
    REQUIRE(bench.fetched());
    CHECK(bench.count(JoinStep::kDonorWrong) == 1);
    // What its keeper has is what the fetcher believes, each piece fetched from the honest once.
    CHECK(bench.kept.size() == 32);
    std::size_t from_honest = 0;
    for (const StorePiece& order : bench.stored) {
      if (order.from == PeerId{1} && is_data(order)) ++from_honest;
    }
    CHECK(from_honest == 32);
  }
}

TEST_CASE("a donor whose manifest was forgotten here gives it again, and is blamed for nothing") {
  for (std::size_t at = 2; at < 30; at += 3) {  // whatever is under way by then
    CAPTURE(at);
    StateBench bench;
    for (std::uint64_t id = 1; id <= 2; ++id) bench.add_donor(id);
    std::set<PeerId> known;
    std::size_t parts = 0;
    bench.judge = [&](const StorePiece& order) {
      if (bench.stored.size() == at && parts == 2) known.erase(PeerId{1});
      if (!is_data(order)) {
        known.insert(order.from);
        ++parts;
      }
      return known.contains(order.from) ? PieceStored::kStored : PieceStored::kUnknown;
    };
    bench.start();
    bench.run(seconds(30));
    REQUIRE(bench.fetched());
    CHECK(parts == 3);
    CHECK(bench.count(JoinStep::kDonorWrong) == 0);
    CHECK(bench.count(JoinStep::kDonorLost) == 0);
    CHECK(bench.rejected.empty());
    CHECK(static_cast<std::size_t>(
              std::count_if(bench.stored.begin(), bench.stored.end(), is_data)) == 32);
  }
}

TEST_CASE("a donor that offers ever new snapshots makes nothing grow") {
  StateBench bench;
  StateBench::DonorNode& donor = bench.add_donor(1);
  bench.passes = [](const StateBench::Letter& letter) {  // it offers, and gives nothing
    return !std::holds_alternative<Piece>(letter.message);
  };
  bench.start();
  for (int i = 0; i < 200; ++i) {
    ++donor.offer.snapshot;
    bench.fetcher->on_peer_lost(bench.now, PeerId{1});
    bench.run(seconds(2));  // with the invariants looked at all along
  }
  CHECK(bench.count(JoinStep::kDonorFound) > StateBench::kStripes + bench.config.state.donors_max);
}

TEST_CASE("what a donor promised holds though it goes while its state is compared") {
  StateBench bench;
  bench.add_donor(1);
  bench.checks = [&bench] { return bench.fetcher->on_peer_lost(bench.now, PeerId{1}), true; };
  bench.start(true, std::vector<std::uint64_t>(StateBench::kStripes, 1));
  bench.run(seconds(10));
  REQUIRE(bench.fetched());
  CHECK(bench.ended.back().step == 501);
}

TEST_CASE("one far sketch does not decide for good that all comes from one, nor for whom") {
  StateBench bench;
  for (std::uint64_t id = 1; id <= 4; ++id) bench.add_donor(id, id == 1 ? 2.0F : 1.0F);
  // Two answer at once, and the honest ones a second later.
  bench.passes = [&bench](const StateBench::Letter& letter) {
    const bool offers = std::holds_alternative<StateOffer>(letter.message);
    const bool late = letter.from == PeerId{3} || letter.from == PeerId{4};
    if (!offers || !late || bench.now > Instant{} + std::chrono::seconds(1)) return true;
    bench.at(bench.now + std::chrono::seconds(1),
             [&bench, letter] { bench.post(letter.from, letter.to, letter.message); });
    return false;
  };
  bench.start();
  bench.run(std::chrono::seconds(60));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorAlone) == 0);
  CHECK(bench.count(JoinStep::kDonorDisagrees) == 1);
  for (const std::uint64_t snapshot : bench.snapshots()) CHECK(snapshot != 1001);
  // Nor is what the liar said of its training kept.
  CHECK(bench.ended[0].step == 502);
}

TEST_CASE("nothing stays of one that everything came from when it is gone and others agree") {
  for (const bool busy : {false, true}) {
    CAPTURE(busy);
    StateBench bench;
    for (std::uint64_t id = 1; id <= 4; ++id) bench.add_donor(id, id <= 2 ? float(id) : 9.0F);
    bool alone = true;
    bench.passes = [&alone](const StateBench::Letter& letter) {
      return !alone || letter.from <= PeerId{2} || letter.from == StateBench::kNewcomer;
    };
    bench.start();
    bench.run_until([&bench] { return bench.stored.size() >= 20; });
    CHECK(bench.count(JoinStep::kDonorAlone) == 1);
    const PeerId first = bench.stored.back().from;
    const Instant served = bench.now + std::chrono::seconds(40);
    // All but one, which offers and is looked at before them.
    if (busy) {
      bench.passes = [&bench, served](const StateBench::Letter& letter) {
        const bool asks = std::holds_alternative<StateRequest>(letter.message);
        if (!asks || letter.to == PeerId{3} || bench.now >= served) return true;
        bench.at(bench.now + StateBench::kLatency, [&bench, from = letter.to] {
          bench.post(from, StateBench::kNewcomer, StateDeclined{StateReason::kBusy, 3000});
        });
        return false;
      };
    }
    alone = false;
    bench.kill(first.value);
    bench.run(std::chrono::minutes(3));
    REQUIRE(bench.fetched());
    for (const std::uint64_t snapshot : bench.snapshots()) CHECK(snapshot != 1000 + first.value);
  }
}

}  // namespace starling::gossip
