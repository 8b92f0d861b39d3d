#include "gossip/token_bucket.h"

#include <doctest/doctest.h>

#include <array>

#include "base/rng.h"

namespace starling::gossip {
namespace {

constexpr Instant kStart{};

// Bytes that leave within `span` if frames of `bytes` always wait to go.
template <class Draw>
std::uint64_t taken_within(TokenBucket& bucket, Duration span, Draw&& draw_bytes) {
  std::uint64_t taken = 0;
  for (Instant now = kStart; now < kStart + span;) {
    const Duration wait = bucket.wait(now);
    if (wait > Duration::zero()) {
      now += wait;
      continue;
    }
    const std::size_t bytes = draw_bytes();
    bucket.take(now, bytes);
    taken += bytes;
  }
  return taken;
}

}  // namespace

TEST_CASE("over a minute exactly the rate goes through, whatever the frames") {
  constexpr double kRate = 125'000;  // 1 Mbit/s
  for (const std::size_t frame : {std::size_t{100}, std::size_t{4096}, std::size_t{1} << 20}) {
    CAPTURE(frame);
    TokenBucket bucket(kRate, kRate / 20, kStart);
    const auto taken = taken_within(bucket, std::chrono::seconds(60), [frame] { return frame; });
    const double most = kRate * 60 + kRate / 20 + static_cast<double>(frame);
    CHECK(static_cast<double>(taken) <= most);
    CHECK(static_cast<double>(taken) >= kRate * 60 - static_cast<double>(frame));
  }
}

TEST_CASE("frames of all sizes together keep the rate") {
  Rng rng(7);
  constexpr double kRate = 1e6;
  TokenBucket bucket(kRate, 50'000, kStart);
  const auto taken = taken_within(bucket, std::chrono::seconds(60), [&rng] {
    return static_cast<std::size_t>(rng.below(std::uint64_t{1} << 20));
  });
  CHECK(static_cast<double>(taken) == doctest::Approx(kRate * 60).epsilon(0.02));
}

TEST_CASE("what was not used is kept up to the burst and no further") {
  TokenBucket bucket(1000, 500, kStart);
  const Instant later = kStart + std::chrono::hours(1);
  std::uint64_t taken = 0;
  while (bucket.may_take(later)) {
    bucket.take(later, 100);
    taken += 100;
  }
  CHECK(taken == 500);
  CHECK(bucket.wait(later) > Duration::zero());
  CHECK(bucket.wait(later) <= std::chrono::milliseconds(1));
}

TEST_CASE("a bucket without a rate never makes anybody wait") {
  TokenBucket bucket;
  for (int i = 0; i < 1000; ++i) bucket.take(kStart, std::size_t{1} << 30);
  CHECK(bucket.may_take(kStart));
  CHECK(bucket.wait(kStart) == Duration::zero());
}

TEST_CASE(
    "what others bring about delays what waits by so much, whatever it was, and no payload's "
    "debt") {
  constexpr double kRate = 1.25e6;  // 10 Mbit/s
  TokenBucket bucket(kRate, kRate / 20, kStart);
  Instant now = kStart;
  for (; now < kStart + std::chrono::minutes(1); now += std::chrono::milliseconds(1)) {
    bucket.charge(now, 12'500);  // 100 Mbit/s
  }
  CHECK(bucket.wait(now) <= TokenBucket::kChargedMax + std::chrono::milliseconds(1));
  // Where it goes on payloads wait: it is in the limit as far as it fits.
  CHECK_FALSE(bucket.may_take(now));
  now += bucket.wait(now);
  bucket.take(now, 12'500'000);
  bucket.charge(now, 12'500'000);
  CHECK(to_seconds(bucket.wait(now)) == doctest::Approx(10).epsilon(0.01));
}

}  // namespace starling::gossip
