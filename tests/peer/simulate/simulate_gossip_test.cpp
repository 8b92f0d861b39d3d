// What gossip alone does to the weights of a simulated swarm.
#include "peer/simulate/simulate_gossip.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "peer/roles/role_settings.h"
#include "peer/simulate/simulate_plan.h"
#include "peer/simulate/simulate_swarm.h"
#include "peer/simulate/virtual_peer.h"
#include "tests/peer/simulate/simulation.h"

namespace starling::peer {
namespace {

struct Moments {
  std::vector<double> mean;
  double spread = 0;
};

Moments slow_weights(const SimulatedGossip& gossip, std::size_t elements, std::uint32_t peers) {
  Moments now{std::vector<double>(elements), 0};
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    const auto slow = gossip.mixer(peer).slow();
    for (std::size_t i = 0; i < elements; ++i) now.mean[i] += slow[i] / static_cast<double>(peers);
  }
  for (std::uint32_t peer = 0; peer < peers; ++peer) {
    const auto slow = gossip.mixer(peer).slow();
    for (std::size_t i = 0; i < elements; ++i) now.spread += std::pow(slow[i] - now.mean[i], 2);
  }
  return now;
}

struct GossipAlone {
  double left = 0;   // of the spread
  double moved = 0;  // the mean, where it moved most
};

// Behind the end of the schedule nothing is learned, and with alpha 0 and beta 1 the outer step
// moves nothing either: what is left is gossip.
GossipAlone gossip_alone(const std::string& setting) {
  Simulation simulation;
  const std::vector<std::string> overrides{"schedule.total_tokens=10240",
                                           "schedule.floor_ratio=0",
                                           "outer.momentum=0",
                                           "outer.learning_rate=1",
                                           "outer.gain=1",
                                           "simulate.latency_ms=0",
                                           "simulate.upload_mbit=1e6",
                                           "simulate.download_mbit=1e6",
                                           "simulate.evaluate_seconds=0.35",
                                           setting};
  auto loaded = load_simulation(simulation.config(), overrides);
  REQUIRE(loaded.ok());
  const PeerConfig& config = loaded.value();
  auto plan = simulate_plan(config.simulate, 64, config.run.total_tokens);
  REQUIRE(plan.ok());
  auto world = open_world(config);
  REQUIRE(world.ok());
  auto made = SimulatedSwarm::create(world.value(), plan.value(), 1);
  REQUIRE(made.ok());
  SimulatedSwarm& swarm = *made.value();
  const auto& gossip = dynamic_cast<const SimulatedGossip&>(swarm.method());
  std::vector<Moments> late;
  const Status ran = swarm.run([&](const SimulatedMoment& moment) {
    if (moment.tokens < 10240 + 4 * 64 * 12) return;  // all have had an outer step since
    late.push_back(slow_weights(gossip, world.value().layout.elements(), 4));
  });
  REQUIRE(ran.ok());
  REQUIRE(late.size() > 5);
  GossipAlone result{late.back().spread / late.front().spread, 0};
  for (std::size_t i = 0; i < late.front().mean.size(); ++i) {
    result.moved = std::max(result.moved, std::abs(late.back().mean[i] - late.front().mean[i]));
  }
  return result;
}

TEST_CASE("gossip alone keeps the mean of the slow weights and brings peers together") {
  const GossipAlone result = gossip_alone("simulate.lost_halves=0");
  CHECK(result.left < 0.5);
  CHECK(result.moved < 1e-6);
}

TEST_CASE("exchanges that count on one side alone move the mean, and bring peers together too") {
  const GossipAlone result = gossip_alone("simulate.lost_halves=1");
  CHECK(result.left < 0.8);
  CHECK(result.moved > 1e-4);
}

TEST_CASE("a swarm in which every other exchange counts on one side alone learns") {
  Simulation simulation;
  const auto whole = simulation.run({});
  const auto lines = simulation.run({"simulate.lost_halves=0.5"});
  CHECK(lines != whole);
  CHECK(of_kind(lines, "loss").back()["loss"].get<double>() < 1.5);
  for (const nlohmann::json& peer : of_kind(lines, "peer")) CHECK(peer["exchanges"] > 0);
}

TEST_CASE("what differs by more than codes can say is counted, and floats can say all") {
  Simulation simulation;
  const auto blocks = [&](const char* format, const char* key) {
    std::uint64_t count = 0;
    for (const nlohmann::json& peer : of_kind(simulation.run({format}), "peer")) {
      count += peer[key].get<std::uint64_t>();
    }
    return count;
  };
  CHECK(blocks("outer.wire_format=f32", "blocks") > 100);
  CHECK(blocks("outer.wire_format=f32", "blocks_skipped") == 0);
  const std::uint64_t skipped = blocks("outer.wire_format=mod4", "blocks_skipped");
  CHECK(skipped > 0);
  CHECK(skipped < blocks("outer.wire_format=mod4", "blocks") / 4);
}

}  // namespace
}  // namespace starling::peer
