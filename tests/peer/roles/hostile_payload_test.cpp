// Whole peers against one that sends bad payloads: of each kind is shown that not one bit of the
// victim's weights changed, no slot or lease is kept, it is counted under its name, the operator is
// told, and the sender is muted. Then what happens to a peer whose own weights are not finite.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "optim/fragment_codec.h"
#include "tests/peer/roles/lone_mixer.h"
#include "tests/support/pumped_swarm.h"

namespace starling::peer {

namespace {

using gossip::RejectReason;
using testing::LoneMixer;
using testing::PumpedOptions;
using testing::PumpedSwarm;
using testing::small_swarm;

using Payload = std::vector<std::byte>;

constexpr std::uint32_t kVictim = 0;
constexpr std::uint32_t kEvil = 1;

// No training: only gossip moves the weights. Weights travel as they are.
PumpedOptions only_gossip(std::uint64_t seed) {
  PumpedOptions options = small_swarm(seed);
  options.peers = 2;
  options.steps = 100;
  options.trainer.schedule.peak = 0;
  options.different_starts = true;
  options.gossip.format = static_cast<std::uint8_t>(optim::WireFormat::kF32);
  options.gossip.cold_format = options.gossip.format;
  return options;
}

void set_value(Payload& payload, std::size_t index, float value) {
  std::memcpy(payload.data() + optim::kPayloadHeaderBytes + index * sizeof(value), &value,
              sizeof(value));
}

void scale_values(Payload& payload, float scale) {
  for (std::size_t at = optim::kPayloadHeaderBytes; at < payload.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, payload.data() + at, sizeof(value));
    value *= scale;
    std::memcpy(payload.data() + at, &value, sizeof(value));
  }
}

struct Kind {
  std::string name;
  RejectReason reason;  // of a push
  std::function<void(Payload&)> spoil;
  // A radius is agreed from the first exchange on, and answers keep it.
  RejectReason reason_of(bool pushed) const {
    return !pushed && reason == RejectReason::kTooFar ? RejectReason::kBeyondClip : reason;
  }
};

std::vector<Kind> kinds() {
  return {
      {"a value that is no number", RejectReason::kNotFinite,
       [](Payload& payload) { set_value(payload, 10, std::nanf("")); }},
      {"an infinite value", RejectReason::kNotFinite,
       [](Payload& payload) { set_value(payload, 0, std::numeric_limits<float>::infinity()); }},
      {"huge values", RejectReason::kTooFar, [](Payload& payload) { scale_values(payload, 1e6F); }},
      {"a truncated payload", RejectReason::kMalformed,
       [](Payload& payload) { payload.resize(payload.size() - 4); }},
      {"a payload too long", RejectReason::kMalformed,
       [](Payload& payload) { payload.resize(payload.size() + 4); }},
      {"a payload of one byte", RejectReason::kMalformed,
       [](Payload& payload) { payload.resize(1); }},
      {"a payload of another stripe", RejectReason::kMalformed,
       [](Payload& payload) {
         const std::uint32_t parameters = 8;
         std::memcpy(payload.data() + 4, &parameters, sizeof(parameters));
         payload.resize(optim::kPayloadHeaderBytes + parameters * sizeof(float));
       }},
      {"another format", RejectReason::kWrongFormat,
       [](Payload& payload) {
         payload[0] = std::byte{1};  // bf16
         payload.resize(optim::kPayloadHeaderBytes +
                        (payload.size() - optim::kPayloadHeaderBytes) / 2);
       }},
      {"an unknown version", RejectReason::kMalformed,
       [](Payload& payload) { payload[1] = std::byte{200}; }},
  };
}

std::vector<float> slow_of(PumpedSwarm& swarm, std::uint32_t peer) {
  const auto slow = swarm.mixer(peer).slow();
  return {slow.begin(), slow.end()};
}

bool was_told(const std::vector<gossip::Rejected>& events, RejectReason reason, bool by_us) {
  return std::any_of(events.begin(), events.end(), [=](const gossip::Rejected& event) {
    return event.reason == reason && event.by_us == by_us;
  });
}

}  // namespace

