// The codec against bytes from a hostile or broken peer: an error or a finite result, never more.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/rng.h"
#include "optim/fragment_codec.h"
#include "tests/optim/codec_support.h"

namespace starling::optim {

namespace {

constexpr std::size_t kCount = 1500;

// What a peer does with a received PUSH. True: accepted; then every value must be finite.
bool survive_push(std::span<const std::byte> push, const std::vector<float>& slow) {
  auto format = push_format(push, slow.size());
  if (!format.ok()) {
    CHECK(format.error().code() == ErrorCode::kProtocol);
    return false;
  }
  std::vector<std::byte> delta(delta_bytes(format.value(), slow.size()));
  auto made = make_delta(9, push, slow, 0.0f, delta);
  if (!made.ok()) {
    CHECK(made.error().code() == ErrorCode::kProtocol);
    return false;
  }
  REQUIRE(std::isfinite(made.value().rms));
  std::vector<float> difference(slow.size());
  REQUIRE(decode_delta(delta, difference).ok());
  REQUIRE(std::all_of(difference.begin(), difference.end(),
                      [](float value) { return std::isfinite(value); }));
  return true;
}

bool survive_delta(std::span<const std::byte> delta) {
  std::vector<float> difference(kCount);
  auto decoded = decode_delta(delta, difference);
  if (!decoded.ok()) {
    CHECK(decoded.error().code() == ErrorCode::kProtocol);
    return false;
  }
  REQUIRE(std::isfinite(decoded.value().rms));
  REQUIRE(decoded.value().clip_factor > 0.0f);
  REQUIRE(decoded.value().clip_factor <= 1.0f);
  REQUIRE(std::all_of(difference.begin(), difference.end(),
                      [](float value) { return std::isfinite(value); }));
  return true;
}

struct Sample {
  std::vector<float> initiator, responder;
};

Sample sample_of(std::uint64_t seed) {
  Rng rng(seed);
  Sample sample;
  sample.initiator = normal_values(rng, kCount, 1.0f);
  sample.responder = plus(sample.initiator, normal_values(rng, kCount, 0.01f));
  return sample;
}

Exchanged exchange_sample(WireFormat format, const Sample& sample) {
  return exchange_stripe(format, 9, sample.initiator, sample.responder, -28);
}

void flip(std::vector<std::byte>& bytes, std::size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
}

}  // namespace

TEST_CASE("every truncation and every surplus byte is refused") {
  const Sample sample = sample_of(1);
  for (const WireFormat format : kWireFormats) {
    CAPTURE(to_string(format));
    const Exchanged e = exchange_sample(format, sample);
    CHECK(survive_push(e.push, sample.responder));
    CHECK(survive_delta(e.delta));
    for (std::size_t size = 0; size < e.push.size(); ++size) {
      REQUIRE(!survive_push(std::span(e.push).first(size), sample.responder));
    }
    for (std::size_t size = 0; size < e.delta.size(); ++size) {
      REQUIRE(!survive_delta(std::span(e.delta).first(size)));
    }
    std::vector<std::byte> longer = e.push;
    longer.push_back(std::byte{0});
    CHECK(!survive_push(longer, sample.responder));
    longer = e.delta;
    longer.push_back(std::byte{0});
    CHECK(!survive_delta(longer));
  }
}

TEST_CASE("a payload for another number of parameters is refused") {
  const Sample sample = sample_of(2);
  for (const WireFormat format : kWireFormats) {
    const Exchanged e = exchange_sample(format, sample);
    CHECK(!push_format(e.push, kCount + 1).ok());
    CHECK(!push_format(e.push, kCount - 1).ok());
  }
}

TEST_CASE("every flipped bit of a header is refused or harmless") {
  const Sample sample = sample_of(3);
  for (const WireFormat format : kWireFormats) {
    CAPTURE(to_string(format));
    const Exchanged e = exchange_sample(format, sample);
    for (std::size_t bit = 0; bit < kPayloadHeaderBytes * 8; ++bit) {
      CAPTURE(bit);
      std::vector<std::byte> push = e.push;
      flip(push, bit);
      CHECK(!survive_push(push, sample.responder));
      std::vector<std::byte> delta = e.delta;
      flip(delta, bit);
      // The clip factor, 1 here, may become another factor in (0, 1].
      const bool accepted = survive_delta(delta);
      CHECK((!accepted || bit >= 64));
    }
  }
}

TEST_CASE("flipped bits in a body give an error or finite values") {
  const Sample sample = sample_of(4);
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    for (const WireFormat format : kWireFormats) {
      CAPTURE(to_string(format));
      Exchanged e = exchange_sample(format, sample);
      for (std::uint64_t flips = 1 + rng.below(8); flips > 0; --flips) {
        flip(e.push, kPayloadHeaderBytes * 8 + rng.below((e.push.size() - 12) * 8));
        flip(e.delta, kPayloadHeaderBytes * 8 + rng.below((e.delta.size() - 12) * 8));
      }
      survive_push(e.push, sample.responder);
      survive_delta(e.delta);
    }
  }
}

