// RelayChoice: who forwards to this peer, while nobody can dial it. It keeps up to kRelaysMax
// relays out of those that volunteer (PeerRecord::forwards): asks, asks again in time, keeps a line
// to each, and replaces one that is gone, doubted, muted or does not answer. Which they are is
// announced in the own record, so that others who cannot be dialled either find a way.
//
//   asked  -- grant -->  held  -- half of the lease is over: ask again
//     |                   |
//     '---- silence, decline, the relay is no partner any more ---->  gone; left alone for a while
//
// A peer that can be dialled needs none and gives back what it has. Which relay is used towards
// whom is CoreContext's business (relay_to()), because every line goes by it. Thread: one owner.
// Time is an argument.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "gossip/core_context.h"

namespace starling::gossip {

class RelayChoice {
 public:
  static constexpr Duration kAnswerMax = std::chrono::seconds(5);
  static constexpr Duration kSilentRest = std::chrono::seconds(60);
  static constexpr Duration kWakesWithin = std::chrono::seconds(60);  // lines are made anew, too
  static constexpr Duration kLeaseLeast = std::chrono::seconds(10);   // shorter ones are a decline
  static constexpr Duration kLeaseMost = std::chrono::hours(1);
  static constexpr std::size_t kRestingMax = 64;
  static constexpr std::size_t kDraws = 16;  // at each look
  using RelayList = BoundedList<PeerId, kRelaysMax>;

  RelayChoice(CoreContext& context, Instant now) : context_(context), next_look_(now) {}

  void on_grant(Instant now, PeerId from, const RelayGrant& grant);
  void on_decline(Instant now, PeerId from, const RelayDecline& decline);
  void on_peer_lost(Instant now, PeerId peer);
  void on_deadline(Instant now);  // often enough whenever membership wakes up
  void on_pause(Instant now);     // this process did not run

  RelayList held() const;            // to be announced
  bool involves(PeerId peer) const;  // the line to it is in use

 private:
  struct Row {
    PeerId relay;
    bool held = false;
    Instant ask_again;  // or, before it is held: the answer is late
    Instant ends;
  };
  Row* find(PeerId relay);
  void look(Instant now);
  void ask(Instant now, PeerId relay);
  bool may_ask(Instant now, PeerId relay);
  std::optional<PeerId> draw(Instant now);
  void drop(Instant now, std::size_t row, Duration rest);
  void give_all_back(Instant now);

  CoreContext& context_;
  std::vector<Row> rows_;  // at most kRelaysMax
  std::map<PeerId, Instant> resting_;
  Instant next_look_;
};

}  // namespace starling::gossip
