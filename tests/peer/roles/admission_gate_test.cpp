#include "peer/roles/admission_gate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace starling::peer {

namespace {

using gossip::RejectReason;
using gossip::Verdict;
using optim::WireFormat;

constexpr std::size_t kCount = 3000;
constexpr std::uint64_t kKey = 9;

std::vector<float> normal(std::uint64_t seed, float scale) {
  Rng rng(seed);
  std::vector<float> values(kCount);
  for (float& value : values) value = scale * rng.normal();
  return values;
}

// Two peers a little apart, and what passes between them.
struct Pair {
  explicit Pair(WireFormat wire, float scale = 1, float apart = 0.01F)
      : format(wire), initiator(normal(1, 1.0F)), responder(initiator) {
    const std::vector<float> more = normal(2, apart);
    for (std::size_t i = 0; i < kCount; ++i) responder[i] += more[i];
    for (float& value : initiator) value *= scale;
    const std::vector<std::int8_t> exponents(optim::block_count(kCount), -20);
    push.resize(optim::push_bytes(format, kCount));
    REQUIRE(optim::encode_push(format, kKey, initiator, exponents, push).ok());
  }

  Verdict stage(float clip_radius = 0) {
    delta.resize(optim::delta_bytes(format, kCount));
    return admit_push({responder, format, clip_radius, kKey}, push, {difference, blocks}, delta,
                      report);
  }
  Verdict apply(float clip_radius = 0, std::uint64_t rounds_late = 0) {
    return admit_delta({initiator, format, clip_radius, kKey}, delta, rounds_late,
                       {difference, blocks}, report);
  }

  WireFormat format;
  std::vector<float> initiator, responder;
  std::vector<float> difference = std::vector<float>(kCount);
  std::vector<optim::BlockReport> blocks =
      std::vector<optim::BlockReport>(optim::block_count(kCount));
  std::vector<std::byte> push, delta;
  optim::DeltaReport report;
};

void put_float(std::vector<std::byte>& payload, WireFormat format, std::size_t index, float value) {
  const std::size_t bytes = static_cast<std::size_t>(optim::code_bits(format)) / 8;
  const auto* upper = reinterpret_cast<const std::byte*>(&value) + sizeof(value) - bytes;
  std::memcpy(payload.data() + optim::kPayloadHeaderBytes + index * bytes, upper, bytes);
}

}  // namespace

TEST_CASE("what sound peers send passes on both sides") {
  for (const WireFormat format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    for (const float radius : {0.0F, 0.005F}) {
      CAPTURE(radius);
      Pair pair(format);
      CHECK(pair.stage(radius).done());
      CHECK(pair.apply(radius).done());
      CHECK((pair.report.clip_factor < 1) == (radius > 0));
    }
  }
}

TEST_CASE("payloads that are cut, too long or of another version are malformed") {
  for (const WireFormat format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    const Pair good(format);
    Pair pair = good;
    pair.push.pop_back();
    CHECK(pair.stage().reason == RejectReason::kMalformed);
    pair = good;
    pair.push.push_back(std::byte{0});
    CHECK(pair.stage().reason == RejectReason::kMalformed);
    pair = good;
    pair.push[1] = std::byte{7};
    CHECK(pair.stage().reason == RejectReason::kMalformed);
    pair = good;
    pair.push.clear();
    CHECK(pair.stage().reason == RejectReason::kMalformed);
    pair = good;
    REQUIRE(pair.stage().done());
    pair.delta.pop_back();
    CHECK(pair.apply().reason == RejectReason::kMalformed);
  }
}

TEST_CASE("a payload in another format than agreed is named so") {
  Pair pair(WireFormat::kF32);
  pair.format = WireFormat::kBf16;
  CHECK(pair.stage().reason == RejectReason::kWrongFormat);
  Pair other(WireFormat::kF32);
  REQUIRE(other.stage().done());
  other.format = WireFormat::kMod8;
  CHECK(other.apply().reason == RejectReason::kWrongFormat);
}

TEST_CASE("values that are not finite are named so, codes without a meaning are malformed") {
  for (const WireFormat format : {WireFormat::kF32, WireFormat::kBf16}) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      Pair pair(format);
      put_float(pair.push, format, 1234, bad);
      CHECK(pair.stage().reason == RejectReason::kNotFinite);
      Pair other(format);
      REQUIRE(other.stage().done());
      put_float(other.delta, format, 1234, bad);
      CHECK(other.apply().reason == RejectReason::kNotFinite);
    }
  }
  Pair pair(WireFormat::kMod8);
  REQUIRE(pair.stage().done());
  pair.delta[optim::kPayloadHeaderBytes] = std::byte{0x80};  // skips a block that is not there
  CHECK(pair.apply().reason == RejectReason::kMalformed);
}

TEST_CASE("weights sixteen times larger or smaller than ours are of another size") {
  for (const WireFormat format : {WireFormat::kF32, WireFormat::kBf16}) {
    for (const std::pair<float, bool>& expected :
         {std::pair(15.0F, true), std::pair(17.0F, false), std::pair(1 / 15.0F, true),
          std::pair(1 / 17.0F, false), std::pair(1e30F, false), std::pair(0.0F, false)}) {
      const float scale = expected.first;
      const bool passes = expected.second;
      CAPTURE(scale);
      Pair pair(format, scale);
      CHECK(pair.stage().done() == passes);
      if (!passes) CHECK(pair.stage().reason == RejectReason::kTooFar);
      // The other side sees the same.
      CHECK(pair.apply().done() == passes);
    }
  }
}

TEST_CASE("two stripes that are nearly zero are of one size") {
  Pair pair(WireFormat::kF32, 0);
  for (float& value : pair.responder) value *= 0.01F;
  CHECK(pair.stage().done());
}

TEST_CASE("a difference larger than agreed is refused by the initiator") {
  for (const WireFormat format : optim::kWireFormats) {
    CAPTURE(optim::to_string(format));
    Pair pair(format);
    REQUIRE(pair.stage(0.005F).done());
    CHECK(pair.apply(0.005F).done());
    CHECK(pair.apply(0.0025F).reason == RejectReason::kBeyondClip);
    REQUIRE(pair.stage(0).done());  // a responder that does not clip
    CHECK(pair.apply(0.005F).reason == RejectReason::kBeyondClip);
  }
}

TEST_CASE("a delta that many outer steps have overtaken is too old") {
  Pair pair(WireFormat::kMod8);
  REQUIRE(pair.stage().done());
  CHECK(pair.apply(0, kRoundsLateMax).done());
  CHECK(pair.apply(0, kRoundsLateMax + 1).reason == RejectReason::kTooOld);
}

TEST_CASE("a difference clipped to a small part is done, and noted as far") {
  Pair pair(WireFormat::kF32, 1, 0.5F);
  CHECK_FALSE(pair.stage(0.1F).far);
  const Verdict verdict = pair.stage(0.01F);
  CHECK(verdict.done());
  CHECK(verdict.far);
  CHECK(pair.apply(0.01F).far);
}

TEST_CASE("own weights that are not finite are nobody else's fault") {
  for (const WireFormat format : optim::kWireFormats) {
    Pair pair(format);
    const float sound = std::exchange(pair.responder[77], std::nanf(""));
    CHECK(pair.stage().reason == RejectReason::kOwnNotFinite);
    pair.responder[77] = sound;
    REQUIRE(pair.stage().done());
    pair.initiator[77] = INFINITY;
    CHECK(pair.apply().reason == RejectReason::kOwnNotFinite);
  }
}

}  // namespace starling::peer
