// Whole peers against one whose modular codes lie: whatever it sends, once both know the scales of
// each other, the victim's weights stay finite and move by no more than was agreed; what can be no
// payload is refused under its name and mutes its sender; codes that wrap cost the blocks they are
// of and nobody's good name.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "optim/fragment_codec.h"
#include "optim/lattice.h"
#include "tests/support/pumped_swarm.h"

namespace starling::peer {
namespace {

using gossip::RejectReason;
using optim::WireFormat;
using testing::PumpedOptions;
using testing::PumpedSwarm;
using testing::small_swarm;

using Payload = std::vector<std::byte>;

constexpr std::uint32_t kVictim = 0;
constexpr std::uint32_t kEvil = 1;
constexpr std::uint64_t kSteps = 60;
constexpr std::size_t kFactorAt = 8;  // the clip factor, in a header

// What is where in a payload.
struct Parts {
  std::size_t parameters = 0, blocks = 0, first = optim::kPayloadHeaderBytes;
  std::size_t steps = 0, codes = 0;

  Parts(const Payload& payload, bool push) {
    std::uint32_t count = 0;
    std::memcpy(&count, payload.data() + 4, sizeof count);
    parameters = count;
    blocks = optim::block_count(count);
    steps = first + (push ? blocks * sizeof(std::uint32_t) : (blocks + 7) / 8);
    codes = steps + blocks;
  }
};

struct Spoiler {
  bool push = false;
  WireFormat format{};
  std::uint64_t key = 0;  // of the dither
};

struct Kind {
  std::string name;
  RejectReason of_push, of_delta;  // kNone: it is taken, as far as it is allowed
  std::function<void(const Spoiler&, Payload&)> spoil;
  bool wraps = false;  // a push of it costs the blocks that it spoils
};

void set_steps(const Spoiler& as, Payload& payload, int exponent) {
  const Parts parts(payload, as.push);
  std::fill_n(payload.begin() + std::ptrdiff_t(parts.steps), parts.blocks,
              static_cast<std::byte>(static_cast<std::int8_t>(exponent)));
}

void randomize(Payload& payload, std::size_t first, std::size_t end) {
  Rng rng(payload.size());
  for (std::size_t at = first; at < end; ++at) {
    payload[at] = static_cast<std::byte>(rng.below(256));
  }
}

void set_factor(Payload& payload, float factor) {
  std::memcpy(payload.data() + kFactorAt, &factor, sizeof factor);
}

// Sound in itself, of whatever steps and values; an answer as it was, but for its steps.
void go_far(const Spoiler& as, Payload& payload, int exponent, float value) {
  if (!as.push) return set_steps(as, payload, exponent);
  const Parts parts(payload, true);
  const std::vector<std::int8_t> exponents(parts.blocks, static_cast<std::int8_t>(exponent));
  std::vector<float> values(parts.parameters, value);
  REQUIRE(optim::encode_push(as.format, as.key, values, exponents, payload).ok());
}

std::vector<Kind> kinds() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto none = RejectReason::kNone, malformed = RejectReason::kMalformed;
  return {
      {"codes that are anything", none, malformed,
       [](const Spoiler& as, Payload& payload) {
         randomize(payload, Parts(payload, as.push).codes, payload.size());
       },
       true},
      {"checksums, or skipped blocks, that are anything", none, malformed,
       [](const Spoiler& as, Payload& payload) {
         const Parts parts(payload, as.push);
         randomize(payload, parts.first, parts.steps);
       },
       true},
      {"codes that wrap on purpose", none, RejectReason::kBeyondClip,
       [](const Spoiler& as, Payload& payload) { go_far(as, payload, 4 * -9, 5.0F); }, true},
      {"steps as wide as they get", RejectReason::kTooFar, RejectReason::kBeyondClip,
       [](const Spoiler& as, Payload& payload) {
         go_far(as, payload, optim::kExponentMax, 5 * optim::lattice_step(optim::kExponentMax));
       }},
      {"as far out as the gate lets it", none, RejectReason::kBeyondClip,
       [](const Spoiler& as, Payload& payload) { go_far(as, payload, 4 * -4, 0.25F); }},
      {"steps as small as they get", none, none,
       [](const Spoiler& as, Payload& payload) { set_steps(as, payload, optim::kExponentMin); },
       true},
      {"a step that there is not", malformed, malformed,
       [](const Spoiler& as, Payload& payload) { set_steps(as, payload, -128); }},
      {"a clip factor that is no number", malformed, malformed,
       [](const Spoiler&, Payload& payload) { set_factor(payload, kNan); }},
      {"a clip factor above one", malformed, malformed,
       [](const Spoiler&, Payload& payload) { set_factor(payload, 1e30F); }},
      {"a byte too few", malformed, malformed,
       [](const Spoiler&, Payload& payload) { payload.pop_back(); }},
      {"a byte too many", malformed, malformed,
       [](const Spoiler&, Payload& payload) { payload.push_back(std::byte{7}); }},
      {"a header alone", malformed, malformed,
       [](const Spoiler&, Payload& payload) { payload.resize(optim::kPayloadHeaderBytes); }},
      {"nothing but noise", malformed, malformed,
       [](const Spoiler&, Payload& payload) { randomize(payload, 0, payload.size()); }},
  };
}

// A pair whose weights only exchanges move, and one of which begins to lie when it is told to.
struct Pair {
  bool evil = false;
  float radius_max = 0;  // that was agreed since
  std::size_t spoiled = 0;
  PumpedSwarm swarm;

