#include "gossip/net/payload_queues.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace starling::gossip {
namespace {

using Frame = PayloadQueues::Frame;
constexpr Instant kStart{};
constexpr std::size_t kBytes = 1000;

// Lines that take what they are told to and write down in which order.
struct Lines {
  std::set<std::uint64_t> busy, broken;
  std::vector<std::uint64_t> sent, failed;
  Duration patience{};  // with a payload, as far as known

  bool pump(PayloadQueues& queues, Instant now) {
    return queues.pump(
        now,
        [this](PeerId peer, Frame&) {
          if (busy.count(peer.value) != 0) return Sending::kBusy;
          if (broken.count(peer.value) != 0) return Sending::kFailed;
          sent.push_back(peer.value);
          return Sending::kSent;
        },
        [this](PeerId peer) { failed.push_back(peer.value); },
        [this](PeerId, std::size_t) { return patience; });
  }
};

void push(PayloadQueues& queues, std::uint64_t peer, int count = 1) {
  static std::uint32_t stripe = 0;  // another one each
  for (int i = 0; i < count; ++i) {
    StripeRef ref;
    ref.stripe = stripe++;
    queues.push(PeerId{peer}, {Push{ref}, std::nullopt, kBytes});
  }
}

}  // namespace

TEST_CASE("peers take turns, frame by frame") {
  PayloadQueues queues{TokenBucket()};
  push(queues, 1, 3);
  push(queues, 2, 1);
  push(queues, 3, 2);
  Lines lines;
  CHECK(lines.pump(queues, kStart));
  CHECK(lines.sent == std::vector<std::uint64_t>{1, 2, 3, 1, 3, 1});
  CHECK(queues.empty());
  CHECK_FALSE(lines.pump(queues, kStart));
}

TEST_CASE("that something has moved is told also where the limit ends the round") {
  PayloadQueues queues{TokenBucket(1000, 10, kStart)};
  push(queues, 1);
  push(queues, 2);
  Lines lines;
  CHECK(lines.pump(queues, kStart));
  CHECK(lines.sent == std::vector<std::uint64_t>{1});
  CHECK_FALSE(lines.pump(queues, kStart));
}

TEST_CASE("a line that takes nothing holds up nobody else and loses its queue in the end") {
  PayloadQueues queues{TokenBucket()};
  push(queues, 1, 3);
  push(queues, 2, 3);
  Lines lines;
  lines.busy = {1};
  CHECK(lines.pump(queues, kStart));
  CHECK(lines.sent == std::vector<std::uint64_t>{2, 2, 2});
  CHECK_FALSE(lines.pump(queues, kStart + PayloadQueues::kStuckMin));
  CHECK(queues.frames() == 3);
  CHECK(lines.pump(queues, kStart + PayloadQueues::kStuckMin + Duration(1)));
  CHECK(queues.empty());
  CHECK(queues.dropped() == 3);
}

TEST_CASE("a line that is known to be slow keeps its queue for longer, and not for ever") {
  for (const Duration patience : {Duration(std::chrono::minutes(5)), Duration::max()}) {
    PayloadQueues queues{TokenBucket()};
    push(queues, 1, 3);
    Lines lines;
    lines.busy = {1};
    lines.patience = patience;
    const Duration kept = std::min<Duration>(patience, PayloadQueues::kStuckMax);
    CHECK_FALSE(lines.pump(queues, kStart));
    CHECK_FALSE(lines.pump(queues, kStart + kept));
    CHECK(queues.frames() == 3);
    CHECK(lines.pump(queues, kStart + kept + Duration(1)));
    CHECK(queues.empty());
  }
}

TEST_CASE("a line that moves now and then is not stuck") {
  PayloadQueues queues{TokenBucket()};
  push(queues, 1, 4);
  Lines lines;
  Instant now = kStart;
  for (int frame = 1; frame <= 4; ++frame) {
    lines.busy = {1};
    lines.pump(queues, now);
    now += PayloadQueues::kStuckMin;
    lines.pump(queues, now);
    lines.busy.clear();
    push(queues, 1);
    queues.pump(
        now,
        [&](PeerId, Frame&) {
          return lines.sent.size() < std::size_t(frame) ? (lines.sent.push_back(1), Sending::kSent)
                                                        : Sending::kBusy;
        },
        [](PeerId) {}, [](PeerId, std::size_t) { return Duration{}; });
  }
  CHECK(lines.sent.size() == 4);
  CHECK(queues.dropped() == 0);
}

