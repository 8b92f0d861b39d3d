// What a mixer does with payloads in any format that are bad, come twice or come late: of each kind
// is shown that no weight changed that should not, and no slot is kept.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "optim/block_scales.h"
#include "optim/lattice.h"
#include "tests/peer/roles/lone_mixer.h"

namespace starling::peer {

namespace {

using gossip::RejectReason;
using gossip::StripeRef;
using optim::WireFormat;
using testing::LoneMixer;

using Payload = std::vector<std::byte>;

constexpr float kApart = 0.01F;  // the partner's weights
constexpr PeerId kPartner{2}, kSelf{1};

// One that has exchanged the stripe once, or its modular codes would know no scale.
struct Bench : LoneMixer {
  Bench() {
    const StripeRef ref{{{kPartner, 1}, {kSelf, 1}, 1'000'000}, FragmentId{0}, 0, 0};
    const gossip::StageDelta order{ref, {}, static_cast<std::uint8_t>(WireFormat::kF32)};
    REQUIRE(perform<Staged>(order, push_of(WireFormat::kF32, ref, theirs()))->verdict.done());
    REQUIRE(perform<Applied>(gossip::ApplyStaged{ref})->verdict.done());
    pass_rounds(1);
    before = slow();
  }

  std::vector<float> before;  // the slow weights then

  std::size_t count() const { return stripes[0].range.count; }
  std::vector<float> slow() const { return {mixer.slow().begin(), mixer.slow().end()}; }

  // The answer of that kind to an order; nothing: there is none.
  template <class Answer>
  std::optional<Answer> perform(const gossip::MixerOrder& order, const Payload& payload = {}) {
    REQUIRE(rings.network_to_mixer.try_push(OrderParcel{order, Bytes::copy_of(payload)}));
    std::optional<Answer> answer;
    do {
      while (auto parcel = rings.mixer_to_network.try_pop()) {
        if (auto* found = std::get_if<Answer>(&*parcel)) answer = std::move(*found);
      }
      while (rings.mixer_to_trainer.try_pop()) {
        REQUIRE(rings.trainer_to_mixer.try_push(CorrectionApplied{0}));
      }
    } while (mixer.pump());
    return answer;
  }

  // Outer steps in which nothing was trained.
  void pass_rounds(std::uint64_t rounds) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      auto slot = floats.try_acquire();
      REQUIRE(slot);
      std::copy_n(mixer.slow().begin(), count(), slot->floats().begin());
      REQUIRE(rings.trainer_to_mixer.try_push(Snapshot{0, true, std::move(*slot)}));
      while (mixer.pump()) continue;
      while (rings.mixer_to_network.try_pop()) continue;
      REQUIRE(rings.mixer_to_trainer.try_pop());
      REQUIRE(rings.trainer_to_mixer.try_push(CorrectionApplied{0}));
      while (mixer.pump()) continue;
    }
  }

  Payload push_of(WireFormat format, const StripeRef& ref, const std::vector<float>& theirs) const {
    constexpr std::int8_t kStep = 4 * -9;  // 2^-9
    const std::vector<std::int8_t> exponents(optim::block_count(theirs.size()), kStep);
    Payload push(optim::push_bytes(format, theirs.size()));
    REQUIRE(optim::encode_push(format, gossip::dither_key(ref), theirs, exponents, push).ok());
    return push;
  }
  std::vector<float> theirs() const {
    std::vector<float> values(mixer.slow().begin(), mixer.slow().begin() + std::ptrdiff_t(count()));
    for (float& value : values) value += kApart;
    return values;
  }

  // What a partner with `theirs` answers to this mixer's push of `ref`.
  Payload delta_of(WireFormat format, const StripeRef& ref) {
    auto encoded = perform<Encoded>(gossip::EncodeStripe{ref, static_cast<std::uint8_t>(format)});
    REQUIRE(encoded);
    REQUIRE(encoded->verdict.done());
    const auto push = encoded->slot->bytes().first(encoded->payload_bytes);
    Payload delta(optim::delta_bytes(format, count()));
    REQUIRE(optim::make_delta(gossip::dither_key(ref), push, theirs(), 0, delta).ok());
    return delta;
  }
  bool keeps_no_slot() const { return floats.free_count() == 4 && payloads.free_count() == 4; }
};

