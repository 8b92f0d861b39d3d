#include "peer/files/checkpoint_parts.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "base/rng.h"
#include "tests/peer/file_steps.h"
#include "tests/support/memory_source.h"

namespace starling::peer {

namespace {

gossip::StripeRef sample_ref(Rng& rng) {
  gossip::StripeRef ref;
  ref.exchange.initiator = {PeerId{rng.next()}, rng.next()};
  ref.exchange.responder = {PeerId{rng.next()}, rng.next()};
  ref.exchange.counter = rng.next();
  ref.fragment.value = static_cast<std::uint16_t>(rng.next());
  ref.stripe = static_cast<std::uint32_t>(rng.next());
  ref.attempt = static_cast<std::uint8_t>(rng.next());
  return ref;
}

CheckpointImage sample_image(std::uint64_t seed) {
  Rng rng(seed);
  CheckpointImage image(37, true);
  for (auto* values : {&image.weights, &image.first_moment, &image.second_moment, &image.slow,
                       &image.momentum, &image.scales}) {
    values->resize(37);
    for (float& value : *values) value = rng.normal();
  }
  image.data = {.space = 6, .drawn = 70, .open = {}, .passes = {1, 0, 3}, .own_passes = {1, 0, 2}};
  REQUIRE(image.data.open.try_push({.part = 2, .passes = 3, .read = 11}));
  image.progress = {
      .steps = 5, .tokens = 1000, .batches = 5, .steps_at_join = 2, .clock = 1e9, .inherited = 77};
  image.ledger = {{sample_ref(rng), gossip::Role::kInitiator},
                  {sample_ref(rng), gossip::Role::kResponder}};
  for (const std::size_t bytes : {0, 9}) {
    UnsettledDelta delta;
    delta.ref = sample_ref(rng);
    delta.terms = {.mixing = 0.25F, .initiator_weight = 0, .responder_weight = 1, .clip_radius = 2};
    delta.payload.assign(bytes, std::byte{7});
    image.unsettled.push_back(std::move(delta));
  }
  image.tokens = {{{PeerId{8}, 9}, 10, 11.5F, gossip::stand_in_key(PeerId{8}), {1, 2, 3}}};
  return image;
}

CheckpointImage empty_like(const CheckpointImage& image) {
  CheckpointImage empty(0, false);
  empty.weights.resize(image.weights.size());
  empty.first_moment.resize(image.weights.size());
  empty.second_moment.resize(image.weights.size());
  empty.slow.resize(image.slow.size());
  empty.momentum.resize(image.slow.size());
  return empty;
}

std::vector<std::byte> encoded(const CheckpointImage& image) {
  const SectionList list = sections_of(image, "[run]\n");
  CheckpointEncoder encoder({}, list.sections);
  std::vector<std::byte> bytes;
  while (true) {
    const auto part = encoder.next(1 << 20).value();
    if (part.empty()) return bytes;
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
}

}  // namespace

TEST_CASE("an image comes back from a checkpoint as it was") {
  const CheckpointImage image = sample_image(1);
  const auto bytes = encoded(image);
  auto file = CheckpointFile::open(memory_source(bytes));
  REQUIRE(file.ok());
  CheckpointImage back = empty_like(image);
  REQUIRE(restore(file.value(), back).ok());
  CHECK(back.weights == image.weights);
  CHECK(back.first_moment == image.first_moment);
  CHECK(back.second_moment == image.second_moment);
  CHECK(back.slow == image.slow);
  CHECK(back.momentum == image.momentum);
  CHECK(back.scales == image.scales);
  CHECK(encode(back.progress) == encode(image.progress));
  CHECK(back.data == image.data);
  CHECK(back.ledger == image.ledger);
  CHECK(back.tokens == image.tokens);
  REQUIRE(back.unsettled.size() == 2);
  CHECK(encode(std::span<const UnsettledDelta>(back.unsettled)) ==
        encode(std::span<const UnsettledDelta>(image.unsettled)));
  CHECK(back.unsettled[1].payload.size() == 9);
  CHECK(back.unsettled[0].terms.mixing == 0.25F);
  auto config = read_config(file.value());
  REQUIRE(config.ok());
  CHECK(config.value() == "[run]\n");
}

TEST_CASE("an image without outer steps has no slow weights in its checkpoint") {
  CheckpointImage image = sample_image(2);
  image.slow.clear();
  image.momentum.clear();
  const auto bytes = encoded(image);
  auto file = CheckpointFile::open(memory_source(bytes));
  REQUIRE(file.ok());
  CHECK(!file.value().section_bytes("slow").has_value());
  CheckpointImage back = empty_like(image);
  CHECK(restore(file.value(), back).ok());
}

TEST_CASE("restoring into a model of another size is refused and names the section") {
  const auto bytes = encoded(sample_image(3));
  auto file = CheckpointFile::open(memory_source(bytes));
  REQUIRE(file.ok());
  CheckpointImage back = empty_like(sample_image(3));
  back.weights.resize(36);
  auto restored = restore(file.value(), back);
  REQUIRE(!restored.ok());
  CHECK(restored.error().code() == ErrorCode::kIncompatible);
  CHECK(restored.error().message().find("'weights'") != std::string::npos);
}

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
}

}  // namespace starling::peer
