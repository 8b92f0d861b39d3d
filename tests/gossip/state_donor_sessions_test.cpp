// Who has a place at a donor, for how long, and what he is given in it.
#include "gossip/state_donor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/gossip/donor_bench.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Bench = DonorBench;

}  // namespace

TEST_CASE("a piece that was read for a session which has ended is none of the next one's") {
  for (const PieceRead outcome : {PieceRead::kRead, PieceRead::kNoRoom}) {
    Bench bench;
    bench.ask(PeerId{5});
    bench.request(PeerId{5}, 3);
    const auto order = bench.reads();
    REQUIRE(order);
    bench.donor.on_finished(bench.now, PeerId{5});
    bench.request(PeerId{5}, 0);
    CHECK_FALSE(bench.reads());  // one at a time
    bench.donor.on_piece_read(bench.now, *order, outcome);
    for (const Action& action : bench.context.actions) {
      CHECK_FALSE(std::holds_alternative<SendPayload>(action));
    }
    const auto next = bench.reads();
    REQUIRE(next);
    CHECK(next->piece == 0);
  }
}

TEST_CASE("when a newcomer leaves while its piece is under way, the next one's is read at once") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.context.leases.take(FragmentId{0});
  bench.request(PeerId{5}, 0);
  const auto order = bench.reads();
  REQUIRE(order);
  bench.donor.on_piece_read(bench.now, *order, PieceRead::kRead);
  bench.now += milliseconds(10);
  bench.request(PeerId{6}, 1);
  CHECK_FALSE(bench.reads());
  bench.now += milliseconds(10);
  bench.donor.on_finished(bench.now, PeerId{5});
  const auto next = bench.reads();
  REQUIRE(next);
  CHECK(next->to == PeerId{6});
  bench.context.leases.release(FragmentId{0});
}

TEST_CASE("a newcomer without room for its piece keeps no other waiting") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.context.leases.take(FragmentId{0});
  bench.request(PeerId{5}, 0);
  const auto slow = bench.reads();
  REQUIRE(slow);
  bench.request(PeerId{6}, 1);
  bench.donor.on_piece_read(bench.now, *slow, PieceRead::kNoRoom);
  const auto next = bench.reads();
  REQUIRE(next);
  CHECK(next->to == PeerId{6});
  bench.donor.on_piece_read(bench.now, *next, PieceRead::kNoRoom);
  const Instant before = bench.now;
  bench.now = *bench.donor.next_deadline();
  CHECK(bench.now - before <= milliseconds(10));  // though exchanges are open: nothing was sent
  bench.donor.on_deadline(bench.now);
  const auto again = bench.reads();
  REQUIRE(again);
  CHECK(again->to == PeerId{5});
  bench.context.leases.release(FragmentId{0});
}

TEST_CASE("what is acknowledged before it was given makes nobody wait") {
  Bench bench;
  bench.now = Instant{} + seconds(1000);
  bench.ask(PeerId{5});
  bench.context.leases.take(FragmentId{0});
  bench.request(PeerId{5}, 0);
  const auto first = bench.reads();
  REQUIRE(first);
  bench.request(PeerId{5}, 1, 1);
  bench.donor.on_piece_read(bench.now, *first, PieceRead::kRead);
  bench.now += seconds(15);
  bench.donor.on_deadline(bench.now);
  const auto second = bench.reads();
  REQUIRE(second);
  CHECK(second->piece == 1);
  bench.context.leases.release(FragmentId{0});
}

TEST_CASE("who asks for the same pieces for ever loses its place") {
  Bench bench;
  bench.ask(PeerId{5});
  for (int second = 0; second < 60; ++second) {
    for (std::uint32_t piece = 0; piece < 4; ++piece) bench.request(PeerId{5}, piece);
    bench.pass(seconds(1));
    if (bench.donor.sessions() == 0) break;
  }
  CHECK(bench.now - Instant{} <= StateDonor::kPieceMax + seconds(1));
}

