#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "gossip/ledger.h"

namespace starling::gossip {
namespace {

LedgerRow row(std::uint64_t counter, std::uint32_t stripe, Role role, std::uint8_t attempt = 0) {
  const ExchangeKey key{{PeerId{1}, 5}, {PeerId{2}, 7}, counter};
  return {{key, FragmentId{3}, stripe, attempt}, role};
}

}  // namespace

TEST_CASE("a ledger records an attempt once per role") {
  Ledger ledger;
  CHECK(ledger.record(row(1, 0, Role::kInitiator)));
  CHECK_FALSE(ledger.record(row(1, 0, Role::kInitiator)));
  CHECK(ledger.record(row(1, 0, Role::kResponder)));
  CHECK(ledger.record(row(1, 0, Role::kInitiator, 1)));
  ledger.forget(row(1, 0, Role::kInitiator));
  CHECK_FALSE(ledger.contains(row(1, 0, Role::kInitiator)));
  CHECK(ledger.record(row(1, 0, Role::kInitiator)));
}

TEST_CASE("rows come out oldest first and make the same ledger again") {
  Ledger ledger;
  for (std::uint32_t stripe = 0; stripe < 9; ++stripe) {
    REQUIRE(ledger.record(row(9 - stripe, stripe, Role::kResponder)));
  }
  ledger.forget(row(5, 4, Role::kResponder));
  const std::vector<LedgerRow> rows = ledger.rows();
  REQUIRE(rows.size() == 8);
  CHECK(rows.front() == row(9, 0, Role::kResponder));
  CHECK(Ledger(rows).rows() == rows);
}

TEST_CASE("the oldest responder row makes room and the ledger knows that it forgot") {
  Ledger ledger;
  REQUIRE(ledger.record(row(1, 0, Role::kInitiator)));
  for (std::uint64_t counter = 1; counter < Ledger::kRowsMax; ++counter) {
    REQUIRE(ledger.record(row(counter, 0, Role::kResponder)));
  }
  CHECK_FALSE(ledger.may_have_forgotten(row(1, 0, Role::kResponder).ref));
  REQUIRE(ledger.record(row(Ledger::kRowsMax, 0, Role::kResponder)));
  CHECK(ledger.size() == Ledger::kRowsMax);
  CHECK(ledger.contains(row(1, 0, Role::kInitiator)));
  CHECK_FALSE(ledger.contains(row(1, 0, Role::kResponder)));
  CHECK(ledger.may_have_forgotten(row(1, 0, Role::kResponder).ref));
  CHECK_FALSE(ledger.may_have_forgotten(row(2, 0, Role::kResponder).ref));
}

TEST_CASE("of whom no mark is left the ledger may have forgotten anything") {
  constexpr std::uint64_t kInitiators = Ledger::kRowsMax, kGone = 2000;
  const auto row_of = [](std::uint64_t initiator, std::uint64_t counter) {
    LedgerRow made = row(counter, 0, Role::kResponder);
    made.ref.exchange.initiator.id = PeerId{initiator};
    return made;
  };
  Ledger ledger;
  for (std::uint64_t id = 1; id <= kInitiators; ++id) REQUIRE(ledger.record(row_of(id, 1)));
  CHECK_FALSE(ledger.may_have_forgotten(row_of(kInitiators + 1, 1).ref));
  for (std::uint64_t counter = 1; counter <= kGone; ++counter) {
    REQUIRE(ledger.record(row_of(kInitiators + 1, counter)));
  }
  for (std::uint64_t id = 1; id <= kGone; ++id) {
    REQUIRE_FALSE(ledger.contains(row_of(id, 1)));
    REQUIRE(ledger.may_have_forgotten(row_of(id, 1).ref));
  }
}

TEST_CASE("a ledger that was full forgets with a restart no more than it may have before") {
  const auto row_at = [](std::uint64_t counter, std::uint64_t our_process) {
    LedgerRow made = row(counter, 0, Role::kResponder);
    made.ref.exchange.responder.incarnation = our_process;
    return made;
  };
  Ledger ledger;
  constexpr std::uint64_t kGone = 100, kLast = Ledger::kRowsMax;
  // As many rows of ours as there may be; they are settled before the checkpoint is cut.
  for (std::uint64_t counter = 0; counter < Ledger::kInitiatorRowsMax; ++counter) {
    REQUIRE(ledger.record(row(counter, 0, Role::kInitiator)));
  }
  for (std::uint64_t counter = 1; counter <= Ledger::kRowsMax / 2 + kGone; ++counter) {
    REQUIRE(ledger.record(row_at(counter, 7)));
  }
  for (std::uint64_t counter = 0; counter < Ledger::kInitiatorRowsMax; ++counter) {
    ledger.forget(row(counter, 0, Role::kInitiator));
  }
  Ledger restored(ledger.rows());
  for (std::uint64_t counter = 1; counter <= kGone; ++counter) {
    REQUIRE_FALSE(restored.contains(row_at(counter, 7)));
    REQUIRE(restored.may_have_forgotten(row_at(counter, 7).ref));
  }
  CHECK_FALSE(restored.may_have_forgotten(row_at(kLast, 7).ref));
  LedgerRow unknown = row_at(kLast, 7);
  SUBCASE("another peer") { unknown.ref.exchange.initiator.id = PeerId{99}; }
  SUBCASE("a later process") { unknown.ref.exchange.initiator.incarnation += 1; }
  CHECK(restored.may_have_forgotten(unknown.ref));
  unknown.ref.exchange.responder.incarnation = 8;  // begun after the restart
  CHECK_FALSE(restored.may_have_forgotten(unknown.ref));
  REQUIRE(Ledger(std::vector{row_at(1, 7)}).rows().size() == 1);
  CHECK_FALSE(Ledger(std::vector{row_at(1, 7)}).may_have_forgotten(unknown.ref));
}

TEST_CASE("initiator rows never make room") {
  Ledger ledger;
  for (std::uint64_t counter = 0; counter < Ledger::kRowsMax; ++counter) {
    REQUIRE(ledger.record(row(counter, 0, Role::kInitiator)));
  }
  CHECK_FALSE(ledger.record(row(Ledger::kRowsMax, 0, Role::kInitiator)));
  CHECK(ledger.size() == Ledger::kRowsMax);
}

TEST_CASE("random operations agree with a plain list") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    Ledger ledger;
    std::vector<LedgerRow> plain;
    for (int step = 0; step < 500; ++step) {
      const LedgerRow entry = row(rng.below(4), static_cast<std::uint32_t>(rng.below(4)),
                                  rng.chance(0.5) ? Role::kInitiator : Role::kResponder,
                                  static_cast<std::uint8_t>(rng.below(2)));
      const auto found = std::find(plain.begin(), plain.end(), entry);
      if (rng.chance(0.6)) {
        REQUIRE(ledger.record(entry) == (found == plain.end()));
        if (found == plain.end()) plain.push_back(entry);
      } else {
        ledger.forget(entry);
        if (found != plain.end()) plain.erase(found);
      }
      REQUIRE(ledger.rows() == plain);
    }
  }
}

}  // namespace starling::gossip