StripeRef begun_there(std::uint64_t counter) {
  return {{{kPartner, 1}, {kSelf, 1}, counter}, FragmentId{0}, 0, 0};
}
StripeRef begun_here(std::uint64_t counter) {
  return {{{kSelf, 1}, {kPartner, 1}, counter}, FragmentId{0}, 0, 0};
}
gossip::StageDelta stage(const StripeRef& ref, WireFormat format) {
  return {ref, {}, static_cast<std::uint8_t>(format)};
}
gossip::ApplyDelta apply(const StripeRef& ref, WireFormat format) {
  return {ref, {}, static_cast<std::uint8_t>(format)};
}

struct Kind {
  std::string name;
  RejectReason reason;
  void (*spoil)(Payload&);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {"nothing", RejectReason::kMalformed, [](Payload& payload) { payload.clear(); }},
      {"cut", RejectReason::kMalformed, [](Payload& payload) { payload.pop_back(); }},
      {"too long", RejectReason::kMalformed,
       [](Payload& payload) { payload.push_back(std::byte{0}); }},
      {"an unknown version", RejectReason::kMalformed,
       [](Payload& payload) { payload[1] = std::byte{200}; }},
      {"an unknown format", RejectReason::kMalformed,
       [](Payload& payload) { payload[0] = std::byte{250}; }},
      {"of another stripe", RejectReason::kMalformed,
       [](Payload& payload) { payload[4] ^= std::byte{1}; }},
      {"clipped to nothing that there is", RejectReason::kMalformed,
       [](Payload& payload) {
         const float factor = std::nanf("");
         std::memcpy(payload.data() + 8, &factor, sizeof(factor));
       }},
  };
  return kKinds;
}

}  // namespace

TEST_CASE("a sound stripe moves the weights by half, on either side, in any format") {
  for (const WireFormat format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    Bench bench;
    const StripeRef theirs = begun_there(1), ours = begun_here(1);
    const Payload push = bench.push_of(format, theirs, bench.theirs());
    REQUIRE(bench.perform<Staged>(stage(theirs, format), push)->verdict.done());
    CHECK(bench.slow() == bench.before);  // not before the commit
    REQUIRE(bench.perform<Applied>(gossip::ApplyStaged{theirs})->verdict.done());
    const float once = bench.mixer.slow()[0] - bench.before[0];
    CHECK(once > 0.25F * kApart);  // half, but for what the format rounds
    CHECK(once < 0.75F * kApart);
    bench.pass_rounds(1);
    const Payload delta = bench.delta_of(format, ours);
    REQUIRE(bench.perform<Applied>(apply(ours, format), delta)->verdict.done());
    const float twice = bench.mixer.slow()[0] - bench.before[0];
    CHECK(twice - once > 0.25F * kApart);
    CHECK(twice - once < 0.75F * kApart);
  }
}

TEST_CASE("a bad payload in any format changes no weight and keeps no slot") {
  for (const WireFormat format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    Bench bench;
    std::uint64_t counter = 0, refused = 0;
    for (const Kind& kind : kinds()) {
      CAPTURE(kind.name);
      const StripeRef theirs = begun_there(++counter), ours = begun_here(counter);
      Payload push = bench.push_of(format, theirs, bench.theirs());
      kind.spoil(push);
      const auto staged = bench.perform<Staged>(stage(theirs, format), push);
      REQUIRE(staged);
      CHECK(staged->verdict.reason == kind.reason);
      Payload delta = bench.delta_of(format, ours);
      kind.spoil(delta);
      const auto applied = bench.perform<Applied>(apply(ours, format), delta);
      REQUIRE(applied);
      CHECK(applied->verdict.reason == kind.reason);
      refused += 2;
      CHECK(bench.metrics.payloads_refused.value() == refused);
      CHECK(bench.slow() == bench.before);
      CHECK(bench.keeps_no_slot());
    }
  }
}

