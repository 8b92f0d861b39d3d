// SimulateSettings: the section [simulate] of a configuration: a swarm of virtual peers, for
// `starling simulate`. A peer that runs does not look at it. simulate/simulate_plan.h reads the
// texts in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace starling::peer {

enum class SimulatedNetwork : std::uint8_t { kUniform, kRegions };
enum class SimulatedMisdeed : std::uint8_t { kClimb, kHold };

struct SimulateSettings {
  std::uint32_t peers = 8;
  double seconds = 0;
  double step_seconds = 1;
  std::vector<std::string> speeds{"1"};
  double jitter = 0;
  double change_factor = 1;
  double change_seconds = 600;
  SimulatedNetwork network = SimulatedNetwork::kUniform;
  double latency_ms = 40;
  double upload_mbit = 100;
  double download_mbit = 100;
  double loss = 0;
  double lost_halves = 0;
  std::uint32_t hostile = 0;
  SimulatedMisdeed misdeed = SimulatedMisdeed::kClimb;
  std::vector<std::string> links;
  std::vector<std::string> rooms;
  std::vector<std::string> schedule;
  double evaluate_seconds = 0;
  std::uint32_t peers_evaluated = 8;
  std::uint32_t threads = 0;
  std::string out;
};

}  // namespace starling::peer
