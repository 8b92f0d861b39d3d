// Core::Impl: the machines of one Core and how inputs reach them. For core.cpp and core_inputs.cpp.
// Thread: one owner.
#pragma once

#include "gossip/core.h"
#include "gossip/core_context.h"
#include "gossip/initiator.h"
#include "gossip/membership.h"
#include "gossip/part_gossip.h"
#include "gossip/relay_choice.h"
#include "gossip/relay_host.h"
#include "gossip/responder.h"
#include "gossip/state_donor.h"
#include "gossip/state_fetcher.h"

namespace starling::gossip {

struct Core::Impl {
  Impl(const GossipConfig& config, const CoreIdentity& identity, const RestoredState& restored,
       Instant now)
      : context(config, identity, restored, now),
        membership(context, identity, now),
        initiator(context, restored, now),
        responder(context, restored),
        donor(context),
        fetcher(context),
        parts(context, identity, restored, now),
        relay_choice(context, now),
        relay_host(context),
        next_close(now) {}

  void on_message(Instant now, PeerId from, const Message& message);
  void on_control(Instant now, PeerId from, const Message& message);
  bool drops_as_too_many(Instant now, PeerId from, bool costly);
  bool drops_as_muted(Instant now, PeerId from, const Message& message);
  void on_offer(Instant now, PeerId from, const Offer& offer);
  void on_state_declined(Instant now, PeerId from, const StateDeclined& declined);
  void on_state(Instant now, const StateInput& input);
  void on_deadline(Instant now);
  void close_lines(Instant now);
  void after_input(Instant now);
  std::optional<Instant> next_deadline() const;
  bool initiated_here(const StripeRef& ref) const {
    return ref.exchange.initiator.id == context.self.id;
  }

  CoreContext context;
  Membership membership;
  Initiator initiator;
  Responder responder;
  StateDonor donor;
  StateFetcher fetcher;
  PartGossip parts;
  RelayChoice relay_choice;
  RelayHost relay_host;
  Instant next_close;  // of idle lines
  bool left = false;
};

}  // namespace starling::gossip
