#include "gossip/reject_reason.h"

#include <array>

#include "base/assert.h"

namespace starling::gossip {
namespace {

struct Row {
  RejectReason reason;
  std::string_view words;
  Blame blame;
};

constexpr std::array<Row, kRejectReasons> kRows{{
    {RejectReason::kNone, "nothing", Blame::kNobody},
    {RejectReason::kNoRoom, "no room at the moment", Blame::kNobody},
    {RejectReason::kOwnNotFinite, "own weights not finite", Blame::kNobody},
    {RejectReason::kTooOld, "too old", Blame::kNobody},
    {RejectReason::kRepeated, "applied already", Blame::kNobody},
    {RejectReason::kOverrun, "more at once than agreed", Blame::kNobody},
    {RejectReason::kFlood, "too many offers", Blame::kDoubt},
    {RejectReason::kMalformed, "malformed", Blame::kProof},
    {RejectReason::kWrongFormat, "not the agreed format", Blame::kProof},
    {RejectReason::kNotFinite, "not finite", Blame::kProof},
    {RejectReason::kTooFar, "weights of another size", Blame::kProof},
    {RejectReason::kBeyondClip, "beyond the agreed clip radius", Blame::kProof},
    {RejectReason::kBadTerms, "impossible terms", Blame::kProof},
    {RejectReason::kWrongName, "not its exchange or no such stripe", Blame::kProof},
    {RejectReason::kForged, "a record that its subject did not sign", Blame::kProof},
    {RejectReason::kWrongPiece, "a piece that is not what was promised", Blame::kProof},
    {RejectReason::kTooMany, "too many messages", Blame::kDoubt},
    {RejectReason::kDeluge, "too many messages for too long", Blame::kProof},
    {RejectReason::kDamaged, "damaged on the way", Blame::kDoubt},
    {RejectReason::kOtherVersion, "another version of the wire", Blame::kNobody},
    {RejectReason::kOversized, "larger than its lane allows", Blame::kProof},
    {RejectReason::kSeveralParts, "a message of several frames", Blame::kProof},
    {RejectReason::kOthersName, "in another's name", Blame::kProof},
}};

const Row& row_of(RejectReason reason) {
  const auto index = static_cast<std::size_t>(reason);
  STARLING_ASSERT(index < kRows.size());
  STARLING_ASSERT(kRows[index].reason == reason);
  return kRows[index];
}

}  // namespace

Blame blame_for(RejectReason reason) { return row_of(reason).blame; }

std::string_view to_string(RejectReason reason) { return row_of(reason).words; }

}  // namespace starling::gossip
