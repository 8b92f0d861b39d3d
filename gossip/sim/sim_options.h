// SimOptions: everything that decides a simulated run. A run is a function of these values alone.
//
// draw(seed) picks all of them from the seed, by swarm testing (Groce and others, "Swarm testing",
// ISSTA 2012): each class of faults is first switched on or off, then given an intensity, so that
// rare combinations also occur in clean form. Durations are virtual. Thread: plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "gossip/config.h"

namespace starling::gossip {

// Faults on purpose in the harness' own mixer and driver: the checker must find every one of them.
enum class SeededBug : std::uint8_t {
  kNone,
  kAppliesTwice,       // an initiator's delta is added twice
  kSkipsCommit,        // a responder says "applied" and does nothing
  kSkipsCompensation,  // an initiator says "compensated" and does nothing
  kCutWithoutLedger,   // a checkpoint holds the weights of one moment and the ledger of none
  kMovesNothing,       // every difference counts as none
  kPassesDamage,       // a damaged frame is taken for what it was
  kWritesToTheDead,    // whoever is given up is asked ever after what it has
  kServesTheNewest,    // a donor's pieces are of its newest checkpoint, not of the one it offered
};

// What a hostile member does (sim_hostile.h).
enum class Misdeed : std::uint8_t {
  kBuriesTheLiving,  // suspicions and deaths of those who live
  kRaisesTheDead,    // life of whoever does not
  kRunsAhead,        // others' incarnations, far in the future
  kMovesPeers,       // others' addresses
  kInventsPeers,     // by the hundred
  kMisleads,         // probes answered for others, others' goodbyes, refusals
  kNeverAgrees,      // digests that match nothing
  kLiesAboutTokens,  // its own and others'
  kLiesAboutParts,   // of the training data
  kLiesAboutTerms,   // of offers and accepted ones
  kLiesAboutStates,  // offers of states, pieces, requests of them
  kNeverFollows,     // its offers end where they are accepted
  kNeverAnswers,     // it accepts, and that is all
  kNeverSettles,     // neither commits nor acknowledges
  kRepeats,          // at once, and long after
  kMixesNames,       // of exchanges, stripes, attempts
  kSettlesAnything,  // commits, acknowledges and abandons what never was
  kFloods,           // queries, resends, offers, digests, questions, by the dozen
  kSendsRubbish,     // payloads that are not finite, malformed or huge
  kSendsExtremes,    // payloads as far out as the gate lets through
  kVouchesForDead,   // signs of life of everybody, all the time
  kHidesOthers,      // tells newcomers and all others of nobody but itself and peers it invents
  kDeclinesAll,      // and says that it may be asked again at once
  kAbortsAll,        // each stripe that its partner has ready
  kEnd
};
constexpr std::uint32_t bit(Misdeed misdeed) { return 1U << static_cast<unsigned>(misdeed); }

// A duration of zero between two faults means never; a chance of zero likewise.
struct SimFaults {
  double loss = 0;           // of any message
  double duplication = 0;    // of any message
  double lasting = 0;        // messages that outlive a broken connection, a partition, a restart
  double delay_spike = 0;    // messages that take up to spike_max
  double corruption = 0;     // of any message: a bit of its frame changes on the way
  bool reordering = false;   // messages overtake each other within a lane
  double mixer_refusal = 0;  // orders that find no slot
  double disk_failure = 0;   // of one piece of a state, read or stored
  double spurious_deadline = 0;  // chance per input that on_deadline is called too early
  Duration spike_max{};
  Duration bulk_time{};         // what one payload occupies its sender's uplink
  Duration breaks_every{};      // connections that break, in the whole swarm
  Duration partitions_every{};  // one at a time
  Duration partition_length{};
  Duration crashes_every{};
  Duration restart_after{};  // mean; bounded by four times that
  double crash_for_good = 0;
  Duration pauses_every{};
  Duration pause_length{};
  Duration leaves_every{};
  Duration regions_every{};  // a third of the peers crash at once
  Duration clogs_every{};    // half of the peers' links stand still, each for a while of its own
  Duration clog_length{};
  double clock_drift = 0;    // clocks run up to this much too fast or too slow, for ever
  double starved = 0;        // peers whose network thread hardly ever runs
  double uplink_spread = 1;  // bulk_time of a peer is up to this many times longer or shorter
  bool late_joins = false;   // a quarter of the peers comes later
  bool stranger = false;     // a peer of another layout knocks all the time
  // Peers that nobody can dial, of those that are not seeds; they stay so after the faults. Their
  // NAT forgets a line that was idle for a time of its own, 30 s to 5 min. Nobody knows at its
  // start whether it can be dialled.
  double nat = 0;
  double volunteers = 0;     // this share of all forwards for them, where it can be dialled itself
  Duration rebinds_every{};  // a NAT, anywhere, changes its addresses: all lines through it end
  // This share of the peers is hostile; they vanish when the faults end.
  double hostile = 0;
  bool hostile_seeds = false;  // all seeds but the first are, before anybody else; or none is
  std::uint32_t misdeeds = 0;  // of every one of them, as bits; 0: each draws its own
};

// Peers want up to so many times SimOptions::clip_radius, and where nobody is hostile some want
// none.
inline constexpr std::uint32_t kSimRadiiMax = 3;

struct SimOptions {
  std::uint64_t seed = 1;
  std::uint32_t peers = 32;
  std::uint32_t seed_peers = 3;  // addresses that everybody knows; they always return
  std::vector<std::uint32_t> stripes{2, 3, 1};  // stripes of each fragment
  GossipConfig config;
  bool fetch_states = false;  // peers wait at their start, and fetch a state if they are far behind
  Duration latency = std::chrono::milliseconds(20);     // mean of one way, different for every pair
  Duration mixer_delay = std::chrono::milliseconds(5);  // mean time of one order
  Duration publish_every = std::chrono::milliseconds(500);  // the fastest trainer's outer step
  double speed_spread = 100;                                // slowest over fastest period
  Duration cut_every = std::chrono::seconds(10);            // checkpoints
  std::int64_t initial_spread = 1'000'000;
  std::int64_t common_spread = 0;  // of what all begin with alike, besides
  float clip_radius = 0;  // the smallest that a peer may want of half a difference; 0: no clipping
  std::int64_t local_spread = 1000;  // of one local update; 0: no local training
  // So many peers, the last ones, come all at once: so long after the others, and within so long.
  std::uint32_t surge = 0;
  Duration surge_after{}, surge_within{};
  SimFaults faults;
  Duration faulty_time = std::chrono::seconds(90);  // how long the faults run
  SeededBug bug = SeededBug::kNone;

  static SimOptions draw(std::uint64_t seed);
};

}  // namespace starling::gossip
