// MixerBench: a lone mixer that has begun one exchange of its first stripe, or its modular codes
// would know no scale; and what a partner would push to it, or answer. One thread.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "tests/peer/roles/lone_mixer.h"

namespace starling::testing {

inline gossip::StripeRef begun_there(std::uint64_t counter, PeerId partner = PeerId{2}) {
  return {{{partner, 1}, {PeerId{1}, 1}, counter}, FragmentId{0}, 0, 0};
}
inline gossip::StripeRef begun_here(std::uint64_t counter, PeerId partner = PeerId{2}) {
  return {{{PeerId{1}, 1}, {partner, 1}, counter}, FragmentId{0}, 0, 0};
}
inline gossip::StageDelta stage(const gossip::StripeRef& ref, optim::WireFormat format) {
  return {ref, {}, static_cast<std::uint8_t>(format)};
}
inline gossip::ApplyDelta apply(const gossip::StripeRef& ref, optim::WireFormat format) {
  return {ref, {}, static_cast<std::uint8_t>(format)};
}

struct MixerBench : LoneMixer {
  using Payload = std::vector<std::byte>;
  static constexpr float kApart = 0.01F;              // the partner's weights
  static constexpr std::uint64_t kFirst = 1'000'000;  // its exchange

  explicit MixerBench(const PumpedOptions& with = small_swarm(15)) : LoneMixer(with) {
    const gossip::StripeRef ref = begun_here(kFirst);
    const Payload delta = delta_of(optim::WireFormat::kF32, ref);
    REQUIRE(perform<peer::Applied>(apply(ref, optim::WireFormat::kF32), delta)->verdict.done());
    pass_rounds(1);
    before = slow();
  }

  std::vector<float> before;  // the slow weights then

  std::size_t count() const { return stripes[0].range.count; }
  std::vector<float> slow() const { return {mixer.slow().begin(), mixer.slow().end()}; }

  // Outer steps in which nothing was trained.
  void pass_rounds(std::uint64_t rounds) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      auto slot = floats.try_acquire();
      REQUIRE(slot);
      std::copy_n(mixer.slow().begin(), count(), slot->floats().begin());
      REQUIRE(rings.trainer_to_mixer.try_push(peer::Snapshot{0, true, std::move(*slot)}));
      while (mixer.pump()) continue;
      while (rings.mixer_to_network.try_pop()) continue;
      REQUIRE(rings.mixer_to_trainer.try_pop());
      REQUIRE(rings.trainer_to_mixer.try_push(peer::CorrectionApplied{0}));
      while (mixer.pump()) continue;
    }
  }

  Payload push_of(optim::WireFormat format, const gossip::StripeRef& ref,
                  const std::vector<float>& theirs) const {
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
  Payload delta_of(optim::WireFormat format, const gossip::StripeRef& ref) {
    auto encoded =
        perform<peer::Encoded>(gossip::EncodeStripe{ref, static_cast<std::uint8_t>(format)});
    REQUIRE(encoded);
    REQUIRE(encoded->verdict.done());
    const auto push = encoded->slot->bytes().first(encoded->payload_bytes);
    Payload delta(optim::delta_bytes(format, count()));
    REQUIRE(optim::make_delta(gossip::dither_key(ref), push, theirs(), 0, delta).ok());
    return delta;
  }
  // What a checkpoint has of the mixer at this moment.
  std::unique_ptr<peer::CheckpointImage> image() {
    auto blank = std::make_unique<peer::CheckpointImage>(layout.elements(), true);
    REQUIRE(rings.trainer_to_mixer.try_push(std::move(blank)));
    while (mixer.pump()) continue;
    std::unique_ptr<peer::CheckpointImage> saved;
    while (auto parcel = rings.mixer_to_network.try_pop()) {
      if (auto* found = std::get_if<std::unique_ptr<peer::CheckpointImage>>(&*parcel)) {
        saved = std::move(*found);
      }
    }
    REQUIRE(saved);
    return saved;
  }
  bool keeps_no_slot() const { return floats.free_count() == 4 && payloads.free_count() == 4; }
};

}  // namespace starling::testing
