// RejectReason: why something of another peer was turned down before it could matter, as a word
// that travels back to it, is counted on both sides and is told to the operator; and whom to blame.
// Thread: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace starling::gossip {

enum class RejectReason : std::uint8_t {
  kNone,  // nothing was turned down
  // Nobody's fault.
  kNoRoom,        // no slot at the moment
  kOwnNotFinite,  // the weights of the one who rejects are unusable
  kTooOld,        // overtaken by the training that went on meanwhile
  kRepeated,      // applied already
  kOverrun,       // more under way than was agreed; late news may look like that
  // A reason to look elsewhere.
  kFlood,  // offers without measure
  // Nothing that a sound peer ever sends.
  kMalformed,    // bytes that are no payload of this stripe, or no message
  kWrongFormat,  // another format than agreed
  kNotFinite,    // NaN or infinite
  kTooFar,       // weights of quite another size than ours
  kBeyondClip,   // a difference larger than agreed
  kBadTerms,     // an offer or an answer with impossible terms
  kWrongName,    // an exchange that is not the sender's, or a stripe that does not exist
  kForged,       // a record that its subject did not sign
  kWrongPiece,   // a piece of a state that is not what its donor had promised
  // More of it than any sound peer sends: first a reason to look elsewhere, then proof.
  kTooMany,  // small messages without measure
  kDeluge,   // and no end of them
  // Of frames; never said to anybody, but by a mute.
  kDamaged,       // changed on the way: bad memory, as a rule
  kOtherVersion,  // of the wire: what was on its way to another life of one of us
  kOversized,     // larger than its lane allows
  kSeveralParts,  // more than one frame in a message
  kOthersName,    // from somebody else than the connection's key
};
inline constexpr std::size_t kRejectReasons = 23;

enum class Blame : std::uint8_t { kNobody, kDoubt, kProof };
Blame blame_for(RejectReason reason);
std::string_view to_string(RejectReason reason);

// What the mixer says of an order it was given.
struct Verdict {
  RejectReason reason = RejectReason::kNone;  // kNone: done
  bool far = false;       // done, but the difference was clipped to a small part of itself
  float clip_factor = 1;  // to this
  bool done() const { return reason == RejectReason::kNone; }
};

}  // namespace starling::gossip
