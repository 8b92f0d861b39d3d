// What the core wants done. The driver drains these after every input and reports back by the
// inputs named here. Messages go to the link; everything about weights goes to the mixer, in order.
//
// "The payload at hand" is the payload of the input being handled: of the arrived Push or Delta,
// or of the finished encoding. The core decides whether it is used; it never looks inside.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/time.h"
#include "gossip/ledger.h"
#include "gossip/messages.h"

namespace starling::gossip {

// --- to the link ---
// The way to a peer that neither side can dial.
struct RelayPath {
  PeerId relay;               // nobody: there is none
  std::uint64_t process = 0;  // of the peer beyond it, as it is known: only that can open a letter
  friend bool operator==(const RelayPath&, const RelayPath&) = default;
};
struct Greet {
  PeerAddress address;
  Hello hello;
  RelayPath path{};
};  // dial if needed, say hello
struct Connect {
  PeerId peer;
  PeerAddress address;
  std::uint8_t version = 1;  // of what is said to it
  bool dialable = true;      // false: try once whether it can be dialled, for it to know
  RelayPath path{};
};  // both lanes; idempotent
struct Disconnect {
  PeerId peer;
};  // drop links and what is queued on them
struct Send {
  PeerId to;
  Message message;
};  // control message
struct Reply {
  PeerId to;
  Message message;
};  // to one who is not a peer of ours, by the way that its message came
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
  std::uint8_t format = 0;  // agreed; the payload must have it
};                          // push payload at hand -> on_staged
struct ReissueDelta {
  StripeRef ref;
};  // the staged delta once more -> on_staged
struct ApplyDelta {
  StripeRef ref;
  PairTerms terms;
  std::uint8_t format = 0;
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
  float clip_factor = 1;  // the smallest of them; 1: no difference was clipped
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
// A large share of the view was lost or came back within a short time.
enum class SwarmChange : std::uint8_t { kAlone, kSplit, kHealed };
std::string_view to_string(SwarmChange change);
struct SwarmChanged {
  SwarmChange change{};
  std::uint64_t alive = 0;  // others that were ever met and are present now
  std::uint64_t moved = 0;  // of those, who were lost, or came back
  double share = 0;         // moved, of those who were there before (healed: of those there now)
};

// Something of a peer was turned down here, or it says that it turned down something of ours.
struct Rejected {
  PeerId peer;
  RejectReason reason{};
  bool by_us = false;
};
// Nothing of the peer but its signs of life is listened to for a while; or it says so of us.
struct Muted {
  PeerId peer;
  RejectReason reason{};  // by us: the last straw
  Duration length{};
  bool by_us = false;
};

// `peer` said that it had trained more than counts. Told once.
struct TokensClipped {
  PeerId peer;
  double said = 0;
  double counted = 0;
};

// What this peer's weights count for because of what they have missed; told as it changes.
enum class Footing : std::uint8_t {
  kSettled,   // in full: it has met the others
  kLate,      // for less (freshness.h), until it has
  kPulled,    // for nothing or little (newcomer.h), until it has
  kLeftAlone  // in full: those that it would have to meet are gone
};
std::string_view to_string(Footing footing);
struct FootingChanged {
  Footing footing{};
  double missed_seconds = 0;  // of the others' training, since its checkpoint; not met yet
};

// The link is to forward to and from `peer`, or no longer.
struct RelayFor {
  PeerId peer;
  bool wanted = false;
};
// To whoever counts: `peer` forwards for us, or we for it; or no longer.
struct RelayChanged {
  PeerId peer;
  bool by_us = false;
  bool on = false;
  std::size_t in_all = 0;  // that now forward for us, or we for them
};

// --- to the keeper of states: whoever has the checkpoints ---
struct PrepareSnapshot {};  // make the newest checkpoint ready to be served -> SnapshotReady
struct ReadPiece {
  PeerId to;
  std::uint64_t snapshot = 0;
  std::uint32_t piece = 0;
};  // -> PieceReadDone
struct StorePiece {
  PeerId from;
  std::uint64_t snapshot = 0;
  std::uint32_t piece = 0;
  StateDigest expected;  // of a part of the manifest; other pieces are in the manifest
};                       // piece at hand -> PieceStoredDone
// A donor chooses its snapshot's number and may choose another's, so its key is part of the name.
// What an earlier process has stored counts as any donor's.
struct ForgetPieces {
  PeerId from;
  std::uint64_t snapshot = 0;  // zero: of all snapshots, whoever gave them
};                             // no answer
struct CheckState {
  StateSketch sketch;
  double distance_max = 0;
};  // is what was stored that near to the sketch? -> StateChecked
using StateOrder = std::variant<PrepareSnapshot, ReadPiece, StorePiece, ForgetPieces, CheckState>;

enum class PieceRead : std::uint8_t { kRead, kNoRoom, kFailed };
enum class PieceStored : std::uint8_t {
  kStored,
  kWrong,    // not what the donor promised, or no numbers that could be weights
  kUnknown,  // what it promised is not at hand any more
  kFailed    // here, not there: the disk
};

// --- and back: inputs of the core ---
struct FetchState {
  std::vector<std::uint64_t> held;
};                        // at the start: see StateFetcher
struct NewCheckpoint {};  // there is a newer one to be served
struct SnapshotReady {
  std::optional<StateOffer> offer;  // nothing: there is none
};
struct PieceReadDone {
  ReadPiece order;
  PieceRead outcome{};
};  // if read, with the piece at hand
struct PieceStoredDone {
  StorePiece order;
  PieceStored outcome{};
  std::size_t bytes = 0;  // of the piece
};
struct StateChecked {
  bool good = false;
};
using StateInput = std::variant<FetchState, NewCheckpoint, SnapshotReady, PieceReadDone,
                                PieceStoredDone, StateChecked>;

// --- to whoever counts: a newcomer's way in, and its donors' side of it ---
enum class JoinStep : std::uint8_t {
  kDonorFound,
  kDonorDeclined,
  kDonorLost,
  kDonorWrong,
  kDonorDisagrees,
  kDonorAlone,
  kStartedOver,
  kServing,
  kServed,
  kDonorImpossible
};
std::string_view to_string(JoinStep step);
struct JoinEvent {
  JoinStep step{};
  PeerId peer;
  StateReason reason{};  // kDonorDeclined
};
enum class JoinOutcome : std::uint8_t {
  kFetched,
  kNotBehind,
  kAlone,
  kNobodyServes,
  kRejected,
  kDiskFailed
};
std::string_view to_string(JoinOutcome outcome);
struct JoinEnded {
  JoinOutcome outcome{};
  std::uint64_t step = 0;    // kFetched: of the state
  std::uint64_t tokens = 0;  // kFetched: that its weights were trained with
};

using Action =
    std::variant<Greet, Connect, Disconnect, Send, Reply, SendPayload, EncodeStripe, StageDelta,
                 ReissueDelta, ApplyDelta, ApplyStaged, DropStaged, Compensate, ForgetDelta,
                 ExchangeEnded, PeerChanged, Refused, Rejected, Muted, StateOrder, JoinEvent,
                 JoinEnded, SwarmChanged, RelayFor, RelayChanged, TokensClipped, FootingChanged>;

}  // namespace starling::gossip
