// The bodies of payloads, byte by byte, for stripes small enough to work out by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/rng.h"
#include "optim/lattice.h"
#include "optim/lattice_codec.h"
#include "optim/plain_codec.h"
#include "tests/optim/codec_support.h"

namespace starling::optim {

namespace {

std::vector<std::byte> bytes_of(const std::vector<int>& values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

}  // namespace

TEST_CASE("plain bodies are little-endian floats and bf16") {
  const std::vector<float> weights = {1.0f, -2.5f};
  std::vector<std::byte> body(8);
  REQUIRE(plain_codec::encode_push(WireFormat::kF32, weights, body).ok());
  CHECK(body == bytes_of({0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0}));
  body.resize(4);
  REQUIRE(plain_codec::encode_push(WireFormat::kBf16, weights, body).ok());
  CHECK(body == bytes_of({0x80, 0x3F, 0x20, 0xC0}));
  const std::vector<float> other = {3.0f, -2.5f};
  std::vector<std::byte> delta(4);
  auto sums = plain_codec::make_delta(WireFormat::kBf16, body, other, delta, {});
  REQUIRE(sums.ok());
  CHECK(sums.value().difference == 4.0);
  CHECK(sums.value().own == 15.25);
  CHECK(delta == bytes_of({0, 0x40, 0, 0}));
  plain_codec::clip_delta(WireFormat::kBf16, 0.25f, body, other, delta);
  CHECK(delta == bytes_of({0, 0x3F, 0, 0}));
}

TEST_CASE("plain bodies are the same at any address and end where they should") {
  Rng rng(113);
  const auto weights = normal_values(rng, 300, 2.0f);
  for (const WireFormat format : {WireFormat::kF32, WireFormat::kBf16}) {
    const std::size_t size = format == WireFormat::kF32 ? 4 : 2;
    for (const std::size_t count : {1U, 7U, 8U, 9U, 16U, 31U, 32U, 33U, 300U}) {
      for (std::size_t offset = 0; offset < 65; ++offset) {
        CAPTURE(offset);
        CAPTURE(count);
        const std::span<const float> values =
            std::span(weights)
                .subspan(offset % 7)
                .first(std::min(count, weights.size() - offset % 7));
        std::vector<std::byte> memory(size * values.size() + 128, std::byte{0x55});
        const auto body = std::span(memory).subspan(offset, size * values.size());
        REQUIRE(plain_codec::encode_push(format, values, body).ok());
        std::vector<std::byte> expected(memory.size(), std::byte{0x55});
        for (std::size_t i = 0; i < values.size(); ++i) {
          const bf16 rounded = to_bf16(values[i]);
          const void* const bytes = size == 4 ? static_cast<const void*>(&values[i]) : &rounded;
          std::memcpy(expected.data() + offset + size * i, bytes, size);
        }
        REQUIRE(memory == expected);
      }
    }
  }
}

TEST_CASE("own weights that are not finite are refused wherever they stand") {
  for (const float bad : {std::nanf(""), -std::nanf(""), INFINITY, -INFINITY}) {
    for (std::size_t place = 0; place < 70; ++place) {
      CAPTURE(place);
      std::vector<float> weights(70, 1.0f);
      weights[place] = bad;
      std::vector<std::byte> body(4 * weights.size());
      CHECK(!plain_codec::encode_push(WireFormat::kF32, weights, body).ok());
      const auto half = std::span(body).first(2 * weights.size());
      CHECK(!plain_codec::encode_push(WireFormat::kBf16, weights, half).ok());
      std::fill(body.begin(), body.end(), std::byte{0});
      std::vector<std::byte> delta(half.size());
      CHECK(!plain_codec::make_delta(WireFormat::kBf16, half, weights, delta, {}).ok());
      CHECK(!std::isfinite(largest_magnitude(weights)));
    }
  }
}

TEST_CASE("sums of a plain delta are those of what it decodes to") {
  Rng rng(114);
  const auto slow = normal_values(rng, 2500, 2.0f);
  for (const WireFormat format : {WireFormat::kF32, WireFormat::kBf16}) {
    const auto values = normal_values(rng, slow.size(), 2.0f);
    std::vector<std::byte> body(values.size() * (format == WireFormat::kF32 ? 4 : 2));
    REQUIRE(plain_codec::encode_push(format, values, body).ok());
    std::vector<float> decoded(values.size());
    auto sums = plain_codec::decode_delta(format, body, slow, decoded, {});
    REQUIRE(sums.ok());
    CHECK(sums.value().difference ==
          doctest::Approx(measure(decoded).sum_of_squares).epsilon(1e-12));
    CHECK(sums.value().max_abs == measure(decoded).max_abs);
    CHECK(sums.value().own == doctest::Approx(measure(slow).sum_of_squares).epsilon(1e-12));
  }
}

TEST_CASE("a modular PUSH holds checksums then exponents then codes") {
  // Whole numbers of steps: the dither never carries them to the next one.
  const std::vector<float> weights = {0.0f, 3.0f, -2.0f};
  const std::pair<WireFormat, std::vector<std::byte>> expected[] = {
      {WireFormat::kMod8, bytes_of({0, 0, 3, 0xFE})},
      {WireFormat::kMod6, bytes_of({0, 0xE0, 3, 0x30})},
      {WireFormat::kMod5, bytes_of({0, 0xE0, 3, 4})},
      {WireFormat::kMod4, bytes_of({0, 0xE0, 3})}};
  for (const auto& [format, behind_checksums] : expected) {
    CAPTURE(to_string(format));
    std::vector<std::byte> body(lattice_codec::push_body_bytes(format, 3));
    REQUIRE(lattice_codec::encode_push(format, 5, weights, std::vector<std::int8_t>{0}, body).ok());
    BlockWords words;
    draw_words(5, 0, words);
    std::uint32_t sum = 0;
    std::memcpy(&sum, body.data(), sizeof(sum));
    CHECK(sum == (words[1] | 1U) * 3U - (words[2] | 1U) * 2U);
    CHECK(std::vector<std::byte>(body.begin() + 4, body.end()) == behind_checksums);
  }
}

TEST_CASE("codes of six and five bits are a plane of the low four and a plane of the others") {
  // Low halves 1 F 0 F 8 0 E 3 7; above them 0 3 3 0 0 0 3 0 3 or, of one bit, 0 1 1 0 0 0 1 0 1.
  constexpr std::int32_t kValues[] = {1, -1, -16, 15, 8, 0, -2, 3, -9};
  BlockIntegers values{};
  std::copy(std::begin(kValues), std::end(kValues), values.begin());
  const auto packed = [&](int bits) {
    std::vector<std::byte> bytes(packed_bytes(bits, std::size(kValues)));
    pack(bits, values, std::size(kValues), bytes.data());
    return bytes;
  };
  CHECK(packed(6) == bytes_of({0x01, 0xEF, 0x30, 0x7F, 0x08, 0x30, 0x03, 0x33}));
  CHECK(packed(5) == bytes_of({0x01, 0xEF, 0x30, 0x7F, 0x08, 0x1A, 0x01}));
}

TEST_CASE("a modular DELTA holds the skipped blocks then exponents then differences") {
  const std::vector<float> initiator = {0.0f, 3.0f, -2.0f};
  const std::vector<float> responder = {1.0f, 3.0f, -7.0f};
  std::vector<std::byte> push(lattice_codec::push_body_bytes(WireFormat::kMod8, 3));
  std::vector<std::byte> delta(lattice_codec::delta_body_bytes(WireFormat::kMod8, 3));
  const std::vector<std::int8_t> exponents = {0};
  REQUIRE(lattice_codec::encode_push(WireFormat::kMod8, 5, initiator, exponents, push).ok());
  auto made = lattice_codec::make_delta(WireFormat::kMod8, 5, push, responder, delta, {});
  REQUIRE(made.ok());
  CHECK(delta == bytes_of({0, 0, 1, 0, 0xFB}));
  CHECK(made.value().difference == 26.0);
  CHECK(made.value().max_abs == 5.0);
  push[0] ^= std::byte{1};  // the checksum no longer fits
  made = lattice_codec::make_delta(WireFormat::kMod8, 5, push, responder, delta, {});
  REQUIRE(made.ok());
  CHECK(delta == bytes_of({1, 0, 0, 0, 0}));
  CHECK(made.value().blocks_skipped == 1);
}

}  // namespace starling::optim
