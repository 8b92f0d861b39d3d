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

}  // namespace starling::gossip
