// What a mixer learns of how far its partners are, by exchanges that it began; and that whoever
// comes by itself cannot teach it anything.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "optim/block_scales.h"
#include "tests/peer/roles/mixer_bench.h"

namespace starling::peer {

namespace {

using gossip::FragmentState;
using gossip::StripeRef;
using optim::WireFormat;
using testing::begun_there;
using testing::LoneMixer;
using testing::MixerBench;
using testing::stage;

using Payload = std::vector<std::byte>;

// A lone mixer of a model whose first fragment has several stripes.
testing::PumpedOptions large_vocabulary() {
  testing::PumpedOptions options = testing::small_swarm(15);
  options.trainer.model.vocabulary = 40'000;
  return options;
}

// After an outer step of the stripe in which nothing was trained: what the mixer says of its
// fragment.
FragmentState state_of(LoneMixer& lone, std::uint32_t stripe) {
  const model::Range range = lone.stripes[stripe].range;
  auto slot = lone.floats.try_acquire();
  REQUIRE(slot);
  std::copy_n(lone.mixer.slow().begin() + std::ptrdiff_t(range.first), range.count,
              slot->floats().begin());
  REQUIRE(lone.rings.trainer_to_mixer.try_push(Snapshot{stripe, true, std::move(*slot)}));
  while (lone.mixer.pump()) continue;
  REQUIRE(lone.rings.mixer_to_trainer.try_pop());
  REQUIRE(lone.rings.trainer_to_mixer.try_push(CorrectionApplied{stripe}));
  FragmentState state;
  do {
    while (auto parcel = lone.rings.mixer_to_network.try_pop()) {
      const auto* news = std::get_if<FragmentPublished>(&*parcel);
      if (news != nullptr) state = news->state;
    }
  } while (lone.mixer.pump());
  return state;
}

std::vector<float> weights_and(LoneMixer& lone, std::uint32_t stripe, float more) {
  const model::Range range = lone.stripes[stripe].range;
  const auto slow = lone.mixer.slow().subspan(range.first, range.count);
  std::vector<float> theirs(slow.begin(), slow.end());
  for (float& value : theirs) value += more;
  return theirs;
}

// An exchange that the mixer begins with `partner`, whose weights are its own and so much more.
FragmentState state_after_asking(LoneMixer& lone, PeerId partner, std::uint64_t counter,
                                 std::uint32_t stripe, float more, std::uint8_t attempt = 0,
                                 WireFormat format = WireFormat::kF32) {
  StripeRef ref = testing::begun_here(counter, partner);
  ref.stripe = stripe;
  ref.attempt = attempt;
  auto encoded =
      lone.perform<Encoded>(gossip::EncodeStripe{ref, static_cast<std::uint8_t>(format)});
  REQUIRE(encoded);
  const auto push = encoded->slot->bytes().first(encoded->payload_bytes);
  const std::vector<float> theirs = weights_and(lone, stripe, more);
  Payload delta(optim::delta_bytes(format, theirs.size()));
  REQUIRE(optim::make_delta(gossip::dither_key(ref), push, theirs, 0, delta).ok());
  encoded.reset();
  REQUIRE(lone.perform<Applied>(testing::apply(ref, format), delta)->verdict.done());
  return state_of(lone, stripe);
}

float radius_after_asking(LoneMixer& lone, PeerId partner, std::uint64_t counter, float more) {
  return state_after_asking(lone, partner, counter, 0, more).clip_radius;
}

// An exchange of the first stripe that `partner` begins. A radius of 0 clips nothing.
FragmentState state_after_coming(LoneMixer& lone, PeerId partner, std::uint64_t counter, float more,
                                 float clip_radius = 0) {
  const StripeRef ref = begun_there(counter, partner);
  const auto format = WireFormat::kF32;
  const std::vector<float> theirs = weights_and(lone, 0, more);
  Payload push(optim::push_bytes(format, theirs.size()));
  REQUIRE(optim::encode_push(format, gossip::dither_key(ref), theirs, {}, push).ok());
  gossip::StageDelta order = stage(ref, format);
  order.terms.clip_radius = clip_radius;
  REQUIRE(lone.perform<Staged>(order, push)->verdict.done());
  lone.perform<Staged>(gossip::DropStaged{ref});
  return state_of(lone, 0);
}

constexpr float kUsual = 0.01F;

// Five rounds with each of three honest partners; the radius after them.
float meet_honest(LoneMixer& lone, std::uint64_t& counter) {
  float radius = 0;
  for (int round = 0; round < 5; ++round) {
    for (std::uint64_t id = 2; id <= 4; ++id) {
      radius = radius_after_asking(lone, PeerId{id}, ++counter, kUsual);
    }
  }
  return radius;
}

int largest_exponent(MixerBench& bench) {
  auto encoded = bench.perform<Encoded>(
      gossip::EncodeStripe{testing::begun_here(77), static_cast<std::uint8_t>(WireFormat::kMod8)});
  REQUIRE(encoded);
  const std::size_t blocks = optim::block_count(bench.count());
  // Behind the header and the checksums.
  const std::byte* exponents =
      encoded->slot->bytes().data() + optim::kPayloadHeaderBytes + blocks * sizeof(std::uint32_t);
  int largest = -127;
  for (std::size_t b = 0; b < blocks; ++b) {
    largest = std::max(largest, int{static_cast<std::int8_t>(exponents[b])});
  }
  return largest;
}

}  // namespace

TEST_CASE("one far-out partner does not widen the clip radius without end") {
  for (const bool asked : {true, false}) {
    CAPTURE(asked);
    LoneMixer lone;
    std::uint64_t counter = 0;
    const float honest = meet_honest(lone, counter);
    CHECK(honest == doctest::Approx(4 * kUsual));
    float widened = 0;
    for (int push = 0; push < 20; ++push) {
      const float radius = asked
                               ? radius_after_asking(lone, PeerId{99}, ++counter, 5.0F)
                               : state_after_coming(lone, PeerId{99}, ++counter, 5.0F).clip_radius;
      widened = std::max(widened, radius);
    }
    CHECK(widened > honest);  // whoever has fallen behind is let through
    CHECK(widened <= 1.01 * optim::UsualDifference::kSpread * honest);
  }
}

TEST_CASE("whoever comes and says that it hardly differs leaves the clip radius as it was") {
  LoneMixer lone;
  std::uint64_t counter = 0;
  const float honest = meet_honest(lone, counter);
  for (int push = 0; push < 300; ++push) {
    const bool equal = push < 200;  // or clips all that there is
    const FragmentState state =
        state_after_coming(lone, PeerId{99}, ++counter, equal ? 0 : 1, equal ? 0 : 1e-44F);
    if (equal) REQUIRE(state.clip_radius == honest);
    REQUIRE(state.clip_radius >= honest);
    REQUIRE_FALSE(state.cold);
  }
  // Nor one of four that are asked.
  for (int round = 0; round < 50; ++round) {
    const auto id = 2 + static_cast<std::uint64_t>(round) % 3;
    CHECK(radius_after_asking(lone, PeerId{99}, ++counter, 0) >= honest / 4.01F);
    CHECK(radius_after_asking(lone, PeerId{id}, ++counter, kUsual) >= honest / 4.01F);
  }
}

TEST_CASE("an exchange is learned from once, however many attempts its partner makes of it") {
  LoneMixer lone;
  std::uint64_t counter = 0;
  meet_honest(lone, counter);
  ++counter;
  const float once = state_after_asking(lone, PeerId{99}, counter, 0, 5.0F).clip_radius;
  for (std::uint8_t attempt = 1; attempt < gossip::kAttemptsMax; ++attempt) {
    CHECK(state_after_asking(lone, PeerId{99}, counter, 0, 0.0F, attempt).clip_radius == once);
  }
}

TEST_CASE("several that come ever again do not say what is usual") {
  LoneMixer lone;
  std::uint64_t counter = 0;
  const float honest = meet_honest(lone, counter);
  float widened = 0;
  for (int push = 0; push < 100; ++push) {
    const auto liar = 90 + static_cast<std::uint64_t>(push) % 8;
    widened =
        std::max(widened, state_after_coming(lone, PeerId{liar}, ++counter, 5.0F).clip_radius);
  }
  CHECK(widened <= 1.01 * optim::UsualDifference::kSpread * honest);
}

TEST_CASE("codes that wrap, in pushes of another, leave the steps of this peer's own") {
  MixerBench bench;
  const std::size_t blocks = optim::block_count(bench.count());
  const int before = largest_exponent(bench);
  for (std::uint64_t counter = 1; counter < 60; ++counter) {
    const StripeRef ref = begun_there(counter);
    const std::vector<std::int8_t> exponents(blocks, 127);
    Payload push(optim::push_bytes(WireFormat::kMod8, bench.count()));
    REQUIRE(optim::encode_push(WireFormat::kMod8, gossip::dither_key(ref), bench.theirs(),
                               exponents, push)
                .ok());
    for (std::size_t b = 0; b < blocks; ++b) {  // a checksum of other codes
      push[optim::kPayloadHeaderBytes + b * sizeof(std::uint32_t)] ^= std::byte{1};
    }
    REQUIRE(bench.perform<Staged>(stage(ref, WireFormat::kMod8), push)->verdict.done());
    bench.perform<Staged>(gossip::DropStaged{ref});
  }
  CHECK(bench.metrics.blocks_skipped.value() > 0);
  CHECK(largest_exponent(bench) == before);
}

// In codes that reach less far than all of the partner's weights differ.
FragmentState state_after_wrapping(LoneMixer& lone, std::uint64_t counter, std::uint32_t stripe) {
  return state_after_asking(lone, PeerId{2}, counter, stripe, 0.05F, 0, WireFormat::kMod8);
}

TEST_CASE("a fragment goes in floats once more where codes were too short for most of it") {
  LoneMixer lone(large_vocabulary());
  const std::uint32_t stripes = lone.stripes.count_of(FragmentId{0});
  REQUIRE(stripes > 2);
  std::uint64_t counter = 0;
  for (std::uint32_t stripe = 0; stripe < stripes; ++stripe) {
    state_after_asking(lone, PeerId{2}, ++counter, stripe, 1e-4F);
  }
  CHECK_FALSE(state_of(lone, 0).cold);
  CHECK_FALSE(state_after_wrapping(lone, ++counter, 0).cold);
  for (std::uint32_t stripe = 1; stripe + 1 < stripes; ++stripe) {
    state_after_wrapping(lone, ++counter, stripe);
  }
  CHECK(state_after_wrapping(lone, ++counter, stripes - 1).cold);
  for (std::uint32_t stripe = 0; stripe + 1 < stripes; ++stripe) {
    state_after_asking(lone, PeerId{2}, ++counter, stripe, 0.05F);
  }
  CHECK_FALSE(state_after_asking(lone, PeerId{2}, ++counter, stripes - 1, 0.05F).cold);
}

TEST_CASE("a restart keeps what was usual, not what one far-out partner made of it") {
  LoneMixer lone;
  std::uint64_t counter = 0;
  const float honest = meet_honest(lone, counter);
  for (int push = 0; push < 20; ++push) {
    radius_after_asking(lone, PeerId{99}, ++counter, 5.0F);
  }
  auto image = std::make_unique<CheckpointImage>(lone.layout.elements(), true);
  REQUIRE(lone.rings.trainer_to_mixer.try_push(std::move(image)));
  while (lone.mixer.pump()) continue;
  while (auto parcel = lone.rings.mixer_to_network.try_pop()) {
    if (auto* found = std::get_if<std::unique_ptr<CheckpointImage>>(&*parcel)) {
      image = std::move(*found);
    }
  }
  REQUIRE(image);
  lone.mixer.restore(*image);
  const float restored = state_of(lone, 0).clip_radius;
  CHECK(restored <= 1.01 * optim::UsualDifference::kSpread * honest);
}

TEST_CASE("a stripe that never differs leaves the others of its fragment their clip radius") {
  LoneMixer lone(large_vocabulary());
  REQUIRE(lone.stripes.count_of(FragmentId{0}) > 1);
  float radius = 0;
  for (std::uint64_t counter = 1; counter <= 5; ++counter) {
    radius = radius_after_asking(lone, PeerId{2}, counter, kUsual);  // of the first alone
  }
  CHECK(radius == doctest::Approx(4 * kUsual));
}

// Ids that no text has, of a model with a head of its own.
TEST_CASE("a stripe that never differs costs its fragment no more bits") {
  LoneMixer lone(large_vocabulary());
  REQUIRE(lone.stripes.count_of(FragmentId{0}) > 1);
  std::uint64_t counter = 0;
  for (std::uint32_t stripe = 0; stripe < lone.stripes.count_of(FragmentId{0}); ++stripe) {
    // At the last: how far do any of them differ?
    CHECK(state_after_asking(lone, PeerId{2}, ++counter, stripe, 0.0F).cold);
  }
  CHECK_FALSE(state_after_asking(lone, PeerId{2}, ++counter, 0, kUsual).cold);
}

}  // namespace starling::peer
