// What the core wants done. The driver drains these after every input and reports back by the
// inputs named here. Messages go to the link; everything about weights goes to the mixer, in order.
//
// "The payload at hand" is the payload of the input being handled: of the arrived Push or Delta,
// or of the finished encoding. The core decides whether it is used; it never looks inside.
#pragma once

#include <cstdint>
#include <variant>

#include "base/time.h"
#include "gossip/ledger.h"
#include "gossip/messages.h"

namespace starling::gossip {

// --- to the link ---
struct Greet {
  PeerAddress address;
  Hello hello;
};  // dial if needed, say hello
struct Connect {
  PeerId peer;
  PeerAddress address;
};  // both lanes; idempotent
struct Disconnect {
  PeerId peer;
};  // drop links and what is queued on them
struct Send {
  PeerId to;
  Message message;
};  // control message
struct SendRefusal {
  PeerAddress address;
  Refuse refuse;
};  // to one who is not a peer of ours
struct SendPayload {
  PeerId to;
  Message head;
};  // Push or Delta with the payload at hand

// --- to the mixer ---
struct EncodeStripe {
  StripeRef ref;
  std::uint8_t format = 0;
};  // -> on_encoded
struct PairTerms {
  float mixing = 0.5F;
  float initiator_weight = 1;
  float responder_weight = 1;
  float clip_radius = 0;
};
struct StageDelta {
  StripeRef ref;
  PairTerms terms;
};  // push payload at hand -> on_staged
struct ReissueDelta {
  StripeRef ref;
};  // the staged delta once more -> on_staged
struct ApplyDelta {
  StripeRef ref;
  PairTerms terms;
};  // initiator, delta at hand -> on_applied
struct ApplyStaged {
  StripeRef ref;
};  // responder, on commit -> on_applied
struct DropStaged {
  StripeRef ref;
};  // no answer
struct Compensate {
  StripeRef ref;
};  // initiator: undo -> on_compensated
struct ForgetDelta {
  StripeRef ref;
};  // initiator: acknowledged; no answer

// --- to whoever counts ---
enum class Outcome : std::uint8_t {
  kCompleted,
  kPartial,
  kDeclined,
  kTimedOut,
  kPeerLost,
  kAborted
};
std::string_view to_string(Outcome outcome);
struct ExchangeEnded {
  ExchangeKey exchange;
  FragmentId fragment;
  Role role = Role::kInitiator;
  Outcome outcome = Outcome::kCompleted;
  std::uint32_t stripes_applied = 0;
};
struct PeerChanged {
  PeerRecord record;
};  // joined, suspected, died, left, came back
struct Refused {
  PeerAddress address;
  RefuseReason reason{};
  RunIdentity ours;
  RunIdentity theirs;
  bool by_us = false;
};

using Action =
    std::variant<Greet, Connect, Disconnect, Send, SendRefusal, SendPayload, EncodeStripe,
                 StageDelta, ReissueDelta, ApplyDelta, ApplyStaged, DropStaged, Compensate,
                 ForgetDelta, ExchangeEnded, PeerChanged, Refused>;

}  // namespace starling::gossip