TEST_CASE("a stripe that is staged or committed again moves the weights once") {
  Bench bench;
  const StripeRef ref = begun_there(1);
  const Payload push = bench.push_of(WireFormat::kMod8, ref, bench.theirs());
  REQUIRE(bench.perform<Staged>(stage(ref, WireFormat::kMod8), push)->verdict.done());
  const auto again = bench.perform<Staged>(stage(ref, WireFormat::kMod8), push);
  CHECK(again->verdict.reason == RejectReason::kRepeated);
  CHECK(bench.metrics.payloads_refused.value() == 1);
  REQUIRE(bench.perform<Applied>(gossip::ApplyStaged{ref})->verdict.done());
  const std::vector<float> once = bench.slow();
  CHECK(once != bench.before);
  bench.pass_rounds(1);
  static_cast<void>(bench.perform<Staged>(stage(ref, WireFormat::kMod8), push));
  CHECK(bench.perform<Applied>(gossip::ApplyStaged{ref})->verdict.done());  // it is in the ledger
  CHECK(bench.slow() == once);
  bench.pass_rounds(1);
  CHECK(bench.keeps_no_slot());
}

TEST_CASE("an answer that comes again moves the weights once, also after a restart") {
  Bench bench;
  const StripeRef ref = begun_here(1);
  const Payload delta = bench.delta_of(WireFormat::kMod8, ref);
  REQUIRE(bench.perform<Applied>(apply(ref, WireFormat::kMod8), delta)->verdict.done());
  const std::vector<float> once = bench.slow();
  CHECK(once != bench.before);
  CHECK(bench.perform<Applied>(apply(ref, WireFormat::kMod8), delta)->verdict.done());
  CHECK(bench.slow() == once);

  CheckpointImage image(bench.layout.elements(), true);
  image.slow = once;
  image.ledger = bench.mixer.ledger_rows();
  Bench later;
  later.mixer.restore(image);
  const Payload sent_again = later.delta_of(WireFormat::kMod8, ref);
  const auto applied = later.perform<Applied>(apply(ref, WireFormat::kMod8), sent_again);
  CHECK(applied->verdict.reason == RejectReason::kRepeated);
  CHECK(later.slow() == once);
  CHECK(later.keeps_no_slot());
}

TEST_CASE("weights that were fetched begin without the scales of those before them") {
  Bench bench;
  auto saved = std::make_unique<CheckpointImage>(bench.layout.elements(), true);
  REQUIRE(bench.rings.trainer_to_mixer.try_push(std::move(saved)));
  while (bench.mixer.pump()) continue;
  std::unique_ptr<CheckpointImage> image;
  while (auto parcel = bench.rings.mixer_to_network.try_pop()) {
    if (auto* found = std::get_if<std::unique_ptr<CheckpointImage>>(&*parcel)) {
      image = std::move(*found);
    }
  }
  REQUIRE(image);
  const auto radius = [&] {  // of the fragment whose first stripe was exchanged
    bench.mixer.restore(*image);
    float found = -1;
    do {
      while (auto parcel = bench.rings.mixer_to_network.try_pop()) {
        const auto* news = std::get_if<FragmentPublished>(&*parcel);
        if (news != nullptr && news->fragment == FragmentId{0}) found = news->state.clip_radius;
      }
    } while (bench.mixer.pump());
    return found;
  };
  CHECK(radius() > 0);
  image->scales.clear();
  CHECK(radius() == 0);
}

TEST_CASE("an answer that many outer steps have overtaken, or that nobody asked for, is too old") {
  Bench bench;
  const StripeRef ref = begun_here(1);
  const Payload delta = bench.delta_of(WireFormat::kMod8, ref);
  bench.pass_rounds(kRoundsLateMax + 1);
  for (const StripeRef& late : {ref, begun_here(7)}) {
    const auto applied = bench.perform<Applied>(apply(late, WireFormat::kMod8), delta);
    CHECK(applied->verdict.reason == RejectReason::kTooOld);
    CHECK(bench.slow() == bench.before);
    CHECK(bench.keeps_no_slot());
  }
  const Payload fresh = bench.delta_of(WireFormat::kMod8, ref);
  bench.pass_rounds(kRoundsLateMax);
  CHECK(bench.perform<Applied>(apply(ref, WireFormat::kMod8), fresh)->verdict.done());
}

