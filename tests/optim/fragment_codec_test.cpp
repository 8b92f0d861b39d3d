#include "optim/fragment_codec.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "base/bf16.h"
#include "base/hash.h"
#include "base/rng.h"
#include "optim/wire_format.h"
#include "tests/optim/codec_support.h"

namespace starling::optim {

namespace {

constexpr int kExponent = -28;  // a step of 2^-7

}  // namespace

TEST_CASE("every wire format has a name of its own") {
  std::set<std::string_view> names;
  for (const WireFormat format : kWireFormats) names.insert(to_string(format));
  CHECK(names.size() == kWireFormats.size());
  CHECK(!names.contains("unknown"));
}

TEST_CASE("payload sizes are exact and small") {
  CHECK(push_bytes(WireFormat::kF32, 10) == 12 + 40);
  CHECK(push_bytes(WireFormat::kBf16, 10) == 12 + 20);
  CHECK(push_bytes(WireFormat::kMod8, 10) == 12 + 5 + 10);
  CHECK(push_bytes(WireFormat::kMod4, 11) == 12 + 5 + 6);
  CHECK(push_bytes(WireFormat::kMod4, 1025) == 12 + 2 * 5 + 512 + 1);
  CHECK(push_bytes(WireFormat::kMod6, 11) == 12 + 5 + 6 + 3);
  CHECK(push_bytes(WireFormat::kMod5, 11) == 12 + 5 + 6 + 2);
  CHECK(delta_bytes(WireFormat::kMod8, 1025) == 12 + 1 + 2 + 1025);
  CHECK(delta_bytes(WireFormat::kMod6, 1025) == 12 + 1 + 2 + 768 + 2);
  CHECK(delta_bytes(WireFormat::kMod5, 1025) == 12 + 1 + 2 + 640 + 2);
  CHECK(delta_bytes(WireFormat::kF32, 10) == 12 + 40);
  // One stripe always fits one frame of 1 MiB and a little.
  CHECK(push_bytes(WireFormat::kF32, kStripeParameters) == (1U << 20) + 12);
  CHECK(push_bytes(WireFormat::kMod8, kStripeParameters) == (1U << 18) + 256 * 5 + 12);
  CHECK(push_bytes(WireFormat::kMod6, kStripeParameters) == 256 * (768 + 5) + 12);
  CHECK(push_bytes(WireFormat::kMod5, kStripeParameters) == 256 * (640 + 5) + 12);
}

TEST_CASE("a stripe of any length comes through whole in every format") {
  const float step = lattice_step(kExponent);
  for (const std::size_t count : {1U, 7U, 1021U, 1024U, 1025U, 3000U}) {
    // Whole numbers of steps, few enough for bf16.
    std::vector<float> initiator(count), truth(count);
    for (std::size_t i = 0; i < count; ++i) {
      initiator[i] = step * static_cast<float>(i % 11);
      truth[i] = step * (static_cast<float>(i % 15) - 7.0f);
    }
    for (const WireFormat format : kWireFormats) {
      CAPTURE(to_string(format));
      CAPTURE(count);
      const Exchanged e = exchange_stripe(format, 9, initiator, plus(initiator, truth), kExponent);
      CHECK(e.difference == truth);
    }
  }
}

TEST_CASE("both sides learn the same of a difference, block by block") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const std::size_t count = 1 + rng.below(5000);
    const auto initiator = normal_values(rng, count, 1.0f);
    const auto responder = plus(initiator, normal_values(rng, count, 0.01f));
    for (const WireFormat format : kWireFormats) {
      CAPTURE(to_string(format));
      const float radius = seed % 2 == 0 ? 0.004f : 0.0f;
      const Exchanged e = exchange_stripe(format, seed, initiator, responder, kExponent, radius);
      CHECK(e.report.format == format);
      CHECK(e.report.blocks == block_count(count));
      CHECK(e.report.blocks_skipped == 0);
      CHECK(e.report.own_rms == doctest::Approx(rms(measure(initiator), count)));
      CHECK(e.made.own_rms == doctest::Approx(rms(measure(responder), count)));
      // The responder's are of what it rounds to bf16 at the end.
      const double rounding = format == WireFormat::kBf16 ? 0x1p-8 : 1e-6;
      CHECK(e.made.clip_factor == e.report.clip_factor);
      CHECK(e.made.rms == doctest::Approx(e.report.rms).epsilon(rounding));
      CHECK(e.made.max_abs == doctest::Approx(e.report.max_abs).epsilon(rounding));
      const auto decoded = blocks_of(e.difference);
      for (std::size_t b = 0; b < decoded.size(); ++b) {
        CHECK(e.blocks[b].sum_of_squares ==
              doctest::Approx(decoded[b].sum_of_squares).epsilon(1e-6));
        CHECK(e.blocks[b].max_abs == doctest::Approx(decoded[b].max_abs).epsilon(1e-6));
        CHECK(e.made_blocks[b].sum_of_squares ==
              doctest::Approx(decoded[b].sum_of_squares).epsilon(2 * rounding));
        CHECK(e.made_blocks[b].max_abs == doctest::Approx(decoded[b].max_abs).epsilon(rounding));
      }
    }
  }
}

