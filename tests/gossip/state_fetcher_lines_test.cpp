// A newcomer whose line is slow, and donors that are silent on one.
#include <algorithm>
#include <set>

#include "gossip/state_fetcher.h"
#include "tests/gossip/state_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kPieces = 32;
constexpr double kMbitOfAll = kPieces * 8 * 1.048576;  // of all pieces, the manifest apart

std::size_t data_stored(const StateBench& bench) {
  return static_cast<std::size_t>(
      std::count_if(bench.stored.begin(), bench.stored.end(),
                    [](const StorePiece& order) { return order.piece < kManifestPiece; }));
}

bool is_data(const StateBench::Letter& letter) {
  const auto* piece = std::get_if<Piece>(&letter.message);
  return piece != nullptr && piece->piece < kManifestPiece;
}

}  // namespace

TEST_CASE("over a slow line a state comes in the time that its bytes need, and nobody is lost") {
  StateBench bench;
  std::size_t donors = 0;
  SUBCASE("3 Mbit/s, one donor") {
    bench.mbit = 3;
    donors = 1;
  }
  SUBCASE("1 Mbit/s, one donor") {
    bench.mbit = 1;
    donors = 1;
  }
  SUBCASE("10 Mbit/s that four donors share") {
    bench.mbit = 10;
    donors = 4;
  }
  SUBCASE("1 Mbit/s that four donors share") {
    bench.mbit = 1;
    donors = 4;
  }
  for (std::uint64_t id = 1; id <= donors; ++id) bench.add_donor(id);
  bench.start();
  bench.run(minutes(10));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorLost) == 0);
  CHECK(data_stored(bench) == kPieces);
  CHECK(to_seconds(bench.now - Instant{}) < 1.05 * kMbitOfAll / bench.mbit + 3);
  for (const auto& [id, node] : bench.donors) CHECK(node.sessions == 1);
}

TEST_CASE("small pieces that come first do not make a slow line look fast") {
  StateBench bench;
  bench.mbit = 3;
  bench.add_donor(1);
  bench.bytes_of = [](std::uint32_t piece) {
    const bool small = piece >= kManifestPiece || piece % 16 < 6;  // the first stripes
    return small ? std::size_t{20'000} : std::size_t{1} << 20;
  };
  bench.start();
  bench.run(minutes(5));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorLost) == 0);
}

TEST_CASE("on a slow line, too, a donor that is silent is found so in time for another") {
  StateBench bench;
  bench.mbit = 3;
  for (std::uint64_t id = 1; id <= 2; ++id) bench.add_donor(id);
  bool silent = false;
  bench.passes = [&silent](const StateBench::Letter& letter) {
    return !silent || letter.from != PeerId{1};
  };
  Duration under_way{};  // what is on the line still comes
  SUBCASE("from the beginning") {
    bench.passes = [](const StateBench::Letter& letter) {
      return letter.from != PeerId{1} || !std::holds_alternative<Piece>(letter.message);
    };
    bench.start();
    bench.run_until([&bench] { return bench.count(JoinStep::kDonorFound) == 2; });
  }
  SUBCASE("after its manifest") {
    bench.passes = [](const StateBench::Letter& letter) {
      return letter.from != PeerId{1} || !is_data(letter);
    };
    bench.start();
    bench.run_until([&bench] { return bench.count(JoinStep::kDonorFound) == 2; });
  }
  SUBCASE("in the middle") {
    bench.start();
    bench.run_until([&bench] { return data_stored(bench) >= 10; });
    silent = true;
    under_way = seconds(25);
  }
  const Instant since = bench.now;
  bench.run_until([&bench] { return bench.count(JoinStep::kDonorLost) == 1; });
  CHECK(bench.now - since < under_way + bench.config.state.patience * 3 / 4 + seconds(1));
  bench.run(minutes(5));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorLost) >= 1);
}

TEST_CASE("a donor that gives its manifest again and again does not keep a newcomer waiting") {
  StateBench bench;
  bench.add_donor(1);
  bench.passes = [](const StateBench::Letter& letter) { return !is_data(letter); };
  bench.start();
  bench.run(minutes(10));
  REQUIRE(bench.ended.size() == 1);
  CHECK(bench.ended[0].outcome == JoinOutcome::kNobodyServes);
  CHECK(bench.now - Instant{} < bench.config.state.patience + seconds(1));
}

TEST_CASE("a donor that was only slow has longer the next time") {
  StateBench bench;
  bench.config.state.patience = minutes(15);
  bench.mbit = 0.1;  // a piece takes 84 s
  bench.add_donor(1);
  bench.start();
  bench.run(minutes(15));
  CHECK(data_stored(bench) >= 4);
  CHECK(bench.count(JoinStep::kDonorLost) == 2);  // what came too late held up the next
}

// Each piece of one donor comes as late as its silence allows; the offers of some after a while.
void drip(StateBench& bench, PeerId dripper, const std::set<PeerId>& late = {}) {
  std::set<std::uint32_t> seen;
  Instant next{};
  bench.passes = [&bench, dripper, late, seen, next](const StateBench::Letter& letter) mutable {
    if (late.contains(letter.from) && bench.now < Instant{} + seconds(30)) return false;
    if (letter.from != dripper || !is_data(letter)) return true;
    if (!seen.insert(std::get<Piece>(letter.message).piece).second) return true;
    next = std::max(next, bench.now) + seconds(40);
    bench.at(next, [&bench, letter] { bench.post(letter.from, letter.to, letter.message); });
    return false;
  };
}

TEST_CASE("a donor that drips makes room for those that it is slow beside, or has kept out") {
  StateBench bench;
  bench.mbit = 10;
  std::set<PeerId> late;
  SUBCASE("beside others") {}
  SUBCASE("alone at first") { late = {PeerId{1}, PeerId{2}}; }
  for (std::uint64_t id = 1; id <= 3; ++id) bench.add_donor(id);
  drip(bench, PeerId{3}, late);
  bench.start();
  bench.run(minutes(60));
  REQUIRE(bench.fetched());
  CHECK(bench.count(JoinStep::kDonorLost) >= 1);
  CHECK(bench.now - Instant{} < minutes(4));
}

TEST_CASE("where nobody but one that drips gives anything the whole has an end") {
  StateBench bench;
  bench.mbit = 10;
  bench.add_donor(3);
  drip(bench, PeerId{3});
  bench.start();
  bench.run(minutes(120));
  REQUIRE(bench.ended.size() == 1);
  CHECK(bench.ended[0].outcome == JoinOutcome::kNobodyServes);
  const double bytes = kPieces * static_cast<double>(kPieceBytes);
  const Duration most = from_seconds(bytes / StateFetcher::kFloor) + bench.config.state.patience;
  CHECK(bench.now - Instant{} < most + seconds(2));
}

}  // namespace starling::gossip
