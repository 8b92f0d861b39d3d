// CoreContext: what the small machines inside one Core share: configuration, chance, the queue of
// actions, counters, leases and what is known of the others; and the rules that more than one of
// them follows: by which line or relay somebody is sent to, what whose weights and tokens count
// for, and what it costs a peer that something of its was turned down. The rules of one matter live
// in its machine. Thread: one owner, the Core. Not movable: the machines refer to it.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/rng.h"
#include "gossip/code_agreement.h"
#include "gossip/conduct.h"
#include "gossip/core.h"
#include "gossip/freshness.h"
#include "gossip/gentle_merge.h"
#include "gossip/ledger.h"
#include "gossip/newcomer.h"
#include "gossip/peer_pace.h"
#include "gossip/peer_table.h"
#include "gossip/rate_weight.h"
#include "gossip/token_map.h"

namespace starling::gossip {

// One exchange per fragment at a time, in either role.
class Leases {
 public:
  explicit Leases(std::size_t fragments) : held_(fragments, false) {}
  bool held(FragmentId fragment) const { return held_.at(fragment.value); }
  void take(FragmentId fragment) {
    STARLING_ASSERT(!held(fragment));
    held_[fragment.value] = true;
    ++count_;
  }
  void release(FragmentId fragment) {
    STARLING_ASSERT(held(fragment));
    held_[fragment.value] = false;
    --count_;
  }
  std::size_t count() const { return count_; }

 private:
  std::vector<bool> held_;
  std::size_t count_ = 0;
};

// Tokens per second of the living peers that count and say theirs.
struct BelievedRates {
  std::vector<double> all;
  double own = 0;
  double fastest = 0;  // at most kRatio times what is usual (token_shares.h); some may be above it
  PeerId fastest_peer{};
  std::vector<double> shares() const;  // of the fastest, at most 1
};

// Whose difference was clipped to less than this has not come together with its partner.
inline constexpr float kNearClip = 1.0F / 8;

// Every stripe of the fragment was mixed.
struct CompletedExchange {
  FragmentId fragment;
  PeerId partner;
  Role role = Role::kInitiator;  // ours
  PairTerms terms;
  float lag = 0;          // the partner's
  float clip_factor = 1;  // the smallest of its stripes
};

struct CoreContext {
  CoreContext(const GossipConfig& config_in, const CoreIdentity& identity,
              const RestoredState& restored, Instant born)
      : config(config_in),
        self(identity.self.key),
        stripes(identity.stripes),
        in_doubt(in_doubt_max(config_in, identity.stripes)),
        now(born),
        rng(identity.seed),
        fragments(identity.stripes.size()),
        leases(identity.stripes.size()),
        peers(config_in.peers_max, config_in.initiator_gives_up),
        tokens(identity.self.key, identity.self.address.key, {identity.seal, identity.run.run},
               restored.tokens, born,
               std::min<std::size_t>(TokenMap::kEntriesMax, 4 * std::size_t{config_in.peers_max})),
        newcomer(identity.stripes.size()),
        freshness(identity.stripes.size()),
        gentle(identity.stripes.size()),
        restored_age(restored.age) {
    tokens.inherit(restored.inherited);
  }
  CoreContext(const CoreContext&) = delete;
  CoreContext& operator=(const CoreContext&) = delete;

  // A peer that keeps a sample of the swarm forgets whom it has no line to, and closes lines that
  // were idle for kLineKept at the earliest. So whoever was silent for a while hears who we are
  // first.
  static constexpr Duration kLineKept = std::chrono::seconds(10);
  static constexpr Duration kStrangeAfter = kLineKept / 3;
  // After this long a line of the other's to us may be closed.
  static constexpr Duration kColdAfter = std::chrono::seconds(30);

  static constexpr std::uint64_t kFew = 4;
  // Of what a checkpoint has missed, less than this is not worth telling anybody.
  static constexpr double kMissedTold = 60;  // seconds
  // At least this between two repeats of one payload: a direction may be broken though messages
  // come by the other, and each of them would have everything sent again.
  static constexpr Duration kResumePause = std::chrono::seconds(1);

