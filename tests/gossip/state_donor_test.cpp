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

TEST_CASE("a donor says why it does not serve") {
  GossipConfig config;
  CHECK(*Bench(config).ask(PeerId{5}, true) == StateReason::kNewcomer);
  Bench closing(config);
  closing.context.closing = true;
  CHECK(*closing.ask(PeerId{5}) == StateReason::kClosing);
  Bench newcomer(config);
  newcomer.context.newcomer.decide(0, 1e6, 1);
  CHECK(*newcomer.ask(PeerId{5}) == StateReason::kNewcomer);
  config.state.serve_max = 0;
  CHECK(*Bench(config).ask(PeerId{5}) == StateReason::kUnwilling);

  Bench empty;
  empty.donor.on_request(empty.now, PeerId{5}, false);
  CHECK(*empty.answer() == StateReason::kPreparing);
  empty.donor.on_snapshot(empty.now, std::nullopt);
  empty.donor.on_request(empty.now, PeerId{5}, false);
  CHECK(*empty.answer() == StateReason::kNoSnapshot);
  empty.now += seconds(3);
  empty.donor.on_request(empty.now, PeerId{5}, false);
  CHECK(empty.prepares());
}

// It began with a state of which a liar said the most that is believed, and has trained since.
TEST_CASE(
    "what a donor says of its state is believed, whatever it was told of the one it began with") {
  Bench bench;
  bench.offer.step = kStepsOfStateMax + 3;
  bench.offer.tokens = kTokensOfProcessMax + 3;
  bench.donor.on_snapshot(bench.now, bench.offer);
  bench.context.actions.clear();
  bench.donor.on_request(bench.now, PeerId{5}, false);
  const auto said = std::get<StateOffer>(std::get<Send>(bench.context.actions.back()).message);
  CHECK(said.step == kStepsOfStateMax);
  CHECK(said.tokens == kTokensOfProcessMax);
}

TEST_CASE("a donor serves so many newcomers and no more, until one is done or falls silent") {
  Bench bench;
  CHECK_FALSE(bench.ask(PeerId{5}));
  bench.request(PeerId{5}, 0);
  bench.request(PeerId{6}, 0);
  bench.request(PeerId{7}, 0);
  CHECK(*bench.answer() == StateReason::kBusy);
  CHECK(bench.donor.sessions() == 2);
  CHECK(*bench.ask(PeerId{7}) == StateReason::kBusy);
  bench.donor.on_finished(bench.now, PeerId{5});
  CHECK_FALSE(bench.ask(PeerId{7}));
  bench.now += StateDonor::kPieceMax;
  bench.donor.on_deadline(bench.now);
  CHECK(bench.donor.sessions() == 0);
}

TEST_CASE("the snapshot stays while somebody is served, and is renewed for the next") {
  Bench bench;
  CHECK_FALSE(bench.ask(PeerId{5}));
  bench.request(PeerId{5}, 0);
  bench.donor.on_checkpoint();
  CHECK_FALSE(bench.ask(PeerId{6}));
  bench.donor.on_finished(bench.now, PeerId{5});
  bench.now += std::chrono::seconds(11);
  bench.donor.on_request(bench.now, PeerId{6}, false);
  CHECK(bench.prepares());
  bench.offer.snapshot = 8;
  bench.donor.on_snapshot(bench.now, bench.offer);
  bench.request(PeerId{5}, 1);  // it comes too late: of the old one nothing is left
  CHECK(*bench.answer() == StateReason::kGone);
}

TEST_CASE("while a newer snapshot is prepared nobody begins with the one before") {
  Bench bench;
  CHECK_FALSE(bench.ask(PeerId{5}));
  bench.donor.on_checkpoint();
  bench.now += seconds(11);
  bench.donor.on_request(bench.now, PeerId{6}, false);
  CHECK(bench.prepares());
  bench.request(PeerId{5}, 0);
  CHECK(*bench.answer() == StateReason::kPreparing);
  CHECK(bench.donor.sessions() == 0);
  bench.offer.snapshot = 8;
  bench.donor.on_snapshot(bench.now, bench.offer);
  CHECK_FALSE(bench.ask(PeerId{5}));
  bench.donor.on_piece_request(bench.now, PeerId{5}, {8, 0, 0});
  const auto order = bench.reads();
  REQUIRE(order);
  CHECK(order->snapshot == 8);
}

