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

std::string_view to_string(Footing footing) {
  switch (footing) {
    case Footing::kSettled: return "settled";
    case Footing::kLate: return "late";
    case Footing::kPulled: return "pulled";
    case Footing::kLeftAlone: return "left alone";
  }
  return "unknown";
}

std::string_view to_string(JoinStep step) {
  switch (step) {
    case JoinStep::kDonorFound: return "fetching from";
    case JoinStep::kDonorDeclined: return "declined by";
    case JoinStep::kDonorLost: return "lost";
    case JoinStep::kDonorWrong: return "wrong bytes from";
    case JoinStep::kDonorDisagrees: return "weights unlike the others' at";
    case JoinStep::kDonorAlone: return "the donors are far apart; everything comes from";
    case JoinStep::kStartedOver: return "what was fetched makes no whole; starting over without";
    case JoinStep::kServing: return "serving";
    case JoinStep::kServed: return "no longer serving";
    case JoinStep::kDonorImpossible: return "steps or tokens that cannot be true from";
  }
  return "unknown step";
}

std::string_view to_string(JoinOutcome outcome) {
  switch (outcome) {
    case JoinOutcome::kFetched: return "fetched";
    case JoinOutcome::kNotBehind: return "not behind the others";
    case JoinOutcome::kAlone: return "nobody to fetch from";
    case JoinOutcome::kNobodyServes: return "nobody serves";
    case JoinOutcome::kRejected: return "what was fetched made no whole";
    case JoinOutcome::kDiskFailed: return "it could not be stored";
  }
  return "unknown outcome";
}

std::string_view to_string(SwarmChange change) {
  switch (change) {
    case SwarmChange::kAlone: return "alone";
    case SwarmChange::kSplit: return "split";
    case SwarmChange::kHealed: return "healed";
  }
  return "unknown change";
}

}  // namespace starling::gossip
