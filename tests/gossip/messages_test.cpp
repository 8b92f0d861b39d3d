#include "gossip/messages.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <string>

#include "gossip/actions.h"

namespace starling::gossip {

TEST_CASE("an address takes any host that fits and nothing else") {
  PeerAddress address;
  address.control_port = 7700;
  REQUIRE(set_host(address, "example.org"));
  CHECK(host(address) == "example.org");
  CHECK(to_string(address) == "example.org:7700");
  CHECK_FALSE(set_host(address, ""));
  CHECK_FALSE(set_host(address, std::string(kHostBytesMax + 1, 'x')));
  CHECK(host(address) == "example.org");
  REQUIRE(set_host(address, std::string(kHostBytesMax, 'x')));
  REQUIRE(set_host(address, "::1"));
  CHECK(to_string(address) == "[::1]:7700");
}

TEST_CASE("refutations stand below the process in a record's key and nowhere else") {
  const PeerKey process{PeerId{4}, 12};
  const PeerRecord first{record_key(process, 0), {}, Health::kAlive};
  const PeerRecord denied{record_key(process, 3), {}, Health::kAlive};
  const PeerRecord restarted{record_key({PeerId{4}, 13}, 0), {}, Health::kAlive};
  CHECK(process_of(first) == process);
  CHECK(process_of(denied) == process);
  CHECK(first.key < denied.key);
  CHECK(denied.key < restarted.key);
}

TEST_CASE("every part of a stripe's name changes its dither") {
  const StripeRef ref{{{PeerId{1}, 2}, {PeerId{3}, 4}, 5}, FragmentId{6}, 7, 0};
  std::set<std::uint64_t> keys{dither_key(ref)};
  StripeRef other = ref;
  other.attempt = 1;
  keys.insert(dither_key(other));
  other = ref;
  other.stripe = 8;
  keys.insert(dither_key(other));
  other = ref;
  other.fragment = FragmentId{7};
  keys.insert(dither_key(other));
  other = ref;
  other.exchange.counter = 6;
  keys.insert(dither_key(other));
  other = ref;
  std::swap(other.exchange.initiator, other.exchange.responder);
  keys.insert(dither_key(other));
  CHECK(keys.size() == 6);
  CHECK(dither_key(ref) == dither_key(StripeRef(ref)));
}

TEST_CASE("all attempts at a stripe have one key and no other stripe has it") {
  const StripeRef ref{{{PeerId{1}, 2}, {PeerId{3}, 4}, 5}, FragmentId{6}, 7, 3};
  StripeRef again = ref;
  again.attempt = 4;
  StripeRef other = ref;
  other.stripe = 8;
  CHECK(stripe_key(ref) == stripe_key(again));
  CHECK(stripe_key(ref).attempt == 0);
  CHECK(stripe_key(ref) != stripe_key(other));
}

TEST_CASE("terms are sound where weight and mixing are fractions and the clip radius a length") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto sound = [](float weight, float mixing, float clip_radius) {
    Offer offer;
    Accept accept;
    offer.weight = accept.weight = weight;
    offer.mixing = accept.mixing = mixing;
    offer.clip_radius = accept.clip_radius = clip_radius;
    CHECK(has_sound_terms(offer) == has_sound_terms(accept));
    return has_sound_terms(offer);
  };
  CHECK(sound(0, 0, 0));
  CHECK(sound(1, 1, 1e30F));
  for (const float bad : {-0.1F, kNan, kInfinity, -kInfinity}) {
    CAPTURE(bad);
    CHECK_FALSE(sound(bad, 0.5F, 1));
    CHECK_FALSE(sound(1, bad, 1));
    CHECK_FALSE(sound(1, 0.5F, bad));
  }
  CHECK(sound(1, 1, kClipRadiusMin));
  CHECK_FALSE(sound(1, 1, 1e-44F));
  CHECK_FALSE(sound(1.1F, 0.5F, 1));
  CHECK_FALSE(sound(1, 1.1F, 1));
}

TEST_CASE("only heads of payloads travel on the bulk lane") {
  CHECK(is_bulk(Push{}));
  CHECK(is_bulk(Delta{}));
  CHECK_FALSE(is_bulk(Commit{}));
  CHECK_FALSE(is_bulk(Ping{}));
}

TEST_CASE("reasons, health and outcomes have names of their own") {
  std::set<std::string_view> names;
  for (const auto reason : {RefuseReason::kProtocol, RefuseReason::kRun, RefuseReason::kModel,
                            RefuseReason::kLayout, RefuseReason::kSelf}) {
    names.insert(to_string(reason));
  }
  for (const auto reason :
       {DeclineReason::kBusy, DeclineReason::kLeased, DeclineReason::kUnknownPeer,
        DeclineReason::kBadOffer, DeclineReason::kClosing, DeclineReason::kResting}) {
    names.insert(to_string(reason));
  }
  for (const auto health : {Health::kAlive, Health::kSuspect, Health::kDead, Health::kLeft}) {
    names.insert(to_string(health));
  }
  for (const auto outcome : {Outcome::kCompleted, Outcome::kPartial, Outcome::kDeclined,
                             Outcome::kTimedOut, Outcome::kPeerLost, Outcome::kAborted}) {
    names.insert(to_string(outcome));
  }
  CHECK(names.size() == 21);
}

}  // namespace starling::gossip
