#include "optim/lattice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/rng.h"
#include "optim/philox.h"
#include "tests/optim/codec_support.h"

namespace starling::optim {

namespace {

struct Moments {
  double mean = 0.0;
  double variance = 0.0;
};

Moments error_moments(const std::vector<float>& decoded, const std::vector<float>& truth) {
  Moments moments;
  const auto count = static_cast<double>(decoded.size());
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const double error = double{decoded[i]} - truth[i];
    moments.mean += error / count;
    moments.variance += error * error / count;
  }
  return moments;
}

// A stripe on both sides of which one block holds the given differences, in steps.
Exchanged exchange_with(WireFormat format, std::uint64_t seed, const std::vector<float>& steps) {
  Rng rng(seed);
  const auto initiator = normal_values(rng, 3 * kBlockParameters, 1.0f);
  std::vector<float> responder = initiator;
  const float step = lattice_step(-20);
  for (std::size_t i = 0; i < responder.size(); ++i) {
    responder[i] += step * static_cast<float>(2.0 * rng.unit() - 1.0);
  }
  for (const float wanted : steps) {
    const std::size_t place = kBlockParameters + rng.below(kBlockParameters);
    responder[place] = initiator[place] + step * wanted;
  }
  return exchange_stripe(format, seed, initiator, responder, -20);
}

}  // namespace

TEST_CASE("philox gives the known answers of its authors") {
  // Random123's kat_vectors for philox4x32-10: zero key and counter.
  CHECK(philox(0, 0) == PhiloxBlock{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U});
  // Of its digits of pi the key and the lower half of the counter, the upper half zero: by a
  // program that gives all three of its answers.
  CHECK(philox(0x299f31d0'a4093822U, 0x85a308d3'243f6a88U) ==
        PhiloxBlock{0xe69c9c31U, 0xb5a3d762U, 0xe733bfc1U, 0x341a787cU});
  CHECK(philox(0, 1) != philox(0, 0));
  CHECK(philox(1, 0) != philox(0, 0));
}

TEST_CASE("steps are quarter powers of two") {
  for (int e = kExponentMin; e <= kExponentMax; ++e) {
    CAPTURE(e);
    CHECK(lattice_step(e) == doctest::Approx(std::exp2(e / 4.0)).epsilon(1e-6));
    CHECK(exponent_for(lattice_step(e)) == e);
    if (e < kExponentMax) CHECK(exponent_for(lattice_step(e) * 1.01) == e + 1);
  }
  CHECK(exponent_for(0.0) == kExponentMin);
  CHECK(exponent_for(1e-30) == kExponentMin);
  CHECK(exponent_for(1e30) == kExponentMax);
  CHECK(exponent_for(std::nan("")) == kExponentMax);
}

TEST_CASE("a word depends on the key and the index of its parameter alone, however it is drawn") {
  for (const DrawWords draw : ways_to_draw()) {
    for (const std::uint64_t key : {0ULL, 0x123456789ABCDEF0ULL, ~0ULL}) {
      for (const std::uint32_t block : {0U, 7U, 0xFFFFFFU, 0x1000000U, 0xFFFFFFFFU}) {
        CAPTURE(key);
        CAPTURE(block);
        BlockWords words;
        draw(key, block, words);
        const std::uint64_t first = std::uint64_t{block} * 256;
        for (std::size_t i = 0; i < kBlockParameters; ++i) {
          REQUIRE(words[i] == philox(key, first + i % 256)[i / 256]);
        }
        BlockWords usual;
        draw_words(key, block, usual);
        REQUIRE(usual == words);
      }
    }
  }
}

TEST_CASE("coordinates round down, also below zero") {
  BlockWords words{};  // dither 0
  BlockIntegers coordinates;
  quantize(std::vector<float>{0.0f, 1.5f, -1.5f, -2.0f, 0.99f, -0.01f}, 1.0f, words, coordinates);
  const std::vector<std::int32_t> first(coordinates.begin(), coordinates.begin() + 6);
  CHECK(first == std::vector<std::int32_t>{0, 1, -2, -2, 0, -1});
  words.fill(0x80000000U);  // dither 1/2
  quantize(std::vector<float>{0.4f, 0.6f, -0.4f, -0.6f}, 1.0f, words, coordinates);
  const std::vector<std::int32_t> dithered(coordinates.begin(), coordinates.begin() + 4);
  CHECK(dithered == std::vector<std::int32_t>{0, 1, 0, -1});
}