TEST_CASE("checkpoints that come faster than requests keep nobody waiting") {
  Bench bench;
  CHECK_FALSE(bench.ask(PeerId{5}));
  for (int second = 1; second < 10; ++second) {
    bench.now += std::chrono::seconds(1);
    bench.donor.on_checkpoint();
    CHECK_FALSE(bench.ask(PeerId{6}));
  }
}

TEST_CASE("newcomers are served in turn, and what is no piece is not") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.request(PeerId{5}, 0);
  const auto first = bench.reads();
  REQUIRE(first);
  bench.request(PeerId{5}, 1);
  bench.request(PeerId{6}, 2);
  bench.request(PeerId{6}, 16);                  // of 4 stripes and 4 sections
  bench.request(PeerId{6}, kManifestPiece + 1);  // of one part
  CHECK(bench.context.stats.messages_refused == 2);
  bench.donor.on_piece_read(bench.now, *first, PieceRead::kRead);
  const auto second = bench.reads();
  REQUIRE(second);
  CHECK(second->to == PeerId{6});
  for (std::uint32_t piece = 0; piece < 16; ++piece) bench.request(PeerId{6}, piece);
  for (std::uint32_t again = 0; again < 50; ++again) bench.request(PeerId{6}, 3);
  CHECK(bench.context.stats.messages_refused == 2 + 50);
}

TEST_CASE("a piece that was lost on the way is given again in the same session") {
  Bench bench;
  bench.ask(PeerId{5});
  for (int time = 0; time < 3; ++time) {
    bench.request(PeerId{5}, 1);
    const auto order = bench.reads();
    REQUIRE(order);
    CHECK(order->piece == 1);
    bench.donor.on_piece_read(bench.now, *order, PieceRead::kRead);
  }
  CHECK(bench.context.stats.messages_refused == 0);
}

TEST_CASE("without room for a piece the same one is read a little later") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.request(PeerId{5}, 3);
  const auto order = bench.reads();
  REQUIRE(order);
  bench.donor.on_piece_read(bench.now, *order, PieceRead::kNoRoom);
  CHECK_FALSE(bench.reads());
  REQUIRE(bench.donor.next_deadline());
  bench.now = *bench.donor.next_deadline();
  bench.donor.on_deadline(bench.now);
  const auto again = bench.reads();
  REQUIRE(again);
  CHECK(again->piece == 3);
}

TEST_CASE("while an exchange is open pieces take half of the time at most") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.context.leases.take(FragmentId{0});
  for (std::uint32_t piece = 0; piece < 4; ++piece) bench.request(PeerId{5}, piece);
  Duration busy{};
  const Instant begin = bench.now;
  for (std::uint32_t sent = 0; sent < 12; ++sent) {
    auto order = bench.reads();
    while (!order) {
      REQUIRE(bench.donor.next_deadline());
      REQUIRE(*bench.donor.next_deadline() >= bench.now);
      bench.now = *bench.donor.next_deadline();
      bench.donor.on_deadline(bench.now);
      order = bench.reads();
    }
    bench.donor.on_piece_read(bench.now, *order, PieceRead::kRead);
    CHECK_FALSE(bench.reads());  // not before this one has arrived
    const Duration taken = milliseconds(10 + 5 * (sent % 3));
    bench.now += taken;
    busy += taken;
    bench.request(PeerId{5}, 4 + sent, sent + 1);
  }
  bench.now = *bench.donor.next_deadline();
  CHECK(2 * busy <= bench.now - begin);
  CHECK(bench.now - begin < 3 * busy);
  bench.context.leases.release(FragmentId{0});
}