  void emit(Action action) { actions.push_back(std::move(action)); }
  // Both open a line if there is none.
  void send(PeerId to, const Message& message) {
    open_line(to);
    actions.push_back(Send{to, message});
  }
  void send_payload(PeerId to, const Message& head) {
    open_line(to);
    actions.push_back(SendPayload{to, head});
  }
  void open_line(PeerId to) {
    Peer* peer = peers.find(to);
    if (peer == nullptr || !peer->welcomed) return;
    if (!peer->connected || relay_to(*peer) != peer->relay) connect(*peer);
    if (peer->relay != PeerId{}) open_line(peer->relay);
    peer->last_sent = now;
    if (!peers.nearly_full() || now - peer->last_heard < kStrangeAfter) return;
    introduce(*peer);
  }
  // To one that may have forgotten us.
  void introduce(Peer& peer) {
    if (now - peer.introduced_at < kStrangeAfter) return;
    peer.introduced_at = now;
    emit(Greet{peer.record.address, introduction, path_to(peer)});
  }
  // Also for a line there is already: the address may have changed, or the line be down. One that
  // cannot be dialled has opened its own line, and that is used; it is tried whether it can be.
  void connect(Peer& peer) {
    const PeerId id = peer.record.key.id;
    if (!peer.connected) lines.push_back(id);
    peer.connected = true;
    peer.last_sent = now;
    emit(Connect{id, peer.record.address, peer.version, peer.record.dialable, path_to(peer)});
  }
  void hang_up(Peer& peer) {
    if (!peer.connected) return;
    peer.connected = false;
    const PeerId id = peer.record.key.id;
    lines.erase(std::find(lines.begin(), lines.end(), id));
    emit(Disconnect{id});
  }
  // --- peers that neither side can dial (relay_choice.h) ---
  bool uses_relays() const { return config.relay.use && !dialable && now >= relays_from; }
  bool can_relay(Instant at, PeerId id) const;  // a partner that forwards and can be reached
  // Whom to send through to reach `peer`: the same as before while that is possible. Nobody: it is
  // not needed, or there is none.
  PeerId relay_to(const Peer& peer);
  void take_other_relay(Peer& peer);  // the one in use seems not to work
  // A payload that left then had no answer. It may let messages through and be too full for that.
  void doubt_relay(PeerId to, Instant sent);
  RelayPath path_to(Peer& peer);           // opens the line to the relay
  float clip_radius(FragmentId fragment);  // to agree on
  float wanted_radius(const FragmentState& state) const;
  // An Accept after which nothing comes is said again: sooner than any offer is given up.
  Duration accept_repeat() const { return std::min(config.silence_min, config.offer_timeout) / 2; }
  // A payload of its came that somebody here waits for, or nobody does.
  void note_payload(Instant at, PeerId from, bool wanted);
  // A frame of its came that was read for nothing.
  void note_bad_frame(Instant at, PeerId from, RejectReason reason);
  void measure(Instant at, PeerId from, MessageMeter& meter);  // one more of what it measures
  void note_completed(const CompletedExchange& exchange);
  void note_progress(Instant at, std::uint64_t trained);
  // What each peer's tokens count for; of those that may not take part, nothing.
  TokenShares token_shares(Instant at) const;
  CodeAgreement codes_with(PeerId peer) const;  // of somebody unknown, the oldest version's
  bool is_live(const PeerKey& process) const;   // and the peer's present one
  double speed_share() const;                   // see core.h; looks at every entry
  // The same for weights. Until its first step has ended nobody knows how fast this peer is, and it
  // may be the slowest: so it counts for no more than that one.
  double weighed_share() const;
  double equal_peers() const;  // looks at every entry, too
  BelievedRates believed_rates() const;
  // What our weights count for in an exchange.
  float weight() const {
    return newcomer.weight() * rate_weight(weighed_share(), config.rate_power);
  }
  float weight(FragmentId fragment) const;  // less for one that is late (freshness.h)
  Footing footing() const;
  void note_footing();  // told if it has changed
  bool counts(PeerId id) const { return !members || id == self.id || members->contains(id); }
  void refuse_message() { ++stats.messages_refused; }
  void note_standing(PeerId from, const Standing& told) {
    Peer* peer = peers.find(from);
    if (peer == nullptr) return;
    peer->standing = told;
    peer->standing_at = now;
  }
  // Turns down what came from `peer`, and remembers what that says about it.
  void reject(Instant at, PeerId peer, RejectReason reason);
  // A mixed stripe had to be clipped to a small part. A newcomer is far away by its nature.
  void note_far(Instant at, PeerId peer, const PairTerms& terms) {
    const bool settled = terms.initiator_weight > 0 && terms.responder_weight > 0;
    if (settled) conduct.doubt(at, peer);
  }
  // An exchange with `peer` has waited in vain since `since`. If it was heard meanwhile it is
  // there, and just did not do what it had agreed to.
  void note_silence(Instant at, PeerId peer, Instant since) {
    const Peer* row = peers.find(peer);
    const bool there = row != nullptr && row->last_heard - since > (at - since) / 2;
    // Among so few a partner is worth another try.
    if (there && peers.count(Health::kAlive) > kFew) conduct.silent(at, peer, at - since);
  }
  // `peer` has turned down something of ours.
  void note_rejection(PeerId peer, RejectReason reason);
  bool has_fragment(FragmentId fragment) const { return fragment.value < stripes.size(); }
  void assert_invariants() const;  // every table within its limit

  const GossipConfig config;
  std::uint8_t format = config.format;       // wanted now
  const PeerKey self;                        // this process, as exchanges name it
  const std::vector<std::uint32_t> stripes;  // of each fragment
  const std::size_t in_doubt;                // in_doubt_max() of them
  Instant now;                               // of the input being handled
  PeerId through;                            // the relay that brought the message being handled
  bool dialable = false;                     // others can open connections to this peer
  Instant relays_from;                       // until then it may yet turn out that they can
  Hello introduction;                        // what we greet with
  Standing standing;                         // what we tell partners of ourselves
  Rng rng;
  std::deque<Action> actions;
  CoreStats stats;
  std::vector<FragmentState> fragments;
  Leases leases;
  PeerTable peers;
  TokenMap tokens;
  std::optional<std::unordered_set<PeerId>> members;  // on the allow-list; nothing: there is none
  Newcomer newcomer;
  Freshness freshness;
  GentleMerge gentle;
  const WeightsAge restored_age;
  Footing footing_told = Footing::kSettled;
  std::vector<PeerId> lines;  // peers we are connected to
  Conduct conduct;
  Paces paces;
  std::vector<PeerId> just_muted;  // their exchanges are to be ended
  bool closing = false;            // for good
  bool resting = false;            // for now
  bool paced = false;              // for now; states that are being served and relays go on
  bool sick = false;               // its own weights are unusable
  bool serves_others() const { return !closing && !resting && !sick; }
  bool begins_exchanges() const { return serves_others() && !paced; }
  bool awaits_trained = false;  // a fetching newcomer's first seconds: see Membership::weigh
  bool judges_age = false;      // whether this is a newcomer is about to be known
};

}  // namespace starling::gossip