  Pair(WireFormat format, bool push, const Kind& kind) : swarm(options_for(format, push, kind)) {}

  std::vector<float> slow() {
    const auto weights = swarm.mixer(kVictim).slow();
    return {weights.begin(), weights.end()};
  }

 private:
  PumpedOptions options_for(WireFormat format, bool push, const Kind& kind) {
    PumpedOptions options = small_swarm(21);
    options.peers = 2;
    options.steps = kSteps;
    // What differs teaches the scales; when it has been trained only exchanges move the weights.
    options.trainer.schedule.peak = 1e-3;
    options.gossip.format = static_cast<std::uint8_t>(format);
    options.tamper = [=, this](std::uint32_t from, gossip::Message& message, Payload& payload) {
      if (!evil) return true;
      // Only one of the two begins exchanges.
      if (from == (push ? kVictim : kEvil) && std::holds_alternative<gossip::Offer>(message)) {
        message = gossip::Ping{};
      }
      if (const auto* accept = std::get_if<gossip::Accept>(&message)) {
        radius_max = std::max(radius_max, accept->clip_radius);
      }
      const auto* pushed = std::get_if<gossip::Push>(&message);
      const auto* delta = std::get_if<gossip::Delta>(&message);
      const bool meant = from == kEvil && (push ? pushed != nullptr : delta != nullptr);
      if (!meant || payload[0] != static_cast<std::byte>(format)) return true;
      ++spoiled;
      const gossip::StripeRef& ref = push ? pushed->ref : delta->ref;
      kind.spoil({push, format, gossip::dither_key(ref)}, payload);
      return true;
    };
    return options;
  }
};

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - b[i], 2);
  return std::sqrt(squares);
}

void check_kind(WireFormat format, bool push, const Kind& kind) {
  CAPTURE(kind.name);
  CAPTURE(push);
  const std::string code(optim::to_string(format));
  CAPTURE(code);
  Pair pair(format, push, kind);
  PumpedSwarm& swarm = pair.swarm;
  swarm.pump_until(kSteps);
  swarm.pump_for(std::chrono::seconds(2));
  REQUIRE(swarm.muted(kVictim).empty());
  const std::vector<float> before = pair.slow();
  const std::uint64_t applied = swarm.core(kVictim).stats().stripes_applied;
  const std::uint64_t skipped = swarm.mixer_metrics(kVictim).blocks_skipped.value();
  pair.evil = true;
  swarm.run(std::chrono::seconds(3));

  CHECK(pair.spoiled > 0);
  const std::vector<float> after = pair.slow();
  const gossip::CoreStats stats = swarm.core(kVictim).stats();
  const double allowed = static_cast<double>(stats.stripes_applied - applied) * pair.radius_max;
  CHECK(distance(before, after) <= allowed * std::sqrt(static_cast<double>(after.size())));
  CHECK(std::all_of(after.begin(), after.end(), [](float value) { return std::isfinite(value); }));
  const RejectReason reason = push ? kind.of_push : kind.of_delta;
  const std::uint64_t lost = swarm.mixer_metrics(kVictim).blocks_skipped.value() - skipped;
  if (push && kind.wraps) CHECK(lost > 0);
  if (reason == RejectReason::kNone) {
    CHECK(swarm.muted(kVictim).empty());
    CHECK(swarm.mixer_metrics(kVictim).payloads_refused.value() == 0);
  } else {
    CHECK(stats.rejected[static_cast<std::size_t>(reason)] == 1);  // then it was muted
    CHECK(swarm.mixer_metrics(kVictim).payloads_refused.value() == 1);
    REQUIRE(swarm.muted(kVictim).size() == 1);
    CHECK(swarm.muted(kVictim)[0].reason == reason);
  }
  CHECK(swarm.core(kVictim).exchanges_open() == 0);
  CHECK(swarm.slots_used(kVictim) == 0);
}

}  // namespace

TEST_CASE(
    "modular codes that lie are refused under their name, or move nothing beyond the radius") {
  for (const WireFormat format : {WireFormat::kMod8, WireFormat::kMod4}) {
    for (const bool push : {true, false}) {
      for (const Kind& kind : kinds()) check_kind(format, push, kind);
    }
  }
}

}  // namespace starling::peer