TEST_CASE("pieces whose arrival nobody tells of do not hold up the rest for long") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.context.leases.take(FragmentId{0});
  for (std::uint32_t piece = 0; piece < 3; ++piece) bench.request(PeerId{5}, piece);
  const Instant begin = bench.now;
  for (int sent = 0; sent < 3; ++sent) {
    auto order = bench.reads();
    while (!order) {
      bench.now = *bench.donor.next_deadline();
      bench.donor.on_deadline(bench.now);
      order = bench.reads();
    }
    bench.donor.on_piece_read(bench.now, *order, PieceRead::kRead);
  }
  CHECK(bench.now - begin < seconds(3));
  bench.context.leases.release(FragmentId{0});
}

TEST_CASE("pieces that cuts held up do not slow down those whose arrival nobody tells of") {
  for (const std::uint32_t cuts : {1U, 5U}) {
    CAPTURE(cuts);
    Bench bench;
    bench.ask(PeerId{5});
    bench.context.leases.take(FragmentId{0});
    const auto give = [&] {
      auto order = bench.reads();
      while (!order) {
        REQUIRE(bench.donor.sessions() == 1);  // or no deadline comes
        bench.now = *bench.donor.next_deadline();
        bench.donor.on_deadline(bench.now);
        order = bench.reads();
      }
      bench.donor.on_piece_read(bench.now, *order, PieceRead::kRead);
    };
    for (std::uint32_t piece = 0; piece < 4; ++piece) bench.request(PeerId{5}, piece);
    for (std::uint32_t cut = 0; cut < cuts; ++cut) {
      give();
      bench.now += seconds(cuts == 1 ? 7 : 20);
      bench.request(PeerId{5}, 4 + cut, cut + 1);  // in the end the last one that it wants
    }
    give();
    const Instant after_the_cuts = bench.now;
    for (int left = 0; left < 3; ++left) give();
    CHECK(bench.now - after_the_cuts < seconds(cuts == 1 ? 15 : 40));
    bench.context.leases.release(FragmentId{0});
  }
}

// The core takes a deadline long past for a pause of the whole process.
TEST_CASE("no deadline is in the past after any input") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    Bench bench;
    Rng rng(seed);
    bench.ask(PeerId{5});
    std::uint32_t received = 0;
    std::optional<ReadPiece> order;
    for (int i = 0; i < 400; ++i) {
      CAPTURE(i);
      const PeerId peer{5 + rng.below(2)};
      const auto piece = static_cast<std::uint32_t>(rng.below(16));
      switch (rng.below(8)) {
        case 0: bench.donor.on_finished(bench.now, peer); break;
        case 1: bench.donor.on_turned_down(bench.now, peer); break;
        case 2: bench.donor.on_request(bench.now, peer, false); break;
        case 3:
          if (bench.context.leases.held(FragmentId{0})) {
            bench.context.leases.release(FragmentId{0});
          } else {
            bench.context.leases.take(FragmentId{0});
          }
          break;
        default: bench.request(peer, piece, rng.chance(0.5) ? received++ : 0);
      }
      REQUIRE(bench.donor.next_deadline().value_or(bench.now) >= bench.now);
      if (const auto wanted = bench.reads()) order = wanted;
      if (order && rng.chance(0.5)) {
        const PieceRead outcome = rng.chance(0.8) ? PieceRead::kRead : PieceRead::kNoRoom;
        bench.donor.on_piece_read(bench.now, *std::exchange(order, {}), outcome);
        REQUIRE(bench.donor.next_deadline().value_or(bench.now) >= bench.now);
        if (const auto wanted = bench.reads()) order = wanted;
      }
      const Instant due = bench.donor.next_deadline().value_or(bench.now + seconds(1));
      bench.now = std::min(due, bench.now + milliseconds(rng.below(200)));
      if (bench.now == due) bench.donor.on_deadline(bench.now);
      REQUIRE(bench.donor.next_deadline().value_or(bench.now) >= bench.now);
      if (const auto wanted = bench.reads()) order = wanted;
    }
    if (bench.context.leases.held(FragmentId{0})) bench.context.leases.release(FragmentId{0});
  }
}

