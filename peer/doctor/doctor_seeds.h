// What `starling doctor` finds out with each seed: does its name resolve, does its port take calls,
// does the peer there welcome this one, how long is the way, does its clock agree with this
// machine's, and can it call back? Every refusal is told as both sides tell it in a run, with what
// mends it. Tools; blocking, for 20 s at most where names resolve.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "peer/config/config.h"
#include "peer/doctor/doctor_report.h"
#include "peer/doctor/doctor_visit.h"

namespace starling::peer {

// The first step towards a seed: a connection that says nothing.
struct Dialled {
  std::vector<std::string> addresses{};  // of its name; empty: it does not resolve
  std::string problem{};                 // empty: it was connected to
  Duration took{};
};
// All at once.
std::vector<Dialled> dial(std::span<const gossip::PeerAddress> seeds);

// All that is known of one seed.
struct SeedFacts {
  gossip::PeerAddress address;
  Dialled dialled;
  std::optional<SeedVisit> visit;  // nothing: it was not greeted
  gossip::PeerAddress advertised;  // ours
};
std::vector<Finding> judge_seed(const SeedFacts& facts, const PeerConfig& config);

// Why no seed may be greeted now, and what to do about it.
struct Hindrance {
  std::string reason{};  // empty: they may
  std::string remedy{"mend that first"};
};

// One group for each seed that is not this peer itself. `plan.seeds` is chosen here.
std::vector<FindingGroup> check_seeds(const VisitPlan& plan, const Hindrance& hindrance);

}  // namespace starling::peer
