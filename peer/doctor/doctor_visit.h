// A visit to the seeds: a peer's core and link, as in a run, but with nothing to exchange. It
// greets the seeds, lets itself be probed and called back, and leaves with a goodbye, so what it
// finds out is what a run would meet with.
//
// The others take it for a peer that is about to end: offers are declined for a minute, it never
// trains, says nothing of tokens or data, and asks for no relay. It keeps lines to the seeds alone.
// For as long as kFetchMax, or kFetchBytesMax have come, it fetches their state like a newcomer,
// which tells how fast they send, and keeps nothing.
//
// Blocks until all is known, at most kVisitMax; opens gossip.listen meanwhile. Nobody else may use
// this peer's key then: the others would take that for a restart. Errors are those of the link.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gossip/actions.h"
#include "gossip/clock_offsets.h"
#include "gossip/net/identity.h"
#include "peer/config/config.h"
#include "peer/doctor/doctor_fetch.h"
#include "peer/roles/run_start.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

inline constexpr Duration kGreetingMax = std::chrono::seconds(5);  // for a first answer
inline constexpr Duration kFetchMax = std::chrono::seconds(4);
inline constexpr std::uint64_t kFetchBytesMax = std::uint64_t{64} << 20;
inline constexpr Duration kVisitMax = std::chrono::seconds(16);

struct VisitPlan {
  const PeerConfig& config;
  const gossip::Identity& identity;
  CheckpointDigests digests;
  std::string tokenizer{};  // the name of the one that made the data; empty: not known
  const StripeTable& stripes;
  std::span<const gossip::PeerAddress> seeds;
  bool fetches = true;        // its owner allows the traffic
  std::uint64_t process = 0;  // its incarnation: above that of the last start, below the next one's
};

// What came of one seed.
struct SeedVisit {
  bool welcomed = false;
  gossip::PeerAddress advertised{};            // where it says that it takes calls
  std::optional<gossip::Refused> refused{};    // by it, or by us
  Duration round_trip{};                       // smoothed over pings; zero: none was answered
  std::optional<gossip::ClockOffset> clock{};  // nothing: it has told no time
  Fetched fetched{};
  std::optional<gossip::StateReason> declined{};  // why it gave nothing
  bool calls_back = false;                        // it has opened connections to us, on both lanes
};

struct VisitOutcome {
  std::vector<SeedVisit> seeds;      // as many as in the plan
  gossip::PeerAddress advertised{};  // what they were told
  std::uint64_t others = 0;          // of the swarm, as far as they told
};
Result<VisitOutcome> visit_seeds(const VisitPlan& plan);

}  // namespace starling::peer