TEST_CASE("a bad payload of any kind is refused, named and leaves every bit as it was") {
  for (const bool pushed : {true, false}) {
    for (const Kind& kind : kinds()) {
      CAPTURE(kind.name);
      CAPTURE(pushed);
      const RejectReason reason = kind.reason_of(pushed);
      PumpedOptions options = only_gossip(11);
      options.tamper = [&](std::uint32_t from, gossip::Message& message, Payload& payload) {
        const bool push = std::holds_alternative<gossip::Push>(message);
        const bool delta = std::holds_alternative<gossip::Delta>(message);
        if (from == kEvil && (pushed ? push : delta)) kind.spoil(payload);
        // Only one of the two begins exchanges.
        const bool wrong_way =
            std::holds_alternative<gossip::Accept>(message) && from == (pushed ? kEvil : kVictim);
        if (wrong_way) message = gossip::Ping{};
        return true;
      };
      PumpedSwarm swarm(options);
      const std::vector<float> before = slow_of(swarm, kVictim);
      swarm.run(std::chrono::seconds(10));
      CHECK(slow_of(swarm, kVictim) == before);
      const gossip::CoreStats stats = swarm.core(kVictim).stats();
      CHECK(stats.rejected[static_cast<std::size_t>(reason)] == 1);  // then it was muted
      CHECK(was_told(swarm.rejected(kVictim), reason, true));
      CHECK(was_told(swarm.rejected(kEvil), reason, false));
      REQUIRE(swarm.muted(kVictim).size() == 1);
      CHECK(swarm.muted(kVictim)[0].reason == reason);
      CHECK(swarm.core(kVictim).exchanges_open() == 0);
      CHECK(swarm.core(kVictim).stripes_unsettled() == 0);
      CHECK(swarm.slots_used(kVictim) == 0);
      CHECK(swarm.mixer_metrics(kVictim).payloads_refused.value() == 1);
      CHECK(stats.peers_alive == 1);  // muted is not dead
    }
  }
}

TEST_CASE("a partner that does not clip as agreed is found out") {
  PumpedOptions options = only_gossip(12);
  options.trainer.schedule.peak = 1e-3;  // so that there are differences to clip
  options.steps = 300;
  bool evil = false;
  options.tamper = [&](std::uint32_t from, gossip::Message& message, Payload& payload) {
    const bool delta = std::holds_alternative<gossip::Delta>(message);
    if (evil && from == kEvil && delta) scale_values(payload, 50);
    return true;
  };
  PumpedSwarm swarm(options);
  swarm.pump_until(200);
  CHECK(swarm.muted(kVictim).empty());
  evil = true;
  swarm.run(std::chrono::seconds(5));
  REQUIRE(swarm.muted(kVictim).size() == 1);
  CHECK(swarm.muted(kVictim)[0].reason == RejectReason::kBeyondClip);
}

TEST_CASE("the first partner of all does not take a peer wherever it likes") {
  PumpedOptions options = only_gossip(12);
  options.tamper = [](std::uint32_t from, gossip::Message& message, Payload& payload) {
    if (from == kEvil && std::holds_alternative<gossip::Push>(message)) scale_values(payload, 10);
    // It is only asked.
    const bool asks = from == kVictim && std::holds_alternative<gossip::Offer>(message);
    if (asks) message = gossip::Ping{};
    return true;
  };
  PumpedSwarm swarm(options);
  const std::vector<float> before = slow_of(swarm, kVictim);
  for (int i = 0; i < 3000 && slow_of(swarm, kVictim) == before; ++i) {
    swarm.pump_for(std::chrono::milliseconds(5));
  }
  const std::vector<float> after = slow_of(swarm, kVictim);
  double moved = 0, size = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    moved += std::pow(after[i] - before[i], 2);
    size += std::pow(before[i], 2);
  }
  CHECK(moved > 0);
  CHECK(std::sqrt(moved) <= 0.1 * std::sqrt(size));
}

TEST_CASE("one peer that sends rubbish costs the others nothing but its company") {
  PumpedOptions options = only_gossip(13);
  options.peers = 4;
  options.steps = 200;
  options.tamper = [](std::uint32_t from, gossip::Message&, Payload& payload) {
    if (from == kEvil && payload.size() > 20) set_value(payload, 1, std::nanf(""));
    return true;
  };
  PumpedSwarm swarm(options);
  swarm.run(std::chrono::seconds(10));
  const std::vector<float> one = slow_of(swarm, 0);
  const std::vector<float> evil = slow_of(swarm, kEvil);
  for (const std::uint32_t other : {2U, 3U}) {
    const std::vector<float> two = slow_of(swarm, other);
    double apart = 0, away = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      apart = std::max<double>(apart, std::abs(one[i] - two[i]));
      away = std::max<double>(away, std::abs(one[i] - evil[i]));
    }
    CHECK(apart < 1e-3 * away);
    CHECK(swarm.muted(other).size() == 1);
  }
}