TEST_CASE("packed codes come back for every count and value") {
  Rng rng(31);
  for (const int bits : {8, 6, 5, 4}) {
    for (const std::size_t count : {1U, 2U, 3U, 7U, 9U, 15U, 16U, 17U, 511U, 1021U, 1023U, 1024U}) {
      CAPTURE(bits);
      CAPTURE(count);
      BlockIntegers values{};
      const int range = 1 << bits;
      for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<std::int32_t>(rng.below(range)) - range / 2;
      }
      std::vector<std::byte> bytes(packed_bytes(bits, count));
      pack(bits, values, count, bytes.data());
      BlockIntegers back{};
      unpack(bits, bytes.data(), count, back);
      CHECK(back == values);
      // What is behind the last of them leaves no trace.
      std::fill(values.begin() + static_cast<std::ptrdiff_t>(count), values.end(), -1);
      std::vector<std::byte> again(bytes.size(), std::byte{0xFF});
      pack(bits, values, count, again.data());
      CHECK(again == bytes);
    }
  }
}

TEST_CASE("the decoded difference is unbiased and its variance is that of one Bernoulli step") {
  constexpr std::size_t kCount = 1 << 17;
  const float step = lattice_step(-20);
  for (const double offset : {0.1, 0.25, 0.5, 0.9, 3.3, -2.75, -0.5}) {
    for (const WireFormat format : kModularFormats) {
      CAPTURE(offset);
      CAPTURE(to_string(format));
      Rng rng(41);
      const auto initiator = normal_values(rng, kCount, 0.1f);
      const std::vector<float> truth(kCount, static_cast<float>(offset) * step);
      const Exchanged e = exchange_stripe(format, 42, initiator, plus(initiator, truth), -20);
      const Moments moments = error_moments(e.difference, truth);
      const double fraction = offset - std::floor(offset);
      const double variance = fraction * (1.0 - fraction) * step * step;
      CHECK(std::abs(moments.mean) < 4.0 * std::sqrt(variance / kCount));
      CHECK(moments.variance == doctest::Approx(variance).epsilon(0.03));
    }
  }
}

TEST_CASE("the error of each code is that of the table for five sigma") {
  struct Row {
    WireFormat format;
    double error;        // variance of the error / sigma^2
    double contraction;  // of the variance of two peers when both move half-way
  };
  // A step of 5 sigma / (L/2 - 1); error step^2 / 6 sigma^2; contraction (1 + error) / 2.
  for (const Row& row :
       {Row{WireFormat::kMod8, 0.0003, 0.5002}, Row{WireFormat::kMod6, 0.0043, 0.502},
        Row{WireFormat::kMod5, 0.0185, 0.509}, Row{WireFormat::kMod4, 0.085, 0.543}}) {
    CAPTURE(to_string(row.format));
    Rng rng(51);
    const float sigma = static_cast<float>(largest_code(row.format)) / 5.0f;  // step 1
    const auto left = normal_values(rng, kStripeParameters, sigma / std::sqrt(2.0f));
    const auto right = normal_values(rng, kStripeParameters, sigma / std::sqrt(2.0f));
    std::vector<float> truth = right;
    double before = 0.0;
    double after = 0.0;
    const Exchanged e = exchange_stripe(row.format, 52, left, right, 0);
    std::size_t counted = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      truth[i] -= left[i];
      if (e.blocks[i / kBlockParameters].skipped_reach > 0.0f) {
        truth[i] = 0.0f;  // beyond five sigma somewhere in the block
        continue;
      }
      ++counted;
      const double moved_left = left[i] + 0.5 * e.difference[i];
      const double moved_right = right[i] - 0.5 * e.difference[i];
      before += double{left[i]} * left[i] + double{right[i]} * right[i];
      after += moved_left * moved_left + moved_right * moved_right;
    }
    CHECK(e.report.blocks_skipped <= 4);
    const double share = static_cast<double>(counted) / static_cast<double>(truth.size());
    const double error = error_moments(e.difference, truth).variance / share / (sigma * sigma);
    CHECK(error == doctest::Approx(row.error).scale(0.0).epsilon(0.15));
    CHECK(after / before == doctest::Approx(row.contraction).epsilon(0.01));
  }
}