TEST_CASE("a block whose difference wrapped around stays, the others move, and it is counted") {
  for (const WireFormat format :
       {WireFormat::kMod8, WireFormat::kMod6, WireFormat::kMod5, WireFormat::kMod4}) {
    CAPTURE(optim::to_string(format));
    Bench bench;
    REQUIRE(optim::block_count(bench.count()) > 1);
    std::vector<float> theirs = bench.theirs();
    std::fill_n(theirs.begin(), optim::kBlockParameters, 5.0F);  // thousands of steps away
    const StripeRef ref = begun_there(1);
    const Payload push = bench.push_of(format, ref, theirs);
    REQUIRE(bench.perform<Staged>(stage(ref, format), push)->verdict.done());
    REQUIRE(bench.perform<Applied>(gossip::ApplyStaged{ref})->verdict.done());
    CHECK(bench.mixer.slow()[0] == bench.before[0]);
    CHECK(bench.mixer.slow()[optim::kBlockParameters] > bench.before[optim::kBlockParameters]);
    CHECK(bench.metrics.blocks_skipped.value() == 1);
  }
}

TEST_CASE(
    "codes that wrap in every attempt are learned from once, and never reach beyond the weights") {
  Bench bench;
  const std::size_t blocks = optim::block_count(bench.count());
  const auto largest_exponent = [&] {
    auto encoded = bench.perform<Encoded>(
        gossip::EncodeStripe{begun_here(1), static_cast<std::uint8_t>(WireFormat::kMod8)});
    REQUIRE(encoded);
    // Behind the header and the checksums.
    const std::byte* exponents =
        encoded->slot->bytes().data() + optim::kPayloadHeaderBytes + blocks * sizeof(std::uint32_t);
    int largest = -127;
    for (std::size_t b = 0; b < blocks; ++b) {
      largest = std::max(largest, int{static_cast<std::int8_t>(exponents[b])});
    }
    return largest;
  };
  const int before = largest_exponent();
  StripeRef ref = begun_there(1);
  const auto push_with = [&](int exponent) {
    const std::vector<std::int8_t> exponents(blocks, static_cast<std::int8_t>(exponent));
    Payload push(optim::push_bytes(WireFormat::kMod8, bench.count()));
    REQUIRE(optim::encode_push(WireFormat::kMod8, gossip::dither_key(ref), bench.theirs(),
                               exponents, push)
                .ok());
    for (std::size_t b = 0; b < blocks; ++b) {
      push[optim::kPayloadHeaderBytes + b * sizeof(std::uint32_t)] ^= std::byte{1};
    }
    return push;
  };
  const auto seen = bench.metrics.blocks_seen.value();
  for (std::uint8_t attempt = 0; attempt < 16; ++attempt) {
    ref.attempt = attempt;
    REQUIRE(bench.perform<Staged>(stage(ref, WireFormat::kMod8), push_with(127))->verdict.done());
    bench.perform<Staged>(gossip::DropStaged{ref});
  }
  CHECK(bench.metrics.blocks_seen.value() == seen + blocks);
  CHECK(largest_exponent() <= before + 16);  // sixteen times
  for (std::uint64_t counter = 2; counter < 60; ++counter) {
    ref = begun_there(counter);
    REQUIRE(bench.perform<Staged>(stage(ref, WireFormat::kMod8), push_with(127))->verdict.done());
    bench.perform<Staged>(gossip::DropStaged{ref});
  }
  const double most = optim::BlockScales::kReachOfWeights *
                      std::abs(*std::max_element(bench.before.begin(), bench.before.end()));
  CHECK(optim::lattice_step(largest_exponent()) * 127 <= 1.2 * 3 * 1.25 * most);
}

TEST_CASE("orders of a stripe that there is not change nothing") {
  Bench bench;
  StripeRef ref = begun_there(1);
  const Payload push = bench.push_of(WireFormat::kF32, ref, bench.theirs());
  ref.stripe = 1000;
  CHECK(bench.perform<Staged>(stage(ref, WireFormat::kF32), push)->verdict.reason ==
        RejectReason::kWrongName);
  CHECK(bench.perform<Applied>(apply(ref, WireFormat::kF32), push)->verdict.reason ==
        RejectReason::kWrongName);
  CHECK(bench.slow() == bench.before);
  CHECK(bench.keeps_no_slot());
}

}  // namespace starling::peer
