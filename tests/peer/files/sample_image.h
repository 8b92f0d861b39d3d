// A CheckpointImage with something in every part of it.
#pragma once

#include <doctest/doctest.h>

#include "base/rng.h"
#include "peer/files/checkpoint_image.h"

namespace starling::peer {

inline gossip::StripeRef sample_ref(Rng& rng) {
  gossip::StripeRef ref;
  ref.exchange.initiator = {PeerId{rng.next()}, rng.next()};
  ref.exchange.responder = {PeerId{rng.next()}, rng.next()};
  ref.exchange.counter = rng.next();
  ref.fragment.value = static_cast<std::uint16_t>(rng.next());
  ref.stripe = static_cast<std::uint32_t>(rng.next());
  ref.attempt = static_cast<std::uint8_t>(rng.next());
  return ref;
}

inline CheckpointImage sample_image(std::uint64_t seed) {
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
  image.age = {.written = 1.75e9, .missed = 12.5};
  return image;
}

}  // namespace starling::peer
