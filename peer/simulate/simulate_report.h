// What a simulation tells: lines of JSON for programs, tables for people. Both follow from the run
// alone, without a date or the time it took, so that equal runs tell the same, byte for byte.
//
//   {"event": "begin", "run", "method", "peers", "parameters", "seed",
//    "config": effective TOML, but for simulate.threads and simulate.out}
//   {"event": "loss", "seconds", "tokens", "bytes", "weight_bytes", "weights_away",
//    "peers", "loss", "disagreement",
//    "single": [{"peer", "steps", "tokens", "bytes", "loss"}, ...]}
//   {"event": "peer", "peer", "speed", "seconds", "goodput", "idle_seconds", "steps", "tokens",
//    "bytes_out", "bytes_in", "weights_away", "messages", "lost", "exchanges",
//    "clip_factor", "blocks", "blocks_skipped", "begun", "begun_seconds", "declined", "failed"}
//   {"event": "end", "why"}
//
// Seconds are virtual; tokens and bytes are those of all peers, but for a single one's, "loss" that
// of their mean model, or of a server's, on held-out text. A loss that is no number is null. What
// is away went to other rooms or regions. Disagreement is how far the peers' weights are from the
// mean's, root mean square over its norm; begun_seconds are what the begun exchanges of pair-gossip
// took, from offer to end, all together, clip_factor what was left of differences that were
// clipped, in the mean of a peer's exchanges; blocks_skipped differed by more than modular codes
// could say. Hostile peers are not among those of "loss".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "peer/simulate/simulate_swarm.h"

namespace starling::peer {

nlohmann::json simulation_begin_json(const PeerConfig& config, std::size_t parameters);
nlohmann::json simulated_json(const SimulatedMoment& moment);
nlohmann::json simulated_json(const SimulatedLife& life);
nlohmann::json simulation_end_json(std::string_view why);

std::string simulated_header();
std::string simulated_line(const SimulatedMoment& moment);
// `last`: for the losses of those that were measured.
std::string simulated_table(std::span<const SimulatedLife> lives, const SimulatedMoment& last);

// As the configuration has it: "pair-gossip".
std::string_view method_name(optim::OuterMethod method);

}  // namespace starling::peer