TEST_CASE("a difference beyond the range of the codes is noticed and only its block is skipped") {
  for (const WireFormat format : kModularFormats) {
    const auto range = static_cast<float>(2 * (largest_code(format) + 1));
    const std::vector<std::vector<float>> wraps = {
        {0.6f * range},
        {-0.6f * range},
        {range},
        {-2.0f * range},
        {5.3f * range},
        {range, range},
        {range, -range},
        {-range, -range},
        {2.0f * range, -range},
        {range, range, range},
        {range, -range, range, -range},
    };
    for (const auto& steps : wraps) {
      for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        CAPTURE(seed);
        CAPTURE(to_string(format));
        CAPTURE(steps.size());
        const Exchanged e = exchange_with(format, seed, steps);
        REQUIRE(e.report.blocks_skipped == 1);
        const float reach = lattice_step(-20) * static_cast<float>(largest_code(format));
        for (const auto& blocks : {e.blocks, e.made_blocks}) {
          REQUIRE(blocks[0].skipped_reach == 0.0f);
          REQUIRE(blocks[1].skipped_reach == reach);
          REQUIRE(blocks[2].skipped_reach == 0.0f);
        }
        for (std::size_t i = 0; i < kBlockParameters; ++i) {
          REQUIRE(e.difference[kBlockParameters + i] == 0.0f);
        }
        REQUIRE(e.made.blocks_skipped == 1);
      }
    }
  }
}

TEST_CASE("twenty thousand clean blocks raise no alarm") {
  for (const WireFormat format : kModularFormats) {
    CAPTURE(to_string(format));
    Rng rng(61);
    const auto initiator = normal_values(rng, kStripeParameters, 1.0f);
    std::vector<float> responder = initiator;
    const double reach = lattice_step(-20) * (largest_code(format) - 0.01);
    for (float& value : responder) {
      value += static_cast<float>(reach * (2.0 * rng.unit() - 1.0));
    }
    std::vector<std::byte> delta(delta_bytes(format, kStripeParameters));
    for (std::uint64_t key = 0; key < 40; ++key) {
      CAPTURE(key);
      const auto push = push_of(format, key, initiator, -20);
      auto made = make_delta(key, push, responder, 0.0f, delta);
      REQUIRE(made.ok());
      REQUIRE(made.value().blocks_skipped == 0);
    }
  }
}

TEST_CASE("a difference of exactly half the range never moves a parameter") {
  for (const WireFormat format : kModularFormats) {
    CAPTURE(to_string(format));
    const auto half = static_cast<float>(largest_code(format) + 1);
    const Exchanged below = exchange_stripe(format, 71, {0.0f, 0.0f}, {-half, 2.0f}, 0);
    CHECK(below.difference == std::vector<float>{0.0f, 2.0f});
    const Exchanged above = exchange_stripe(format, 71, {0.0f, 0.0f}, {half, 2.0f}, 0);
    CHECK(above.difference == std::vector<float>{0.0f, 0.0f});
    CHECK(above.report.blocks_skipped == 1);
  }
}

TEST_CASE("a responder whose weights have no coordinate skips the block") {
  std::vector<float> initiator(2000, 0.0f);
  std::vector<float> responder = initiator;
  responder[3] = 3e38f;
  responder[1500] = 2.0f;
  const Exchanged e = exchange_stripe(WireFormat::kMod8, 81, initiator, responder, 0);
  CHECK(e.report.blocks_skipped == 1);
  CHECK(e.difference[3] == 0.0f);
  CHECK(e.difference[1500] == 2.0f);
}

}  // namespace starling::optim
