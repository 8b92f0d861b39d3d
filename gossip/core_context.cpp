#include "gossip/core_context.h"

namespace starling::gossip {

void CoreContext::reject(Instant at, PeerId peer, RejectReason reason) {
  STARLING_ASSERT(reason != RejectReason::kNone);
  ++stats.rejected[static_cast<std::size_t>(reason)];
  emit(Rejected{peer, reason, true});
  if (blame_for(reason) == Blame::kDoubt) conduct.doubt(at, peer);
  if (blame_for(reason) != Blame::kProof) return;
  const Duration length = conduct.offend(at, peer);
  if (length == Duration::zero()) return;
  ++stats.mutes;
  just_muted.push_back(peer);
  emit(Muted{peer, reason, length, true});
}

void CoreContext::note_rejection(PeerId peer, RejectReason reason) {
  if (reason == RejectReason::kNone) return;
  ++stats.rejections_heard[static_cast<std::size_t>(reason)];
  emit(Rejected{peer, reason, false});
}

}  // namespace starling::gossip
