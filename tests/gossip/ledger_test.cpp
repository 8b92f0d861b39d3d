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