TEST_CASE("of a place that somebody waits for nobody has more than his turn") {
  GossipConfig config;
  config.state.serve_max = 1;
  Bench bench(config, 100);
  // It begins a new session whenever one ends, and asks sooner than anybody else.
  bench.ask(PeerId{5});
  bool served = false;
  std::uint32_t next = 0;
  while (!served && bench.now - Instant{} < std::chrono::hours(2)) {
    bench.request(PeerId{5}, next++ % 400);
    bench.pass(seconds(4));
    served = !bench.ask(PeerId{6});
  }
  CHECK(served);
  CHECK(bench.now - Instant{} <= StateDonor::kTurn + 2 * StateDonor::kPieceMax);
}

TEST_CASE("a newcomer behind 1 Mbit/s gets everything in one session") {
  Bench bench;
  bench.ask(PeerId{5});
  for (std::uint32_t piece = 0; piece < 4; ++piece) bench.request(PeerId{5}, piece);
  for (std::uint32_t piece = 4; piece < 16; ++piece) {
    bench.pass(milliseconds(8400));
    REQUIRE(bench.donor.sessions() == 1);
    bench.request(PeerId{5}, piece, piece - 3);
  }
  bench.context.actions.clear();
  bench.pass(seconds(1));
  CHECK(bench.context.stats.messages_refused == 0);
}

TEST_CASE("behind a line that payloads found slower a newcomer keeps its place for longer") {
  for (const bool measured : {false, true}) {
    CAPTURE(measured);
    Bench bench;
    constexpr Duration kPieceTakes = seconds(100);  // 84 kbit/s
    if (measured) {
      bench.now += kPieceTakes;
      bench.context.paces.on_payload(bench.now, PeerId{5}, kPieceBytes,
                                     {Instant{}, Instant{}, bench.now});
    }
    bench.ask(PeerId{5});
    for (std::uint32_t piece = 0; piece < 4; ++piece) bench.request(PeerId{5}, piece);
    bench.pass(kPieceTakes);
    CHECK(bench.donor.sessions() == (measured ? 1 : 0));
  }
}

TEST_CASE("a newcomer that comes back after a break is given again what it lost") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.request(PeerId{5}, 3);
  bench.pass(seconds(1));
  CHECK_FALSE(bench.ask(PeerId{5}));
  bench.request(PeerId{5}, 3);
  const auto order = bench.reads();
  REQUIRE(order);
  CHECK(order->piece == 3);
}

TEST_CASE("a session that an acknowledgement shows to be over leaves no deadline in the past") {
  Bench bench;
  bench.now = Instant{} + seconds(1000);
  bench.ask(PeerId{5});
  bench.request(PeerId{5}, 0);
  const auto order = bench.reads();
  REQUIRE(order);
  bench.donor.on_piece_read(bench.now, *order, PieceRead::kRead);
  bench.now += seconds(60);
  bench.context.paced = true;
  bench.request(PeerId{5}, 0, 1);  // nothing is under way any more, and that for long
  CHECK(bench.donor.next_deadline().value_or(bench.now) >= bench.now);
}

TEST_CASE("who waits for another's piece is served when a refused request shows that it has come") {
  Bench bench;
  bench.now = Instant{} + seconds(1000);
  bench.ask(PeerId{5});
  bench.context.leases.take(FragmentId{0});  // pieces yield to exchanges
  bench.request(PeerId{5}, 0);
  const auto first = bench.reads();
  REQUIRE(first);
  bench.donor.on_piece_read(bench.now, *first, PieceRead::kRead);
  bench.request(PeerId{6}, 1);
  CHECK_FALSE(bench.reads());
  bench.now += milliseconds(100);
  bench.context.paced = true;
  bench.request(PeerId{5}, 0, 1);  // once more, which is refused: the day's bytes are to last
  CHECK(bench.donor.next_deadline().value_or(bench.now) >= bench.now);
  const auto next = bench.reads();
  REQUIRE(next);
  CHECK(next->to == PeerId{6});
  bench.context.leases.release(FragmentId{0});
}

}  // namespace starling::gossip