TEST_CASE("exchanging the roles gives the opposite difference to the last bit") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const std::size_t count = 1 + rng.below(5000);
    const auto left = normal_values(rng, count, 1.0f);
    const auto right = plus(left, normal_values(rng, count, 0.01f));
    for (const WireFormat format : kWireFormats) {
      CAPTURE(to_string(format));
      const Exchanged forth = exchange_stripe(format, seed, left, right, kExponent);
      Exchanged back = exchange_stripe(format, seed, right, left, kExponent);
      for (float& value : back.difference) value = 0.0f - value;
      CHECK(std::equal(forth.difference.begin(), forth.difference.end(), back.difference.begin()));
    }
  }
}

TEST_CASE("equal weights differ by exactly zero whatever the dither") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const auto weights = normal_values(rng, 1 + rng.below(3000), 3.0f);
    for (const WireFormat format : kWireFormats) {
      CAPTURE(to_string(format));
      const Exchanged e = exchange_stripe(format, rng.next(), weights, weights, kExponent);
      CHECK(e.difference == std::vector<float>(weights.size(), 0.0f));
      CHECK(e.report.rms == 0.0);
      CHECK(e.report.max_abs == 0.0);
    }
  }
}

TEST_CASE("the difference is as close to the truth as its format promises") {
  Rng rng(21);
  const auto initiator = normal_values(rng, 5000, 1.0f);
  const auto truth = normal_values(rng, 5000, 0.01f);
  const auto responder = plus(initiator, truth);
  const auto worst = [&](WireFormat format) {
    const Exchanged e = exchange_stripe(format, 5, initiator, responder, kExponent);
    double result = 0.0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      result = std::max(result, std::abs(double{e.difference[i]} - truth[i]));
    }
    return result;
  };
  CHECK(worst(WireFormat::kF32) < 1e-6);
  CHECK(worst(WireFormat::kBf16) < 0.025);  // weights below 6 rounded to 8 bits
  for (const WireFormat format : kModularFormats) CHECK(worst(format) < 0.0079);  // one step
}

TEST_CASE("a bf16 difference is taken between rounded weights") {
  const Exchanged e =
      exchange_stripe(WireFormat::kBf16, 1, {1.0f, 1.003f, -2.0f}, {1.001f, 2.0f, 0.5f}, 0);
  const float rounded = to_float(to_bf16(1.003f));
  CHECK(e.difference == std::vector<float>{0.0f, to_float(to_bf16(2.0f - rounded)), 2.5f});
}

TEST_CASE("clipping shortens a difference to its radius and keeps its direction") {
  Rng rng(22);
  const auto initiator = normal_values(rng, 3000, 1.0f);
  const auto responder = plus(initiator, normal_values(rng, 3000, 0.01f));
  for (const WireFormat format : kWireFormats) {
    CAPTURE(to_string(format));
    const Exchanged whole = exchange_stripe(format, 6, initiator, responder, kExponent);
    const Exchanged clipped = exchange_stripe(format, 6, initiator, responder, kExponent, 0.002f);
    const float factor = clipped.report.clip_factor;
    CHECK(whole.report.clip_factor == 1.0f);
    CHECK(clipped.report.rms == doctest::Approx(0.002).epsilon(0.005));
    CHECK(factor == doctest::Approx(0.002 / whole.report.rms).epsilon(0.005));
    CHECK(clipped.report.max_abs == doctest::Approx(factor * whole.report.max_abs).epsilon(0.005));
    for (std::size_t i = 0; i < initiator.size(); ++i) {
      REQUIRE(std::abs(clipped.difference[i] - factor * whole.difference[i]) <=
              0.008f * std::abs(clipped.difference[i]));
    }
    const Exchanged wide = exchange_stripe(format, 6, initiator, responder, kExponent, 10.0f);
    CHECK(wide.delta == whole.delta);
  }
}

