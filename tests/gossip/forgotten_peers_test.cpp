#include "gossip/forgotten_peers.h"

#include <doctest/doctest.h>

namespace starling::gossip {
namespace {

using std::chrono::seconds;

constexpr PeerKey kLife{PeerId{7}, 3}, kEarlier{PeerId{7}, 2}, kLater{PeerId{7}, 4};
constexpr Instant kThen = Instant{} + seconds(100);

}  // namespace

TEST_CASE("exchanges of the process that was forgotten stay seen, those of others do not") {
  ForgottenPeers forgotten(10);
  CHECK(forgotten.offers_seen(kLife) == 0);
  forgotten.remember(kLife, 5, false, kThen);
  CHECK(forgotten.offers_seen(kLife) == 5);
  CHECK(forgotten.offers_seen(kLater) == 0);
  CHECK(forgotten.offers_seen(kEarlier) == 0);
  CHECK_FALSE(forgotten.is_stale(kLife, kThen - seconds(1)));  // it is only forgotten
  CHECK(forgotten.is_stale(kEarlier, kThen + seconds(1)));     // but this one has ended
  // Who has lost its number begins anew with a lower one.
  CHECK_FALSE(forgotten.is_stale(kEarlier, kThen + ForgottenPeers::kEarlierTold));
  CHECK_FALSE(forgotten.is_stale(kLater, kThen - seconds(1)));
}

TEST_CASE("whoever was doubted comes back with a later sign of life, or another life, alone") {
  ForgottenPeers forgotten(10);
  forgotten.remember(kLife, 0, true, kThen);
  CHECK(forgotten.is_stale(kLife, kThen));
  CHECK_FALSE(forgotten.is_stale(kLife, kThen + seconds(1)));
  CHECK_FALSE(forgotten.is_stale(kLater, kThen - seconds(50)));
  forgotten.shift(seconds(10));
  CHECK(forgotten.is_stale(kLife, kThen + seconds(10)));
  forgotten.remember(kLife, 0, true, kThen + seconds(30));
  CHECK(forgotten.is_stale(kLife, kThen + seconds(30)));
  CHECK(forgotten.size() == 1);
}

TEST_CASE("of more than there is room for, whoever was forgotten first is forgotten for good") {
  ForgottenPeers forgotten(3);
  for (std::uint64_t id = 1; id <= 3; ++id) forgotten.remember({PeerId{id}, 1}, id, false, kThen);
  forgotten.remember({PeerId{1}, 1}, 10, false, kThen);  // again: now the newest
  forgotten.remember({PeerId{4}, 1}, 4, false, kThen);
  CHECK(forgotten.size() == 3);
  CHECK(forgotten.offers_seen({PeerId{1}, 1}) == 10);
  CHECK(forgotten.offers_seen({PeerId{2}, 1}) == 0);
  CHECK(forgotten.offers_seen({PeerId{3}, 1}) == 3);
  forgotten.remember({PeerId{5}, 1}, 0, false, kThen);  // nothing to remember
  CHECK(forgotten.size() == 3);
}

}  // namespace starling::gossip
