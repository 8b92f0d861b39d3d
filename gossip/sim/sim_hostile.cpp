#include "gossip/sim/sim_hostile.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "gossip/sim/sim_audit.h"
#include "gossip/token_seal.h"

namespace starling::gossip {
namespace {

constexpr std::size_t kKnownMax = 64;
constexpr std::size_t kRefsMax = 32;
constexpr std::size_t kPastMax = 32;
constexpr std::size_t kAgreedMax = 256;
constexpr double kMisdeedChance = 0.2;
constexpr std::uint64_t kInvented = 300;
constexpr std::int64_t kHuge = kSimValueMax * 8;
constexpr std::int64_t kFarOut = (std::int64_t{1} << 31) - 1;  // the most that can be clipped

template <class T>
void remember(std::vector<T>& ring, std::size_t most, Rng& rng, const T& value) {
  if (ring.size() < most) {
    ring.push_back(value);
  } else {
    ring[static_cast<std::size_t>(rng.below(most))] = value;
  }
}

template <class Body>
constexpr bool kHasRef = requires(Body body) {
  body.ref;
};

const StripeRef* ref_in(const Message& message) {
  return std::visit(
      [](const auto& body) -> const StripeRef* {
        if constexpr (kHasRef<std::decay_t<decltype(body)>>) return &body.ref;
        return nullptr;
      },
      message);
}

}  // namespace

SimHostile::SimHostile(std::uint32_t self, const SimOptions& options, Rng rng)
    : self_(self),
      peers_(options.peers),
      stripes_(options.stripes),
      rng_(rng),
      misdeeds_(options.faults.misdeeds) {
  constexpr auto kKinds = static_cast<unsigned>(Misdeed::kEnd);
  for (unsigned kind = 0; kind < kKinds && options.faults.misdeeds == 0; ++kind) {
    if (rng_.chance(kMisdeedChance)) misdeeds_ |= 1U << kind;
  }
  if (misdeeds_ == 0) misdeeds_ = 1U << rng_.below(kKinds);
}

void SimHostile::note(const PeerRecord& record) {
  if (record.key.id != sim_peer_id(self_)) remember(known_, kKnownMax, rng_, record);
}

void SimHostile::hear(const Message& message) {
  if (const auto* pong = std::get_if<Pong>(&message)) {
    for (const PeerRecord& record : pong->records) note(record);
  }
  if (const auto* news = std::get_if<Records>(&message)) {
    for (const PeerRecord& record : news->records) note(record);
  }
  if (const auto* welcome = std::get_if<Welcome>(&message)) note(welcome->self);
}

void SimHostile::note(std::uint32_t to, const SimSaid& said) {
  if (const auto* accept = std::get_if<Accept>(&said.message)) {
    if (agreed_.size() >= kAgreedMax) agreed_.clear();
    agreed_[accept->exchange] = accept->clip_radius;
  }
  const StripeRef* ref = ref_in(said.message);
  if (ref == nullptr) return;
  remember(refs_, kRefsMax, rng_, {to, *ref});
  if (does(Misdeed::kRepeats)) remember(past_, kPastMax, rng_, said);
}

bool SimHostile::withholds(const Message& message) {
  const bool follows = std::holds_alternative<Push>(message);
  const bool answers = std::holds_alternative<Delta>(message);
  const bool settles =
      std::holds_alternative<Commit>(message) || std::holds_alternative<Committed>(message) ||
      std::holds_alternative<Abandoned>(message) || std::holds_alternative<Finish>(message);
  const bool owed = (follows && does(Misdeed::kNeverFollows)) ||
                    (answers && does(Misdeed::kNeverAnswers)) ||
                    (settles && does(Misdeed::kNeverSettles));
  withheld_ += owed ? 1 : 0;
  return owed;
}

// --- records ---

PeerRecord SimHostile::invent() {
  PeerRecord record;
  const PeerId id{(std::uint64_t{1} << 40) + rng_.below(kInvented)};
  record.key = record_key({id, 1 + rng_.below(3)}, 0);
  const bool named = set_host(record.address, "nowhere");
  record.address.control_port = static_cast<std::uint16_t>(named ? 1 + rng_.below(60000) : 0);
  record.address.bulk_port = record.address.control_port;
  record.address.key = stand_in_key(record.key.id);
  record.dialable = rng_.chance(0.7);
  record.signature = StandInSeal(id).sign(sealed_text(kSimRun, record));  // keys cost nothing
  return record;
}

// Something about somebody, if there is a lie to tell that others might believe.
std::optional<PeerRecord> SimHostile::lie() {
  constexpr Misdeed kLies[] = {Misdeed::kBuriesTheLiving, Misdeed::kRaisesTheDead,
                               Misdeed::kRunsAhead, Misdeed::kMovesPeers, Misdeed::kInventsPeers};
  const Misdeed kind = kLies[rng_.below(std::size(kLies))];
  if (!does(kind)) return std::nullopt;
  if (kind == Misdeed::kInventsPeers) return invent();
  if (known_.empty()) return std::nullopt;
  const auto somebody = [this] {
    return known_[static_cast<std::size_t>(rng_.below(known_.size()))];
  };
  PeerRecord record = somebody();
  record.accuser = {};
  if (kind == Misdeed::kBuriesTheLiving) {
    record.health = rng_.chance(0.5) ? Health::kDead : Health::kSuspect;
    record.accuser = rng_.chance(0.5) ? sim_peer_id(self_) : somebody().key.id;
  } else if (kind == Misdeed::kRaisesTheDead) {
    record.health = Health::kAlive;
    record.age_s = 0;
    record.key.incarnation += 1 + rng_.below(3);
  } else if (kind == Misdeed::kRunsAhead) {
    record.health = static_cast<Health>(rng_.below(4));
    record.key.incarnation = rng_.chance(0.5) ? std::numeric_limits<std::uint64_t>::max()
                                              : record.key.incarnation | std::uint64_t{1} << 60;
  } else {
    record.address = invent().address;
    record.address.key = stand_in_key(record.key.id);
    record.key.incarnation += 1;
  }
  return record;
}

void SimHostile::lie_about(PeerRecord& record) {
  if (const auto other = lie()) {
    record = *other;
    ++lies_;
  }
}

// Often about its own, which it signs; about others' seldom, because that is found out at once.
void SimHostile::lie_about(BoundedList<TokenEntry, kTokensMax>& tokens) {
  const StandInSeal own_seal(sim_peer_id(self_));
  const TokenSeal seal(&own_seal, kSimRun);
  constexpr float kRates[] = {TokenSeal::kRateMax, 1, 0};
  for (TokenEntry& entry : tokens) {
    const bool own = entry.key.id == sim_peer_id(self_);
    if (!rng_.chance(own ? 0.2 : 0.0003)) continue;
    ++lies_;
    entry.tokens = rng_.below(kTokensOfProcessMax);
    entry.rate = kRates[rng_.below(std::size(kRates))];
    seal.sign(entry);
  }
  for (TokenEntry& entry : tokens) {  // of all, as nobody signs these
    if (!rng_.chance(0.01)) continue;
    ++lies_;
    entry.age_s = static_cast<std::uint16_t>(rng_.next());
  }
}

// --- exchanges ---

StripeRef SimHostile::rename(StripeRef ref) {
  switch (rng_.below(6)) {
    case 0: ref.exchange.counter += 1 + rng_.below(3); break;
    case 1: std::swap(ref.exchange.initiator, ref.exchange.responder); break;
    case 2: ref.exchange.initiator.incarnation += 1; break;
    case 3: ref.fragment = FragmentId{static_cast<std::uint16_t>(ref.fragment.value + 1)}; break;
    case 4: ref.stripe += 1 + static_cast<std::uint32_t>(rng_.below(100)); break;
    default: ref.attempt = static_cast<std::uint8_t>(ref.attempt + 1 + rng_.below(250)); break;
  }
  return ref;
}

StripeValues SimHostile::rubbish() {
  StripeValues values{};
  for (std::int64_t& value : values) value = rng_.chance(0.5) ? kHuge : -kHuge;
  return values;
}

// What becomes of one message. Overloads change the message they are given.
struct SimHostile::Twist {
  SimHostile& liar;
  std::optional<SimPayload>& payload;

