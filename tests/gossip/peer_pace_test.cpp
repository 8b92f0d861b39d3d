#include "gossip/peer_pace.h"

#include <doctest/doctest.h>

#include <utility>

namespace starling::gossip {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::size_t kMiB = 1 << 20;
constexpr Instant kStart{};

// Behind others, so that all of the time was its own.
void answer(PeerPace& pace, std::size_t bytes, Duration taken) {
  pace.on_answer(
      bytes, {.sent = kStart, .before = kStart + hours(1), .answered = kStart + hours(1) + taken});
}

}  // namespace

TEST_CASE("nothing is known before anything was measured") {
  const PeerPace pace;
  CHECK_FALSE(pace.answer_within());
  CHECK(to_seconds(pace.payload_within(125'000)) == doctest::Approx(4.0));  // 1 Mbit/s, four times
  CHECK(pace.payloads_under_way(kMiB, seconds(2)) == 1);
}

TEST_CASE("the round trip follows RFC 6298") {
  PeerPace pace;
  pace.on_round_trip(milliseconds(100));
  CHECK(pace.round_trip() == milliseconds(100));
  CHECK(*pace.answer_within() == milliseconds(300));  // 100 + 4 * 50
  pace.on_round_trip(milliseconds(180));
  // rttvar = (3 * 50 + 80) / 4 = 57.5 and srtt = (7 * 100 + 180) / 8 = 110
  CHECK(pace.round_trip() == milliseconds(110));
  CHECK(*pace.answer_within() == milliseconds(340));
  for (int i = 0; i < 200; ++i) pace.on_round_trip(milliseconds(50));
  CHECK(to_seconds(*pace.answer_within()) == doctest::Approx(0.05).epsilon(0.01));
}

TEST_CASE("a payload may take four times what the measured rate says") {
  PeerPace pace;
  pace.on_round_trip(milliseconds(0));
  for (int i = 0; i < 10; ++i) answer(pace, kMiB, seconds(1));
  CHECK(to_seconds(pace.payload_within(kMiB)) == doctest::Approx(4.0));
  CHECK(to_seconds(pace.payload_within(kMiB / 2)) == doctest::Approx(2.0));
  CHECK(pace.payloads_under_way(kMiB, seconds(2)) == 2);
  CHECK(pace.payloads_under_way(16 * kMiB, seconds(2)) == 1);
}

TEST_CASE("the round trip of a payload that was alone on the line is not its transfer") {
  PeerPace pace;
  pace.on_round_trip(milliseconds(600));
  pace.on_answer(kMiB, {.sent = kStart, .before = kStart, .answered = kStart + milliseconds(1000)});
  // 600 + 4 * 300 for the question, four times 400 for the transfer
  CHECK(to_seconds(pace.payload_within(kMiB)) == doctest::Approx(1.8 + 1.6));
  PeerPace quicker;  // than its round trip used to be: a quarter counts at least
  quicker.on_round_trip(milliseconds(600));
  quicker.on_answer(kMiB,
                    {.sent = kStart, .before = kStart, .answered = kStart + milliseconds(400)});
  CHECK(to_seconds(quicker.payload_within(kMiB)) == doctest::Approx(1.8 + 0.4));
}

TEST_CASE("small payloads that measure mostly the round trip do not make a slow line look fast") {
  PeerPace pace;
  for (int i = 0; i < 50; ++i) answer(pace, 1000, milliseconds(10));
  CHECK(pace.payload_within(kMiB) > seconds(9));  // 100 kB/s: a guess on the safe side
  for (int i = 0; i < 5; ++i) answer(pace, kMiB, milliseconds(10));
  CHECK(pace.payload_within(kMiB) < milliseconds(100));
}

TEST_CASE("silence doubles the patience until an answer comes, and stays in range") {
  PeerPace pace;
  answer(pace, kMiB, seconds(1));
  const Duration before = pace.payload_within(kMiB);
  pace.on_silence();
  CHECK(pace.payload_within(kMiB) == 2 * before);
  for (int i = 0; i < 100; ++i) pace.on_silence();
  CHECK(pace.payload_within(kMiB) == 64 * before);
  answer(pace, kMiB, seconds(1));
  CHECK(pace.payload_within(kMiB) == before);
  answer(pace, 1, hours(1000));
  CHECK(pace.payload_within(kMiB) > Duration::zero());
}

TEST_CASE("what began before a pause of our own measures nothing") {
  // After a pause the times of what is under way are moved on, beyond the answer's arrival.
  PeerPace pace;
  pace.on_round_trip(milliseconds(-900));
  CHECK_FALSE(pace.answer_within());
  pace.on_round_trip(milliseconds(100));
  pace.on_round_trip(-minutes(2));
  CHECK(pace.round_trip() == milliseconds(100));
  answer(pace, kMiB, seconds(1));
  const Duration before = pace.payload_within(kMiB);
  answer(pace, kMiB, -minutes(2));
  CHECK(pace.payload_within(kMiB) == before);
}

TEST_CASE("nobody is taken to be faster than payloads lately were, whoever they went to") {
  Paces paces;
  const auto answered = [&paces](std::uint64_t peer, std::size_t bytes, Duration taken) {
    paces.on_payload(kStart, PeerId{peer}, bytes,
                     {.sent = kStart, .before = kStart, .answered = kStart + taken});
  };
  const auto within = [&paces](std::uint64_t peer) {
    return to_seconds(paces.payload_within(kStart, PeerId{peer}, 125'000));
  };
  CHECK(within(1) == doctest::Approx(4.0));  // 1 Mbit/s, four times
  answered(1, 125'000, seconds(10));
  CHECK(within(1) == doctest::Approx(40.0));
  CHECK(within(2) == doctest::Approx(40.0));  // of whom nothing is known
  // What was waited for in vain counts as if it had come at last.
  paces.on_silence(kStart, PeerId{3}, 125'000, seconds(30));
  const double mean = (0.875 * 10 + 30) / 1.875;
  CHECK(within(2) == doctest::Approx(4 * mean));
  CHECK(within(3) == doctest::Approx(2 * 4 * mean));  // its own silence doubles that
  // Among fast ones it is forgotten, and they never are waited for much longer than they need.
  for (int i = 0; i < 60; ++i) answered(4, 125'000, milliseconds(10));
  CHECK(within(4) < 0.2);
  CHECK(within(2) == doctest::Approx(4.0));
  CHECK(within(1) == doctest::Approx(40.0));
  // Whoever only wants to know makes no row.
  const std::size_t rows = paces.size();
  CHECK(to_seconds(std::as_const(paces).payload_within(PeerId{1}, 125'000)) == within(1));
  CHECK(std::as_const(paces).payload_within(PeerId{9}, 125'000) == Duration::zero());
  CHECK(paces.size() == rows);
}

TEST_CASE("only the answer to the last question is a round trip") {
  Paces paces;
  paces.on_asked(kStart, PeerId{1}, 5);
  paces.on_answered(kStart + seconds(1), PeerId{1}, 4);
  paces.on_answered(kStart + seconds(1), PeerId{2}, 5);
  CHECK_FALSE(paces.of(kStart, PeerId{1}).answer_within());
  paces.on_answered(kStart + seconds(2), PeerId{1}, 5);
  paces.on_answered(kStart + minutes(2), PeerId{1}, 5);  // a copy
  CHECK(paces.of(kStart, PeerId{1}).round_trip() == seconds(2));
}

TEST_CASE("the peer not used for longest makes room") {
  Paces paces;
  for (std::uint64_t id = 1; id <= Paces::kRowsMax; ++id) {
    paces.of(kStart + seconds(id), PeerId{id}).on_round_trip(milliseconds(10));
  }
  const Instant now = kStart + hours(1);
  CHECK(paces.of(now, PeerId{1}).answer_within());
  static_cast<void>(paces.of(now, PeerId{Paces::kRowsMax + 1}));
  CHECK(paces.of(now, PeerId{1}).answer_within());
  CHECK_FALSE(paces.of(now, PeerId{2}).answer_within());
}

}  // namespace starling::gossip
