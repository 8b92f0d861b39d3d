// RelayHost: for whom this peer forwards, if its owner lets it: at most relay.holders_max others
// that nobody can dial, each for kLease unless it asks again. Only who holds such a promise is
// forwarded to and from; the link does that and keeps to the owner's rate (net/link_forwarder.h).
//
// A promise outlives a holder that seems dead: one that was buried by mistake would rely on it.
// Only where there is no room is the place of such a one given away, or where it left with a word.
//
// While exchanges rest (quiet hours, a day's bytes spent) nothing is forwarded; at the end nobody
// new.
// Thread: one owner. Time is an argument.
#pragma once

#include <map>

#include "gossip/core_context.h"

namespace starling::gossip {

class RelayHost {
 public:
  static constexpr Duration kLease = std::chrono::minutes(10);
  static constexpr Duration kRetryFull = std::chrono::minutes(2);

  explicit RelayHost(CoreContext& context) : context_(context) {}

  void on_ask(Instant now, PeerId from, const RelayAsk& ask);
  void on_peer_lost(PeerId peer);
  void on_deadline(Instant now);  // often enough whenever membership wakes up
  // Something was forwarded, or would have been but for a closed line.
  void on_forwarded(PeerId from, PeerId to);

  bool involves(PeerId peer) const { return holders_.contains(peer); }
  std::size_t holders() const { return holders_.size(); }

 private:
  void end(PeerId peer);
  bool make_room();  // for one more; false: there is none

  CoreContext& context_;
  std::map<PeerId, Instant> holders_;  // until when
};

}  // namespace starling::gossip