  template <class Body>
  void operator()(Body& body) {
    if constexpr (kHasRef<Body>) rename(body.ref);
  }
  void operator()(Ping& ping) { gossip(ping.records, ping.tokens); }
  void operator()(Pong& pong) { gossip(pong.records, pong.tokens); }
  void operator()(Records& message) { twist(message.records); }
  void operator()(Digest& digest) {
    if (!liar.does(Misdeed::kNeverAgrees)) return;
    ++liar.lies_;
    for (std::uint64_t& bucket : digest.buckets) bucket = liar.rng_.next();
  }
  void operator()(PingAnswer& answer) {
    if (liar.does(Misdeed::kMisleads)) answer.reached = !answer.reached;
    if (liar.does(Misdeed::kVouchesForDead)) answer.reached = true;
  }
  void operator()(Parts& parts) {
    if (!liar.does(Misdeed::kLiesAboutParts)) return;
    ++liar.lies_;
    parts = liar.parts_lie();
  }
  void operator()(Offer& offer) {
    if (!liar.does(Misdeed::kLiesAboutTerms)) return;
    ++liar.lies_;
    switch (liar.rng_.below(6)) {
      case 0: offer.clip_radius = 1e30F; break;
      case 1: offer.clip_radius = std::numeric_limits<float>::quiet_NaN(); break;
      case 2: offer.patience_ms = std::numeric_limits<std::uint32_t>::max(); break;
      case 3: offer.stripes += 1; break;
      case 4: offer.weight = -1; break;
      default: offer.mixing = 1; break;
    }
  }
  void operator()(Accept& accept) {
    if (!liar.does(Misdeed::kLiesAboutTerms)) return;
    ++liar.lies_;
    switch (liar.rng_.below(6)) {
      case 0: accept.clip_radius = 0; break;
      case 1: accept.clip_radius = 1e30F; break;
      case 2: accept.clip_radius = std::numeric_limits<float>::infinity(); break;
      case 3: accept.window = std::numeric_limits<std::uint16_t>::max(); break;
      case 4: accept.format = 77; break;
      default: accept.mixing = 1; break;
    }
    const float most = static_cast<float>(kFarOut / 2);
    liar.agreed_[accept.exchange] =
        accept.clip_radius > 0 ? std::min(accept.clip_radius, most) : most;
  }
  void operator()(StateOffer& offer) {
    if (!liar.does(Misdeed::kLiesAboutStates) || !liar.rng_.chance(0.3)) return;
    ++liar.lies_;
    switch (liar.rng_.below(4)) {
      case 0: offer.tokens = liar.rng_.next(); break;
      case 1: offer.tokens = kTokensOfProcessMax; break;
      case 2: offer.manifest[0].bytes[0] ^= 1; break;
      default: offer.sketch.values.fill(1e30F); break;
    }
  }
  void operator()(Piece&) {
    if (liar.does(Misdeed::kLiesAboutStates) && liar.rng_.chance(0.1)) spoil();
  }
  void operator()(Push& push) {
    if (liar.does(Misdeed::kSendsRubbish)) spoil();
    if (liar.does(Misdeed::kSendsExtremes))
      fill([](std::uint64_t draw) { return draw % 2 == 0 ? kFarOut : -kFarOut; });
    rename(push.ref);
  }
  void operator()(Delta& delta) {
    if (liar.does(Misdeed::kSendsRubbish)) spoil();
    const auto agreed = liar.agreed_.find(delta.ref.exchange);
    if (liar.does(Misdeed::kSendsExtremes) && agreed != liar.agreed_.end()) {
      // The largest integer within, and now and then one beyond.
      const auto most = static_cast<std::int64_t>(agreed->second);
      fill([most](std::uint64_t draw) {
        return draw % 64 == 0 ? most + 1 : draw % 2 == 0 ? most : -most;
      });
    }
    rename(delta.ref);
  }