TEST_CASE("a newcomer that wanted nothing for a while is not served more slowly for it") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.context.leases.take(FragmentId{0});
  const auto sent = [&bench](std::uint32_t first, std::uint32_t received) {
    for (std::uint32_t piece = first; piece < first + 4; ++piece) {
      bench.request(PeerId{5}, piece, received);
    }
    const Instant begin = bench.now;
    for (int pieces = 0; pieces < 4; ++pieces) {
      auto order = bench.reads();
      while (!order) {
        REQUIRE(bench.donor.sessions() == 1);
        bench.now = *bench.donor.next_deadline();
        bench.donor.on_deadline(bench.now);
        order = bench.reads();
      }
      bench.donor.on_piece_read(bench.now, *order, PieceRead::kRead);
    }
    return bench.now - begin;
  };
  const Duration at_first = sent(0, 0);
  bench.now += seconds(4);  // until another donor is lost and this one is to give its pieces
  CHECK(sent(4, 4) <= at_first);
  bench.context.leases.release(FragmentId{0});
}

TEST_CASE("a snapshot that others keep for ever is not begun with any more") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.donor.on_checkpoint();
  const Duration kept = StateDonor::kSnapshotKept + 8 * StateDonor::kPieceKept;
  std::uint32_t next = 0;
  while (bench.now - Instant{} < kept) {
    bench.request(PeerId{5}, next++ % 16);
    if (next % 16 == 0) bench.donor.on_finished(bench.now, PeerId{5});
    bench.pass(seconds(4));
  }
  bench.request(PeerId{5}, next % 16);
  bench.context.actions.clear();
  CHECK(*bench.ask(PeerId{6}) == StateReason::kBusy);
  bench.request(PeerId{6}, 0);
  CHECK(*bench.answer() == StateReason::kBusy);
}

TEST_CASE("while the owner allows no traffic nobody is served, and who was is sent elsewhere") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.request(PeerId{5}, 0);
  bench.context.actions.clear();
  bench.context.resting = true;
  bench.donor.on_resting(bench.now);
  CHECK(bench.donor.sessions() == 0);
  const auto told = std::get<Send>(bench.context.actions.at(0));
  CHECK(told.to == PeerId{5});
  CHECK(std::get<StateDeclined>(told.message).reason == StateReason::kBusy);
  bench.context.actions.clear();
  CHECK(*bench.ask(PeerId{6}) == StateReason::kBusy);
  bench.request(PeerId{6}, 0);
  CHECK(*bench.answer() == StateReason::kBusy);
  bench.context.resting = false;
  CHECK_FALSE(bench.ask(PeerId{6}));
}

TEST_CASE(
    "while the day's bytes are to last nobody begins, and who has begun gets each piece once") {
  Bench bench;
  bench.ask(PeerId{5});
  bench.request(PeerId{5}, 0);
  REQUIRE(bench.reads());
  bench.donor.on_piece_read(bench.now, {PeerId{5}, 7, 0}, PieceRead::kRead);
  bench.context.actions.clear();
  bench.context.paced = true;
  CHECK(*bench.ask(PeerId{6}) == StateReason::kBusy);
  bench.request(PeerId{6}, 0);
  CHECK(*bench.answer() == StateReason::kBusy);
  bench.request(PeerId{5}, 0, 1);
  CHECK_FALSE(bench.reads());
  bench.request(PeerId{5}, 1, 1);
  CHECK(bench.reads());
  CHECK(*bench.ask(PeerId{5}) == StateReason::kBusy);  // anew
  CHECK(bench.donor.sessions() == 1);
  bench.context.paced = false;
  CHECK_FALSE(bench.ask(PeerId{5}));
}

}  // namespace starling::gossip