TEST_CASE("the report tells the root mean square and the largest difference as decoded") {
  Rng rng(23);
  const auto initiator = normal_values(rng, 4000, 1.0f);
  const auto responder = plus(initiator, normal_values(rng, 4000, 0.01f));
  for (const WireFormat format : kWireFormats) {
    CAPTURE(to_string(format));
    const Exchanged e = exchange_stripe(format, 7, initiator, responder, kExponent, 0.003f);
    double squares = 0.0;
    double largest = 0.0;
    for (const float value : e.difference) {
      squares += double{value} * value;
      largest = std::max(largest, std::abs(double{value}));
    }
    CHECK(e.report.rms == doctest::Approx(std::sqrt(squares / 4000)).epsilon(1e-6));
    CHECK(e.report.max_abs == doctest::Approx(largest).epsilon(1e-6));
  }
}

TEST_CASE("payloads are the same bytes on every machine and compiler") {
  // Digests of what the first version with each format wrote, by its number: a change of any of
  // them is a change of the wire.
  Rng rng(24);
  const auto initiator = normal_values(rng, 2500, 1.0f);
  const auto responder = plus(initiator, normal_values(rng, 2500, 0.01f));
  const std::uint64_t push_digests[] = {3731823093805181115U, 12001337643093975056U,
                                        1253098329410565482U, 15904657330751326494U,
                                        141418551197340521U,  10209249015226711638U};
  const std::uint64_t delta_digests[] = {12669753505382196758U, 4770137901389252630U,
                                         5058060717730658331U,  13296134656846188127U,
                                         17275017402493457309U, 2989675076830939974U};
  for (const WireFormat format : kWireFormats) {
    CAPTURE(to_string(format));
    const Exchanged e = exchange_stripe(format, 8, initiator, responder, kExponent - 1, 0.003f);
    CHECK(digest(e.push) == push_digests[static_cast<std::size_t>(format)]);
    CHECK(digest(e.delta) == delta_digests[static_cast<std::size_t>(format)]);
  }
}

TEST_CASE("weights that are not finite are refused on the side that holds them") {
  const float bad_values[] = {std::nanf(""), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()};
  for (const WireFormat format : kWireFormats) {
    for (const float bad : bad_values) {
      CAPTURE(to_string(format));
      CAPTURE(bad);
      std::vector<float> good(2000, 0.5f);
      std::vector<float> sick = good;
      sick[1500] = bad;
      const auto exponents = same_exponents(2000, kExponent);
      std::vector<std::byte> push(push_bytes(format, 2000));
      const auto refused = encode_push(format, 1, sick, exponents, push);
      REQUIRE(!refused.ok());
      CHECK(refused.error().code() == ErrorCode::kCorrupt);
      push = push_of(format, 1, good, kExponent);
      std::vector<std::byte> delta(delta_bytes(format, 2000));
      const auto made = make_delta(1, push, sick, 0.0f, delta);
      REQUIRE(!made.ok());
      CHECK(made.error().code() == ErrorCode::kCorrupt);
    }
  }
}

TEST_CASE("weights too large for bf16 are refused instead of becoming infinite") {
  const std::vector<float> huge = {std::numeric_limits<float>::max()};
  std::vector<std::byte> push(push_bytes(WireFormat::kBf16, 1));
  CHECK(!encode_push(WireFormat::kBf16, 1, huge, {}, push).ok());
}

TEST_CASE("a step too small for the weights is refused by the initiator") {
  const std::vector<float> weights(10, 100.0f);
  std::vector<std::byte> push(push_bytes(WireFormat::kMod8, 10));
  CHECK(!encode_push(WireFormat::kMod8, 1, weights, same_exponents(10, -127), push).ok());
  CHECK(encode_push(WireFormat::kMod8, 1, weights, same_exponents(10, -60), push).ok());
}

}  // namespace starling::optim
