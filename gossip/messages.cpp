#include "gossip/messages.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace starling::gossip {
namespace {

bool is_fraction(float value) { return std::isfinite(value) && value >= 0 && value <= 1; }

template <class Terms>
bool are_sound(const Terms& terms) {
  return is_fraction(terms.weight) && is_fraction(terms.mixing) &&
         std::isfinite(terms.clip_radius) &&
         (terms.clip_radius == 0 || terms.clip_radius >= kClipRadiusMin);
}

}  // namespace

std::optional<std::uint8_t> common_version(Versions ours, Versions theirs) {
  const std::uint8_t highest = std::min(ours.max, theirs.max);
  if (highest < std::max(ours.min, theirs.min)) return std::nullopt;
  return highest;
}

bool set_host(PeerAddress& address, std::string_view host) {
  if (host.empty() || host.size() > kHostBytesMax) return false;
  address.host.clear();
  for (const char letter : host) {
    if (!address.host.try_push(letter)) return false;
  }
  return true;
}

std::string_view host(const PeerAddress& address) {
  return {address.host.begin(), address.host.size()};
}

std::string to_string(const PeerAddress& address) {
  if (address.host.empty()) return "nowhere";
  const std::string_view name = host(address);
  const bool literal_v6 = name.find(':') != std::string_view::npos;
  std::string text = literal_v6 ? "[" + std::string(name) + "]" : std::string(name);
  return text + ":" + std::to_string(address.control_port);
}

bool listens(const PeerAddress& address) { return address.control_port != 0; }

PeerKey process_of(const PeerRecord& record) {
  return {record.key.id, record.key.incarnation >> kRefutationBits};
}

PeerKey record_key(const PeerKey& process, std::uint64_t refutations) {
  return {process.id, process.incarnation << kRefutationBits | refutations};
}

std::uint64_t refutations_of(const PeerRecord& record) {
  return record.key.incarnation & ((std::uint64_t{1} << kRefutationBits) - 1);
}

StripeRef stripe_key(StripeRef ref) {
  ref.attempt = 0;
  return ref;
}

std::uint64_t dither_key(const StripeRef& ref) {
  std::uint64_t key = mix64(ref.exchange.initiator.id.value);
  for (const std::uint64_t part :
       {ref.exchange.initiator.incarnation, ref.exchange.responder.id.value,
        ref.exchange.responder.incarnation, ref.exchange.counter, std::uint64_t{ref.fragment.value},
        std::uint64_t{ref.stripe}, std::uint64_t{ref.attempt}}) {
    key = mix64(key ^ part);
  }
  return key;
}

bool has_sound_terms(const Offer& offer) { return are_sound(offer); }
bool has_sound_terms(const Accept& accept) { return are_sound(accept); }

bool is_about_trust(RefuseReason reason) {
  return reason == RefuseReason::kNotAllowed || reason == RefuseReason::kSecret;
}

std::string_view to_string(RefuseReason reason) {
  switch (reason) {
    case RefuseReason::kProtocol: return "another protocol version";
    case RefuseReason::kRun: return "another training run";
    case RefuseReason::kModel: return "another model or tokenizer";
    case RefuseReason::kLayout: return "another parameter layout";
    case RefuseReason::kSelf: return "the same key";
    case RefuseReason::kNotAllowed: return "a key that is not on the allow-list";
    case RefuseReason::kSecret: return "another swarm secret, or none";
  }
  return "unknown reason";
}

std::string_view to_string(DeclineReason reason) {
  switch (reason) {
    case DeclineReason::kBusy: return "busy";
    case DeclineReason::kLeased: return "fragment leased";
    case DeclineReason::kUnknownPeer: return "unknown peer";
    case DeclineReason::kBadOffer: return "bad offer";
    case DeclineReason::kClosing: return "closing";
    case DeclineReason::kResting: return "resting";
    case DeclineReason::kSick: return "sick";
    case DeclineReason::kMuted: return "muted";
  }
  return "unknown reason";
}

std::string_view to_string(StateReason reason) {
  switch (reason) {
    case StateReason::kBusy: return "busy with others";
    case StateReason::kPreparing: return "preparing a snapshot";
    case StateReason::kNoSnapshot: return "no checkpoint yet";
    case StateReason::kNewcomer: return "a newcomer itself";
    case StateReason::kUnwilling: return "does not serve";
    case StateReason::kGone: return "that snapshot is gone";
    case StateReason::kClosing: return "closing";
    case StateReason::kFinished: return "finished";
    case StateReason::kWrong: return "not what was promised";
  }
  return "unknown reason";
}

std::string_view to_string(Health health) {
  switch (health) {
    case Health::kAlive: return "alive";
    case Health::kSuspect: return "suspect";
    case Health::kDead: return "dead";
    case Health::kLeft: return "left";
  }
  return "unknown health";
}

bool is_bulk(const Message& message) {
  return std::holds_alternative<Push>(message) || std::holds_alternative<Delta>(message) ||
         std::holds_alternative<Piece>(message);
}

bool is_greeting(const Message& message) {
  return std::holds_alternative<Hello>(message) || std::holds_alternative<Welcome>(message) ||
         std::holds_alternative<Refuse>(message);
}

}  // namespace starling::gossip