TEST_CASE("the upload limit is kept over a minute and shared evenly") {
  constexpr double kRate = 50'000;
  PayloadQueues queues{TokenBucket(kRate, kRate / 20, kStart)};
  Lines lines;
  std::map<std::uint64_t, int> pushed;
  for (Instant now = kStart; now < kStart + std::chrono::minutes(1);
       now += std::chrono::milliseconds(5)) {
    for (const std::uint64_t peer : {1, 2, 3}) {
      const auto sent = std::count(lines.sent.begin(), lines.sent.end(), peer);
      if (pushed[peer] >= sent + 10) continue;
      push(queues, peer);
      ++pushed[peer];
    }
    queues.charge(now, 25);  // small messages: a tenth of the rate
    lines.pump(queues, now);
  }
  const auto bytes = static_cast<double>(lines.sent.size() * kBytes);
  CHECK(bytes == doctest::Approx(0.9 * kRate * 60).epsilon(0.01));
  std::map<std::uint64_t, int> shares;
  for (const std::uint64_t peer : lines.sent) ++shares[peer];
  for (const auto& [peer, frames] : shares) {
    CAPTURE(peer);
    CHECK(frames == doctest::Approx(static_cast<double>(lines.sent.size()) / 3).epsilon(0.02));
  }
  CHECK(queues.dropped() == 0);
}

TEST_CASE("what waits for a peer is bounded, dropped with it, and failures are told") {
  PayloadQueues queues{TokenBucket()};
  push(queues, 1, static_cast<int>(PayloadQueues::kFramesMax) + 5);
  CHECK(queues.frames() == PayloadQueues::kFramesMax);
  CHECK(queues.dropped() == 5);
  queues.drop(PeerId{1});
  CHECK(queues.empty());
  CHECK(queues.dropped() == 5 + PayloadQueues::kFramesMax);
  push(queues, 2);
  Lines lines;
  lines.broken = {2};
  CHECK(lines.pump(queues, kStart));
  CHECK(lines.failed == std::vector<std::uint64_t>{2});
  CHECK(queues.empty());
}

TEST_CASE("a peer that asks for the same deltas again and reads none holds few slots") {
  constexpr std::size_t kDeltas = 16;
  PayloadQueues queues(TokenBucket(), {kDeltas, SIZE_MAX});
  Lines lines;
  lines.busy = {1};
  for (int again = 0; again < 3; ++again) {
    for (std::uint32_t stripe = 0; stripe < 50; ++stripe) {
      StripeRef ref;
      ref.stripe = stripe;
      ref.attempt = static_cast<std::uint8_t>(again);
      queues.push(PeerId{1}, {Delta{ref}, std::nullopt, kBytes});
    }
    lines.pump(queues, kStart);
    CHECK(queues.frames() == kDeltas);
  }
  // What this peer sends of its own accord, and what others ask for, has its room.
  push(queues, 1, kDeltas);
  for (std::uint32_t stripe = 0; stripe < kDeltas; ++stripe) {
    StripeRef ref;
    ref.stripe = stripe;
    queues.push(PeerId{2}, {Delta{ref}, std::nullopt, kBytes});
  }
  CHECK(queues.frames() == 3 * kDeltas);
  CHECK(lines.pump(queues, kStart));
  CHECK(lines.sent == std::vector<std::uint64_t>(kDeltas, 2));
}

TEST_CASE("deltas that have left the queues count as long as they are in slots, for each and all") {
  PayloadQueues queues(TokenBucket(), {4, 6});
  std::uint32_t stripe = 0;
  const auto push_delta = [&](std::uint64_t peer, const DeltaCount& sent) {
    StripeRef ref;
    ref.stripe = stripe++;
    const std::size_t before = queues.frames();
    queues.push(PeerId{peer}, {Delta{ref}, std::nullopt, kBytes}, sent);
    return queues.frames() > before;
  };
  CHECK(push_delta(1, {3, 3}));
  CHECK_FALSE(push_delta(1, {3, 3}));
  CHECK(push_delta(2, {0, 3}));
  CHECK(push_delta(2, {0, 3}));
  CHECK_FALSE(push_delta(3, {0, 3}));
  CHECK(push_delta(3, {0, 2}));
  CHECK(queues.dropped() == 2);
}

}  // namespace starling::gossip
