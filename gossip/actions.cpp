#include "gossip/actions.h"

namespace starling::gossip {

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompleted: return "completed";
    case Outcome::kPartial: return "partial";
    case Outcome::kDeclined: return "declined";
    case Outcome::kTimedOut: return "timed out";
    case Outcome::kPeerLost: return "peer lost";
    case Outcome::kAborted: return "aborted";
  }
  return "unknown outcome";
}

}  // namespace starling::gossip
