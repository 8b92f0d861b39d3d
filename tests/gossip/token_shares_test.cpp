#include "gossip/token_shares.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace starling::gossip {
namespace {

constexpr double kLie = 0x1p51;

// Peers from 2 on with so many tokens each, as one with `own` in its weights counts them.
TokenShares shares_of(const std::vector<double>& tokens, double own = 0) {
  TokenShares shares(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) shares.add(PeerId{i + 2}, tokens[i]);
  shares.settle(own);
  return shares;
}

double sum(const std::vector<double>& tokens) {
  double sum = 0;
  for (const double value : tokens) sum += value;
  return sum;
}

}  // namespace

TEST_CASE("a peer counts for all of its processes together") {
  TokenShares shares(3);
  for (const std::uint64_t id : {3, 2, 3, 4, 3}) shares.add(PeerId{id}, 100);
  shares.settle(0);
  REQUIRE(shares.all().size() == 3);
  CHECK(shares.all()[0].peer == PeerId{3});
  CHECK(shares.all()[0].tokens == 300);
  CHECK(shares.total() == 500);
}

TEST_CASE("a quarter of liars cannot raise what a liar counts for") {
  std::vector<double> tokens(15, 1000);
  for (int liar = 0; liar < 4; ++liar) tokens.push_back(kLie);
  const TokenShares shares = shares_of(tokens);
  CHECK(shares.limit() == TokenShares::kRatio * 1000);
  REQUIRE(shares.clipped().size() == 4);
  CHECK(shares.clipped().front().tokens == kLie);
  CHECK(shares.total() == 15 * 1000 + 4 * TokenShares::kRatio * 1000);
}

TEST_CASE("a lie is bounded in swarms of any size, once others have trained") {
  for (std::size_t others = 1; others < 20; ++others) {
    CAPTURE(others);
    std::vector<double> tokens(others, 1000);
    tokens.push_back(kLie);
    const TokenShares shares = shares_of(tokens);
    CHECK(shares.clipped().size() == 1);
    CHECK(shares.total() <=
          1000 * (static_cast<double>(others) + std::pow(TokenShares::kRatio, 2)));
  }
}

TEST_CASE("honest machines of unlike speed count in full") {
  const double slow = 1e6;
  const double fast = 1000 * slow;
  for (const std::vector<double>& tokens :
       std::vector<std::vector<double>>{{fast},
                                        {slow, fast},
                                        {slow, slow, fast},
                                        {slow, slow, slow, fast, fast},
                                        {slow, slow, slow, slow, slow, slow, fast, fast, fast}}) {
    CAPTURE(tokens.size());
    for (const double own : {0.0, slow, fast}) {
      CHECK(shares_of(tokens, own).total() == sum(tokens));
      CHECK(shares_of(tokens, own).clipped().empty());
    }
  }
}

TEST_CASE("many that have just begun do not make little of those who trained for long") {
  std::vector<double> tokens(40, 1000);  // with fetched weights, so that their own are not new
  for (int old = 0; old < 5; ++old) tokens.push_back(1e10);
  CHECK(shares_of(tokens, 1e9).total() == sum(tokens));
}

TEST_CASE("nothing was trained: nothing counts") {
  CHECK(shares_of({}).total() == 0);
  CHECK(shares_of({0, 0}).all().empty());
}

}  // namespace starling::gossip
