#include "gossip/partner_turns.h"

#include <doctest/doctest.h>

#include "tests/gossip/core_bench.h"

namespace starling::gossip {
namespace {

constexpr FragmentId kOne{0}, kOther{1};

}  // namespace

TEST_CASE("a partner begins again after a round, or when half of the others have had their turn") {
  PartnerTurns turns(2);
  constexpr std::uint64_t kOthers = 7;
  CHECK(turns.may_begin(kOne, PeerId{1}, kOthers));
  turns.on_begun(kOne, PeerId{1});
  CHECK_FALSE(turns.may_begin(kOne, PeerId{1}, kOthers));
  CHECK(turns.may_begin(kOther, PeerId{1}, kOthers));
  turns.on_round(kOther);
  CHECK_FALSE(turns.may_begin(kOne, PeerId{1}, kOthers));
  for (int i = 0; i < 9; ++i) turns.on_begun(kOne, PeerId{2});  // one that is another
  turns.on_begun(kOne, PeerId{3});
  CHECK_FALSE(turns.may_begin(kOne, PeerId{1}, kOthers));
  turns.on_begun(kOne, PeerId{4});
  CHECK(turns.may_begin(kOne, PeerId{1}, kOthers));
  CHECK_FALSE(turns.may_begin(kOne, PeerId{2}, kOthers));
  turns.on_round(kOne);
  CHECK(turns.may_begin(kOne, PeerId{2}, kOthers));
}

TEST_CASE("in a swarm of thousands nobody waits for more than those of whom there is a row") {
  PartnerTurns turns(1);
  for (std::uint64_t id = 1; id <= PartnerTurns::kRowsMax + 1; ++id)
    turns.on_begun(kOne, PeerId{id});
  CHECK(turns.may_begin(kOne, PeerId{1}, 10'000));
  CHECK_FALSE(turns.may_begin(kOne, PeerId{2}, 10'000));
}

TEST_CASE("one that begins exchanges again and again has one of a fragment in a round") {
  for (const std::uint64_t peers : {2, 8}) {
    CoreBench bench;
    bench.start_swarm(peers);
    bench.passes = [](const CoreBench::Letter& letter) {  // whom it asks is of no matter
      const auto* offer = std::get_if<Offer>(&letter.message);
      return offer == nullptr || letter.to == PeerId{1};
    };
    const auto mixed_here = [&bench] { return bench.core(1).stats().exchanges_completed; };
    const auto insist = [&bench] {
      for (int i = 0; i < 200; ++i) bench.exchange_all(2, 0);
    };
    insist();
    if (peers == 2) {
      CHECK(mixed_here() == 200);  // there is nobody else
      continue;
    }
    CHECK(mixed_here() == 1);
    bench.publish(1, 0);
    const std::uint64_t before = mixed_here();
    insist();
    CHECK(mixed_here() == before + 1);
  }
}

}  // namespace starling::gossip
