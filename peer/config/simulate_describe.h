// The description of the section [simulate], for the visitors of config_describe.h. Template only.
#pragma once

#include <array>
#include <cstdint>

#include "peer/config/config_ranges.h"
#include "peer/config/simulate_settings.h"

namespace starling::peer {

inline constexpr std::array kSimulatedNetworks{
    Choice<SimulatedNetwork>{"uniform", SimulatedNetwork::kUniform},
    Choice<SimulatedNetwork>{"regions", SimulatedNetwork::kRegions}};
inline constexpr std::array kSimulatedMisdeeds{
    Choice<SimulatedMisdeed>{"climb", SimulatedMisdeed::kClimb},
    Choice<SimulatedMisdeed>{"hold", SimulatedMisdeed::kHold}};

template <class Visitor>
void describe(Visitor& visit, SimulateSettings& c) {
  const RealRange mbit{0.001, 1e6};
  const RealRange seconds{0, 1e9};
  visit.begin_section("simulate", "A swarm in one process and in virtual time, for `simulate`.");
  visit("peers", c.peers, IntegerRange{1, 4096},
        "At the start. It ends when all together have trained this many times run.tokens.");
  visit("seconds", c.seconds, seconds, "Virtual, when it ends at the latest. 0: 1e9.");
  visit("step_seconds", c.step_seconds, RealRange{1e-6, 1e6},
        "Virtual, of a training step at speed 1.");
  visit("speeds", c.speeds, TextRange{1, 32},
        "Of the peers, in turn: like \"1\", \"1/4\" or \"0.1\".");
  visit("jitter", c.jitter, RealRange{0, 2},
        "Every step's time is multiplied by exp(jitter * z - jitter^2 / 2), z normal.");
  visit("change_factor", c.change_factor, RealRange{1, 100},
        "Now and then a peer's speed becomes between its own / this and its own. 1: never.");
  visit("change_seconds", c.change_seconds, RealRange{1e-3, 1e8},
        "On average between two such changes of a peer.");
  visit("network", c.network, kSimulatedNetworks,
        "uniform: latency_ms between any two. regions: the peers are in ten regions of the world "
        "in turn, and latency and rate of a pair are measured ones.");
  visit("latency_ms", c.latency_ms, RealRange{0, 1e6},
        "One way, between two peers of such a link; otherwise the mean of both counts.");
  visit("upload_mbit", c.upload_mbit, mbit, "Of a peer's line.");
  visit("download_mbit", c.download_mbit, mbit, "Of a peer's line.");
  visit("loss", c.loss, RealRange{0, 0.9},
        "Share of the messages that never arrive; all methods but pair-gossip send parcels again.");
  visit("lost_halves", c.lost_halves, RealRange{0, 1},
        "Share of the exchanged stripes that count on one side alone: who asked loses its half, as "
        "by a restart from an older checkpoint. For pair-gossip.");
  visit("hostile", c.hostile, IntegerRange{0, 4095},
        "So many peers, the last of simulate.peers, do a misdeed at every step. Losses are of the "
        "others.");
  visit("misdeed", c.misdeed, kSimulatedMisdeeds,
        "climb: they climb the loss. hold: they keep the same untrained weights, all of them.");
  visit("links", c.links, TextRange{1, 128},
        "Instead of the four above, of the peers in turn: \"LATENCY_MS UPLOAD DOWNLOAD LOSS\".");
  visit("rooms", c.rooms, TextRange{7, 128},
        "The next so many peers share one line to all others, which comes on top of their own: "
        "\"PEERS LATENCY_MS UPLOAD DOWNLOAD\".");
  visit("schedule", c.schedule, TextRange{6, 128},
        "What happens: \"SECONDS crash PEER\", \"SECONDS leave PEER\", \"SECONDS join\", "
        "\"SECONDS partition PEERS SECONDS\" (the first PEERS and the others, for so long).");
  visit("evaluate_seconds", c.evaluate_seconds, seconds,
        "Virtual, between measurements on held-out text. 0: twenty in all.");
  visit("peers_evaluated", c.peers_evaluated, IntegerRange{0, 4096},
        "So many peers, evenly spread, are measured beside the mean of all.");
  visit("threads", c.threads, IntegerRange{0, 1024},
        "That compute. 0: as many as make sense here. No result depends on it.");
  visit("out", c.out, TextRange{0, 4096},
        "File of JSON lines. Empty: a new simulate*.jsonl in <run.folder>/<run.name>.");
  visit.end_section();
}

}  // namespace starling::peer
