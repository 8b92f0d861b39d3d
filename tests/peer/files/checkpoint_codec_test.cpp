#include "peer/files/checkpoint_codec.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "tests/peer/files/sample_image.h"

namespace starling::peer {

TEST_CASE("the small sections refuse every shortened and every lengthened form") {
  const CheckpointImage image = sample_image(4);
  const auto check = [](std::vector<std::byte> whole, auto decode) {
    REQUIRE(decode(whole).ok());
    for (std::size_t length = 0; length < whole.size(); ++length) {
      CAPTURE(length);
      CHECK(!decode(std::span(whole).first(length)).ok());
    }
    whole.push_back(std::byte{0});
    CHECK(!decode(whole).ok());
  };
  check(encode(image.progress), decode_progress);
  check(encode(image.data), decode_data);
  check(encode(std::span<const gossip::LedgerRow>(image.ledger)), decode_ledger);
  check(encode(std::span<const UnsettledDelta>(image.unsettled)), decode_unsettled);
  check(encode(std::span<const gossip::TokenEntry>(image.tokens)), decode_tokens);
  check(encode(image.age), decode_age);
}

TEST_CASE("a count that cannot be true is refused before anything is allocated for it") {
  for (const std::uint64_t count : {std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::vector<std::byte> bytes(64);
    std::memcpy(bytes.data(), &count, sizeof(count));
    CAPTURE(count);
    CHECK(!decode_ledger(bytes).ok());
    CHECK(!decode_unsettled(bytes).ok());
    CHECK(!decode_tokens(bytes).ok());
    std::vector<std::byte> open_parts(16 + 64);
    std::memcpy(open_parts.data() + 16, &count, sizeof(count));
    CHECK(!decode_data(open_parts).ok());
    std::vector<std::byte> parts(16 + 8 + 64);
    std::memcpy(parts.data() + 24, &count, sizeof(count));
    CHECK(!decode_data(parts).ok());
  }
}

TEST_CASE("a position holds no more parts, open or in all, than there can be") {
  DataPosition position;
  position.passes.resize(gossip::kPartsMax);
  position.own_passes.resize(gossip::kPartsMax);
  for (std::size_t i = 0; i < gossip::kPartsHeldMax; ++i) REQUIRE(position.open.try_push({}));
  CHECK(decode_data(encode(position)).ok());
  position.passes.push_back(0);
  position.own_passes.push_back(0);
  CHECK(!decode_data(encode(position)).ok());
  auto bytes = encode(DataPosition{});
  bytes[16] = std::byte{gossip::kPartsHeldMax + 1};
  bytes.insert(bytes.begin() + 24, 12 * (gossip::kPartsHeldMax + 1), std::byte{});
  CHECK(!decode_data(bytes).ok());
}

TEST_CASE("steps and tokens that no training reaches are an error that says so") {
  TrainerProgress progress{.steps = 7, .tokens = 70, .batches = 7, .steps_at_join = 3};
  REQUIRE(decode_progress(encode(progress)).ok());
  TrainerProgress lied_to = progress;  // by who gave it the state that it began with
  lied_to.steps = gossip::kStepsOfStateMax + 7;
  lied_to.inherited = gossip::kTokensOfProcessMax;
  REQUIRE(decode_progress(encode(lied_to)).ok());
  SUBCASE("the number before the first") { progress.steps = ~std::uint64_t{0}; }
  SUBCASE("steps") { progress.steps = 2 * gossip::kStepsOfStateMax + 1; }
  SUBCASE("steps at the join") { progress.steps_at_join = 8; }
  SUBCASE("tokens") { progress.tokens = std::uint64_t{1} << 63; }
  SUBCASE("inherited tokens") { progress.inherited = gossip::kTokensOfProcessMax + 1; }
  const auto decoded = decode_progress(encode(progress));
  REQUIRE(!decoded.ok());
  CHECK(decoded.error().code() == ErrorCode::kCorrupt);
  CHECK(decoded.error().message().find("no training gets there") != std::string::npos);
}

TEST_CASE("senseless values in the small sections are refused") {
  CheckpointImage image = sample_image(5);
  image.progress.clock = std::numeric_limits<double>::quiet_NaN();
  CHECK(!decode_progress(encode(image.progress)).ok());
  image.tokens[0].rate = std::numeric_limits<float>::infinity();
  CHECK(!decode_tokens(encode(std::span<const gossip::TokenEntry>(image.tokens))).ok());
  image.unsettled[0].terms.mixing = -1;
  CHECK(!decode_unsettled(encode(std::span<const UnsettledDelta>(image.unsettled))).ok());
  auto rows = encode(std::span<const gossip::LedgerRow>(image.ledger));
  rows.back() = std::byte{2};
  CHECK(!decode_ledger(rows).ok());
  for (const double seconds : {-1.0, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(!decode_age(encode(CheckpointAge{.written = seconds})).ok());
    CHECK(!decode_age(encode(CheckpointAge{.missed = seconds})).ok());
  }
}

}  // namespace starling::peer