  void rename(StripeRef& ref) {
    if (!liar.does(Misdeed::kMixesNames) || !liar.rng_.chance(0.3)) return;
    ++liar.lies_;
    ref = liar.rename(ref);
    if (payload) payload->ref = ref;
  }
  void spoil() {
    ++liar.lies_;
    switch (liar.rng_.below(3)) {
      case 0: payload->finite = false; break;
      case 1: payload->sound = false; break;
      default: payload->values = liar.rubbish(); break;
    }
  }
  template <class Draw>
  void fill(Draw&& draw) {
    ++liar.lies_;
    for (std::int64_t& value : payload->values) value = draw(liar.rng_.next());
  }
  template <class List>
  void twist(List& records) {
    for (PeerRecord& record : records) {
      if (record.key.id == sim_peer_id(liar.self_)) continue;
      liar.lie_about(record);
      if (!liar.does(Misdeed::kHidesOthers)) continue;
      ++liar.lies_;
      record = liar.invent();
    }
  }
  void gossip(BoundedList<PeerRecord, kRecordsMax>& records,
              BoundedList<TokenEntry, kTokensMax>& tokens) {
    twist(records);
    if (liar.does(Misdeed::kLiesAboutTokens)) liar.lie_about(tokens);
  }
};

// The opposite of what its core says.
void SimHostile::take_back(Message& message) {
  const auto* accept = std::get_if<Accept>(&message);
  const auto* commit = std::get_if<Commit>(&message);
  if (accept != nullptr && does(Misdeed::kDeclinesAll)) {
    message = Decline{accept->exchange, DeclineReason::kLeased, 0};
    ++lies_;
  } else if (commit != nullptr && does(Misdeed::kAbortsAll)) {
    message = Abort{commit->ref, RejectReason::kNone};
    ++lies_;
  }
}

std::vector<SimSaid> SimHostile::twist(std::uint32_t to, const Message& message,
                                       const SimPayload* payload) {
  SimSaid said{to, message, payload == nullptr ? std::nullopt : std::optional(*payload)};
  note(to, said);
  if (withholds(message)) return {};
  std::visit(Twist{*this, said.payload}, said.message);
  take_back(said.message);
  const bool again = ref_in(message) != nullptr && does(Misdeed::kRepeats) && rng_.chance(0.3);
  std::vector<SimSaid> all(again ? 2 : 1, said);
  return all;
}

}  // namespace starling::gossip
