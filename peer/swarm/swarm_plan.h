// SwarmPlan: what settings suit these machines and lines, and what to expect of them: reckoned, not
// tried. `starling simulate` tries.
//
// The reckoning, for pair_gossip (fragments P, a round of H steps of B tokens):
//
//   round        the fastest machine's takes H B / v; every other does as many steps as it can in
//                that time (optim::dynamic_local_steps), so that all exchange equally often
//   exchanges    each machine begins P a round and is drawn as partner as often as all others begin
//                one over their number; it sends PUSH where it began and DELTA where it accepted
//                (optim/fragment_codec.h). Outside quiet hours only
//   codec        the configured one, or the next narrower one with which every machine keeps to
//                its line and its bytes a day
//   longer round where even the narrowest needs more than a machine may take, that machine begins
//                so many times fewer, and declines as many; up to 4 times
//   fragments    as configured, more where an exchange of the largest would outlast a round; as
//                many at a time (gossip.exchanges_initiated_max) as the delays of the lines want
//   memory       plan_memory() of a GPU where gpu_memory_gb is given, else of a CPU, of 16 threads
//                where device.threads is open; as many sequences at a time as fit
//                (micro_batch_within)
//   contraction  pair_contraction() of the exchanges of a round
//   tokens       in proportion to speed (proportional_shares), so that all end together
//
// and for comparison how long the same machines would stand still in synchronous rounds: with H
// steps each and an all-reduce of the weights in fp32 (DiLoCo), and with the same steps dealt out
// by the linear programme (balanced_shares) where each sends and gets the weights over its
// line; and how the sequences of one common step would be dealt (pipeline_batches).
// Small messages, newcomers' states and retries are not counted. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/config/config.h"
#include "peer/swarm/swarm_plan_file.h"

namespace starling::peer {

// Of each machine of a kind.
struct MachinePlan {
  PlanMachine machine;
  double share = 0;          // of the swarm's tokens
  std::uint64_t tokens = 0;  // run.tokens
  double step_seconds = 0;
  std::uint32_t steps_per_round = 0;
  bool keeps_pace = true;  // false: its line makes its rounds longer
  double round_seconds = 0;
  std::uint32_t exchanges_at_a_time = 1;  // that it began
  std::int64_t micro_batch = 0;
  std::size_t memory_bytes = 0, gpu_memory_bytes = 0;  // of the host's, of a GPU's
  double exchanges_per_hour = 0;  // of a fragment, begun or accepted, outside quiet hours
  double exchange_seconds = 0;    // of the largest fragment, with a partner at the mean
  double upload_mbit = 0, download_mbit = 0;  // outside quiet hours
  double gigabytes_per_day = 0;
  double demand = 0;                 // the largest of those over what it may take
  double idle_all_reduce = 0;        // share of its time, with equal steps
  std::uint64_t balanced_steps = 0;  // of a synchronous round
  double idle_balanced = 0;
  std::uint32_t common_batch = 0;  // sequences of a step that all take together; 0: not dealt
};

struct SwarmPlan {
  double machines = 0;
  std::size_t parameters = 0;
  optim::WireFormat wire_format{};
  std::uint16_t fragments = 0;
  std::uint32_t steps_per_round = 0;  // of the fastest
  double round_seconds = 0;
  double contraction = 1;  // of the variance over peers, a round
  double seconds = 0;      // to run.total_tokens
  std::uint64_t total_tokens = 0;
  std::vector<MachinePlan> kinds;
  std::vector<std::string> notes;    // what was changed, and why
  std::vector<std::string> misfits;  // what cannot be: each names the number to change
};

// `config` as load_config() gives it, of pair-gossip; all speeds are known.
Result<SwarmPlan> plan_swarm(const PeerConfig& config, std::span<const PlanMachine> machines);

// What a machine does not say of its line is as the run's configuration has it.
PlanMachine with_limits_of(const BandwidthConfig& limits, PlanMachine machine);

// Its run.peer_name. `number`: of those of its kind, from 0; said where there are several.
std::string machine_name(const PlanMachine& machine, std::uint32_t number);
// The configuration of one such machine: `config` with the proposal.
PeerConfig machine_config(const PeerConfig& config, const SwarmPlan& plan, const MachinePlan& kind,
                          std::uint32_t number);

}  // namespace starling::peer