TEST_CASE("random bytes under a valid header give an error or finite values") {
  const Sample sample = sample_of(5);
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    for (const WireFormat format : kWireFormats) {
      CAPTURE(to_string(format));
      std::vector<std::byte> push = push_of(format, 9, sample.initiator, -28);
      std::vector<std::byte> delta(delta_bytes(format, kCount));
      std::copy_n(push.begin(), kPayloadHeaderBytes, delta.begin());
      for (std::size_t i = kPayloadHeaderBytes; i < push.size(); ++i) {
        push[i] = static_cast<std::byte>(rng.next());
      }
      for (std::size_t i = kPayloadHeaderBytes; i < delta.size(); ++i) {
        delta[i] = static_cast<std::byte>(rng.next());
      }
      survive_push(push, sample.responder);
      survive_delta(delta);
    }
  }
}

TEST_CASE("random bytes of any length are refused") {
  const Sample sample = sample_of(6);
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    std::vector<std::byte> bytes(rng.below(8000));
    for (std::byte& value : bytes) value = static_cast<std::byte>(rng.next());
    CHECK(!survive_push(bytes, sample.responder));
    CHECK(!survive_delta(bytes));
  }
}

TEST_CASE("pushed or decoded values that are not finite are the fault of their sender") {
  const Sample sample = sample_of(7);
  const float bad_values[] = {std::nanf(""), std::numeric_limits<float>::infinity()};
  for (const WireFormat format : {WireFormat::kF32, WireFormat::kBf16}) {
    for (const float bad : bad_values) {
      Exchanged e = exchange_sample(format, sample);
      const std::size_t bytes = static_cast<std::size_t>(code_bits(format)) / 8;
      // The upper bytes of a float are the bytes of its bf16.
      const auto* upper = reinterpret_cast<const std::byte*>(&bad) + sizeof(bad) - bytes;
      std::memcpy(e.push.data() + kPayloadHeaderBytes + 100 * bytes, upper, bytes);
      std::memcpy(e.delta.data() + kPayloadHeaderBytes + 100 * bytes, upper, bytes);
      CHECK(!survive_push(e.push, sample.responder));
      CHECK(!survive_delta(e.delta));
    }
  }
}

TEST_CASE("a pushed value so far away that the difference overflows is refused") {
  const std::vector<float> far(kCount, -3e38f);
  const std::vector<float> slow(kCount, 3e38f);
  CHECK(!survive_push(push_of(WireFormat::kF32, 9, far, 0), slow));
  CHECK(!survive_push(push_of(WireFormat::kBf16, 9, far, 0), slow));
}

TEST_CASE("clipping a difference of any size leaves a factor above zero") {
  const std::vector<float> far(kCount, -1e38f);
  const std::vector<float> slow(kCount, 1e38f);
  const Exchanged e = exchange_stripe(WireFormat::kF32, 9, far, slow, 0, 1e-12f);
  CHECK(e.report.clip_factor > 0.0f);
  CHECK(e.report.rms < 10.0);
}

TEST_CASE("bits and codes that mean nothing are refused") {
  const Sample sample = sample_of(8);
  for (const WireFormat format : kModularFormats) {
    CAPTURE(to_string(format));
    const Exchanged e = exchange_sample(format, sample);
    // DELTA of two blocks: a bitmap of one byte, two exponents, codes.
    std::vector<std::byte> delta = e.delta;
    delta[kPayloadHeaderBytes] = std::byte{4};
    CHECK(!survive_delta(delta));
    delta = e.delta;
    delta[kPayloadHeaderBytes + 1] = std::byte{0x80};
    CHECK(!survive_delta(delta));
    delta = e.delta;
    BlockIntegers codes{};
    codes[500] = -largest_code(format) - 1;
    pack(code_bits(format), codes, kBlockParameters, delta.data() + kPayloadHeaderBytes + 3);
    CHECK(!survive_delta(delta));
    delta[kPayloadHeaderBytes] = std::byte{3};
    CHECK(survive_delta(delta));
  }
}

TEST_CASE("a format that is none of ours is refused") {
  const Sample sample = sample_of(10);
  Exchanged e = exchange_sample(WireFormat::kMod4, sample);
  for (std::size_t number = kWireFormats.size(); number < 256; ++number) {
    e.push[0] = e.delta[0] = static_cast<std::byte>(number);
    REQUIRE(!survive_push(e.push, sample.responder));
    REQUIRE(!survive_delta(e.delta));
  }
}

}  // namespace starling::optim
