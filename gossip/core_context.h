// CoreContext: what the small machines inside one Core share: configuration, chance, the queue of
// actions, counters, leases and what is known of the others. Plain data with a few helpers; the
// rules live in the machines. Thread: one owner, the Core. Not movable: the machines refer to it.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/rng.h"
#include "gossip/conduct.h"
#include "gossip/core.h"
#include "gossip/newcomer.h"
#include "gossip/peer_pace.h"
#include "gossip/peer_table.h"
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

struct CoreContext {
  CoreContext(const GossipConfig& config_in, const CoreIdentity& identity,
              const RestoredState& restored, Instant now)
      : config(config_in),
        self(identity.self.key),
        stripes(identity.stripes),
        rng(identity.seed),
        fragments(identity.stripes.size()),
        leases(identity.stripes.size()),
        peers(config_in.peers_max, config_in.initiator_gives_up),
        tokens(identity.self.key, restored.tokens, now),
        newcomer(identity.stripes.size()) {
    tokens.inherit(restored.inherited);
  }
  CoreContext(const CoreContext&) = delete;
  CoreContext& operator=(const CoreContext&) = delete;

  void emit(Action action) { actions.push_back(std::move(action)); }
  void send(PeerId to, const Message& message) { actions.push_back(Send{to, message}); }
  void refuse_message() { ++stats.messages_refused; }
  // Turns down what came from `peer`, and remembers what that says about it.
  void reject(Instant now, PeerId peer, RejectReason reason);
  // A mixed stripe had to be clipped to a small part. A newcomer is far away by its nature.
  void note_far(Instant now, PeerId peer, const PairTerms& terms) {
    const bool settled = terms.initiator_weight > 0 && terms.responder_weight > 0;
    if (settled) conduct.doubt(now, peer);
  }
  // `peer` has turned down something of ours.
  void note_rejection(PeerId peer, RejectReason reason);
  bool has_fragment(FragmentId fragment) const { return fragment.value < stripes.size(); }

  const GossipConfig config;
  const PeerKey self;                        // this process, as exchanges name it
  const std::vector<std::uint32_t> stripes;  // of each fragment
  Rng rng;
  std::deque<Action> actions;
  CoreStats stats;
  std::vector<FragmentState> fragments;
  Leases leases;
  PeerTable peers;
  TokenMap tokens;
  Newcomer newcomer;
  Conduct conduct;
  Paces paces;
  std::vector<PeerId> just_muted;  // their exchanges are to be ended
  bool closing = false;            // for good
  bool resting = false;            // for now
  bool sick = false;               // its own weights are unusable
  bool begins_exchanges() const { return !closing && !resting && !sick; }
  bool awaits_trained = false;  // a fetching newcomer's first seconds: see Membership::weigh
};

}  // namespace starling::gossip
