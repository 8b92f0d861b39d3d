// SimulatePlan: what the texts of [simulate] mean: who is how fast, whose line is how good, what
// happens when. Plain values; every error names the key and what it should look like.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "peer/config/config.h"
#include "peer/simulate/virtual_network.h"

namespace starling::peer {

struct Happening {
  enum class Kind : std::uint8_t { kCrash, kLeave, kJoin, kPartition };
  Instant at;
  Kind kind{};
  std::uint32_t peer = 0;  // kPartition: so many peers, the first, on one side
  Duration length{};       // kPartition
};

struct SimulatePlan {
  std::vector<double> speeds;      // of peer i: number i modulo the size
  std::vector<VirtualLine> lines;  // likewise
  std::vector<VirtualRoom> rooms;
  std::vector<Happening> schedule;
  std::uint32_t peers_ever = 0;  // those who join counted
  std::uint32_t first_hostile = 0, hostile = 0;
  Instant end;
  Duration evaluate_every{};

  double speed(std::uint32_t peer) const { return speeds[peer % speeds.size()]; }
  const VirtualLine& line(std::uint32_t peer) const { return lines[peer % lines.size()]; }
  bool is_hostile(std::uint32_t peer) const {
    return peer >= first_hostile && peer - first_hostile < hostile;
  }
};

// `step_tokens` and `total_tokens` tell how long it will take where nothing else does.
Result<SimulatePlan> simulate_plan(const SimulateSettings& settings, std::uint64_t step_tokens,
                                   std::uint64_t total_tokens);

// load_config() with run.total_tokens = simulate.peers * run.tokens, whatever the file says; an
// override may say otherwise.
Result<PeerConfig> load_simulation(const std::filesystem::path& file,
                                   std::span<const std::string> overrides);

}  // namespace starling::peer
