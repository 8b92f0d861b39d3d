#include "gossip/conduct.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "gossip/reject_reason.h"

namespace starling::gossip {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Instant kStart{};
constexpr PeerId kPeer{7};

}  // namespace

TEST_CASE("each proven misdeed after a mute doubles the next one, up to a day") {
  Conduct conduct;
  Instant now = kStart;
  Duration expected = Conduct::kFirstMute;
  for (int offence = 0; offence < 12; ++offence) {
    CAPTURE(offence);
    CHECK(conduct.offend(now, kPeer) == expected);
    CHECK(conduct.muted(now, kPeer));
    CHECK(conduct.offend(now + seconds(1), kPeer) == Duration::zero());  // muted as it is
    CHECK(conduct.muted_for(now + seconds(1), kPeer) == expected - seconds(1));
    now += expected;
    CHECK_FALSE(conduct.muted(now, kPeer));
    expected = std::min<Duration>(2 * expected, Conduct::kLongestMute);
  }
}

TEST_CASE("a day of good behaviour after a mute clears the count") {
  Conduct conduct;
  static_cast<void>(conduct.offend(kStart, kPeer));
  const Instant freed = kStart + Conduct::kFirstMute;
  CHECK(conduct.offend(freed, kPeer) == 2 * Conduct::kFirstMute);
  const Instant later = freed + 2 * Conduct::kFirstMute + Conduct::kForgivenAfter;
  CHECK(conduct.offend(later, kPeer) == Conduct::kFirstMute);
}

TEST_CASE("doubts fade by half in thirty minutes and never mute") {
  Conduct conduct;
  for (int i = 0; i < 4; ++i) conduct.doubt(kStart, kPeer);
  CHECK(conduct.doubtful(kStart, kPeer));
  CHECK_FALSE(conduct.muted(kStart, kPeer));
  CHECK(conduct.doubtful(kStart + minutes(12), kPeer));        // 4 * 2^-0.4 = 3.03
  CHECK_FALSE(conduct.doubtful(kStart + minutes(13), kPeer));  // 2.96
  for (int i = 0; i < 1000; ++i) conduct.doubt(kStart, kPeer);
  CHECK_FALSE(conduct.muted(kStart, kPeer));
  CHECK(conduct.doubtful(kStart + minutes(59), kPeer));
  CHECK_FALSE(conduct.doubtful(kStart + minutes(61), kPeer));  // however many there were
}

TEST_CASE("who is silent rests for longer each time, and may offer again sooner") {
  Conduct conduct;
  CHECK_FALSE(conduct.resting(kStart, kPeer));
  Instant now = kStart;
  Duration expected = Conduct::kRestFactor * seconds(60);
  for (int silence = 0; silence < 8; ++silence) {
    CAPTURE(silence);
    conduct.silent(now, kPeer, seconds(60));
    CHECK(conduct.resting(now + expected - seconds(1), kPeer));
    CHECK_FALSE(conduct.resting(now + expected, kPeer));
    const Duration shut_out = std::min(expected, Conduct::kLongestShutOut);
    CHECK(conduct.shut_out(now + shut_out - seconds(1), kPeer));
    CHECK_FALSE(conduct.shut_out(now + shut_out, kPeer));
    now += expected;
    expected = std::min<Duration>(2 * expected, Conduct::kLongestRest);
  }
  CHECK(expected == Conduct::kLongestRest);
  for (int exchange = 0; exchange < 8; ++exchange) conduct.completed(kPeer);
  conduct.silent(now, kPeer, seconds(60));
  CHECK_FALSE(conduct.resting(now + Conduct::kRestFactor * seconds(60), kPeer));
  CHECK_FALSE(conduct.muted(now, kPeer));
}

TEST_CASE("offers come out of a bucket that refills with time") {
  Conduct conduct;
  int taken = 0;
  for (int i = 0; i < 1000; ++i) taken += conduct.takes_offer(kStart, kPeer) ? 1 : 0;
  CHECK(taken == static_cast<int>(Conduct::kOffersAtOnce));
  for (int i = 0; i < 1000; ++i) {
    taken += conduct.takes_offer(kStart + seconds(1), kPeer) ? 1 : 0;
  }
  CHECK(taken == static_cast<int>(Conduct::kOffersAtOnce + Conduct::kOffersPerSecond));
  CHECK(conduct.takes_offer(kStart, PeerId{8}));
}

TEST_CASE("a mute may be told once") {
  Conduct conduct;
  CHECK_FALSE(conduct.tell(kPeer));
  static_cast<void>(conduct.offend(kStart, kPeer));
  CHECK(conduct.tell(kPeer));
  CHECK_FALSE(conduct.tell(kPeer));
  static_cast<void>(conduct.offend(kStart + hours(1), kPeer));
  CHECK(conduct.tell(kPeer));
}

TEST_CASE("the table is bounded and a crowd of strangers does not free a muted peer") {
  Conduct conduct;
  static_cast<void>(conduct.offend(kStart, kPeer));
  for (std::uint64_t id = 100; id < 100 + 5 * Conduct::kRowsMax; ++id) {
    static_cast<void>(conduct.takes_offer(kStart + seconds(1), PeerId{id}));
  }
  CHECK(conduct.size() == Conduct::kRowsMax);
  CHECK(conduct.muted(kStart + seconds(2), kPeer));
  CHECK(conduct.muted(kStart + seconds(2)) == 1);
}

TEST_CASE("every reason has words of its own and somebody to blame or nobody") {
  for (std::size_t i = 0; i < kRejectReasons; ++i) {
    const auto reason = static_cast<RejectReason>(i);
    CHECK(!to_string(reason).empty());
    for (std::size_t j = 0; j < i; ++j) {
      CHECK(to_string(reason) != to_string(static_cast<RejectReason>(j)));
    }
  }
  CHECK(blame_for(RejectReason::kNoRoom) == Blame::kNobody);
  CHECK(blame_for(RejectReason::kFlood) == Blame::kDoubt);
  CHECK(blame_for(RejectReason::kNotFinite) == Blame::kProof);
  CHECK(blame_for(RejectReason::kDamaged) == Blame::kDoubt);
  CHECK(blame_for(RejectReason::kOtherVersion) == Blame::kNobody);
  CHECK(blame_for(RejectReason::kOversized) == Blame::kProof);
  CHECK(blame_for(RejectReason::kSeveralParts) == Blame::kProof);
  CHECK(blame_for(RejectReason::kOthersName) == Blame::kProof);
}

}  // namespace starling::gossip