TEST_CASE("honest peers that learn turn nothing down and mute nobody") {
  for (const auto format : {optim::WireFormat::kBf16, optim::WireFormat::kMod8}) {
    PumpedOptions options = small_swarm(14);
    options.steps = 100;
    options.loss_probability = 0.05;
    options.gossip.format = static_cast<std::uint8_t>(format);
    PumpedSwarm swarm(options);
    swarm.run(std::chrono::seconds(10));
    for (std::uint32_t peer = 0; peer < swarm.size(); ++peer) {
      CHECK(swarm.muted(peer).empty());
      for (const gossip::Rejected& event : swarm.rejected(peer)) {
        CHECK(gossip::blame_for(event.reason) == gossip::Blame::kNobody);
      }
    }
  }
}

TEST_CASE(
    "while the network stands, of each fragment one publication waits, with the newest state") {
  LoneMixer lone;
  constexpr int kSteps = 1000;
  for (int step = 0; step < kSteps; ++step) {
    auto slot = lone.floats.try_acquire();
    REQUIRE(slot);
    std::fill(slot->floats().begin(), slot->floats().end(), 0.5F);
    REQUIRE(lone.rings.trainer_to_mixer.try_push(Snapshot{0, true, std::move(*slot)}));
    while (lone.mixer.pump()) continue;
    REQUIRE(lone.rings.mixer_to_trainer.try_pop());
    REQUIRE(lone.rings.trainer_to_mixer.try_push(CorrectionApplied{0}));
    while (lone.mixer.pump()) continue;
  }
  std::size_t published = 0;
  do {
    while (auto parcel = lone.rings.mixer_to_network.try_pop()) {
      REQUIRE(std::holds_alternative<FragmentPublished>(*parcel));
      CHECK(std::get<FragmentPublished>(*parcel).offer);
      ++published;
    }
  } while (lone.mixer.pump());
  CHECK(published > 1);
  CHECK(published <= lone.rings.mixer_to_network.capacity() + 1);
  CHECK(published < kSteps);
}

TEST_CASE("weights that are not finite are told once, and no image of them is worth keeping") {
  LoneMixer lone;
  Rings& rings = lone.rings;
  Mixer& mixer = lone.mixer;
  const auto images_of = [&](float value) {
    auto image = std::make_unique<CheckpointImage>(lone.layout.elements(), true);
    std::fill(image->weights.begin(), image->weights.end(), value);
    REQUIRE(rings.trainer_to_mixer.try_push(std::move(image)));
    std::vector<bool> sound;
    int sick = 0;
    while (mixer.pump()) {
      while (auto parcel = rings.mixer_to_network.try_pop()) {
        if (std::holds_alternative<Sick>(*parcel)) ++sick;
        if (auto* home = std::get_if<std::unique_ptr<CheckpointImage>>(&*parcel)) {
          sound.push_back((*home)->sound);
        }
      }
    }
    REQUIRE(sound.size() == 1);
    return std::pair(bool(sound[0]), sick);
  };
  CHECK(images_of(1.0F) == std::pair(true, 0));
  CHECK(images_of(std::nanf("")) == std::pair(false, 1));
  CHECK(images_of(1.0F) == std::pair(false, 0));  // what was broken once is not trusted again
  auto slot = lone.floats.try_acquire();
  REQUIRE(slot);
  std::fill(slot->floats().begin(), slot->floats().end(), std::nanf(""));
  REQUIRE(rings.trainer_to_mixer.try_push(Snapshot{0, true, std::move(*slot)}));
  while (mixer.pump()) continue;
  CHECK(lone.metrics.outer_steps_refused.value() == 1);
  CHECK(std::equal(lone.initial.begin(), lone.initial.end(), mixer.slow().begin()));
  CHECK(lone.floats.free_count() == 4);
}

}  // namespace starling::peer
