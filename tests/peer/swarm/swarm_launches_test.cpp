#include "peer/swarm/swarm_launches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/peer/swarm/swarm_samples.h"

namespace starling::peer {
namespace {

SwarmFacts facts(std::uint32_t peers) {
  SwarmFacts result;
  result.run_folder = "runs/demo";
  result.total_tokens = 3000;
  result.processors.allowed = {0, 1, 2, 3, 4, 5, 6, 7};
  for (std::uint32_t i = 0; i < peers; ++i) {
    result.ports.push_back(static_cast<std::uint16_t>(20'000 + 2 * i));
    result.keys.push_back(gossip::stand_in_key(PeerId{i + 1}));
  }
  return result;
}

std::string key(std::uint64_t id) { return gossip::to_string(gossip::stand_in_key(PeerId{id})); }

bool has(const PeerLaunch& launch, const std::string& argument) {
  const auto& arguments = launch.command.arguments;
  return std::find(arguments.begin(), arguments.end(), argument) != arguments.end();
}

TEST_CASE("each peer has the page that is meant for it, behind what the user has set for all") {
  SwarmFacts known = facts(2);
  SwarmOptions chosen = swarm_options(2);
  chosen.overrides = {"status.listen=127.0.0.1:9000"};
  known.status_pages = {"127.0.0.1:9000", "127.0.0.1:9004"};
  auto planned = plan_launches(chosen, known);
  REQUIRE(planned.ok());
  CHECK(planned.value()[1].command.arguments.back() == "status.listen=\"127.0.0.1:9004\"");
}

TEST_CASE("each peer is told its name, its port, its seeds and its share of the machine") {
  auto planned = plan_launches(swarm_options(3), facts(3));
  REQUIRE(planned.ok());
  REQUIRE(planned.value().size() == 3);
  const PeerLaunch& last = planned.value()[2];
  CHECK(last.name == "peer-2");
  CHECK(last.command.log == "runs/demo/peer-2/log.txt");
  const std::vector<std::string> expected = {
      "/usr/bin/starling",
      "peer",
      "configs/demo.toml",
      "--status-json",
      "--set",
      "run.peer_name=\"peer-2\"",
      "--set",
      "gossip.listen=\"127.0.0.1:20004\"",
      "--set",
      "gossip.advertise=\"\"",
      "--set",
      "gossip.seeds=[\"" + key(1) + "@127.0.0.1:20000\", \"" + key(2) + "@127.0.0.1:20002\"]",
      "--set",
      "trust.key=\"runs/demo/peer-2/key\"",
      "--set",
      "trust.allow=\"runs/demo/allow.txt\"",
      "--set",
      "device.threads=2",
      "--set",
      "run.total_tokens=3000"};
  CHECK(last.command.arguments == expected);
  CHECK(has(planned.value()[0], "gossip.seeds=[\"" + key(2) + "@127.0.0.1:20002\", \"" + key(3) +
                                    "@127.0.0.1:20004\"]"));
}

TEST_CASE("a swarm of one has no seeds, and computes on all processors but one") {
  auto planned = plan_launches(swarm_options(1), facts(1));
  REQUIRE(planned.ok());
  CHECK(has(planned.value()[0], "gossip.seeds=[]"));
  CHECK(has(planned.value()[0], "device.threads=7"));
}

TEST_CASE("more threads than there are processors are refused with what would do") {
  SwarmFacts known = facts(3);
  for (const std::uint32_t threads : {9, 3}) {  // three would fit alone, not three times
    known.threads = threads;
    known.pin = true;
    const auto refused = plan_launches(swarm_options(3), known);
    REQUIRE(!refused.ok());
    CHECK(refused.error().message().find("set it to 2") != std::string::npos);
    known.pin = false;
    CHECK(plan_launches(swarm_options(3), known).ok());
  }
  known = facts(3);
  known.threads = 2;
  CHECK(plan_launches(swarm_options(3), known).ok());
  known = facts(20);
  known.threads = 1;
  CHECK(plan_launches(swarm_options(20), known).ok());
}

TEST_CASE("more peers than processors get a thread each and share them") {
  auto planned = plan_launches(swarm_options(20), facts(20));
  REQUIRE(planned.ok());
  CHECK(has(planned.value()[19], "device.threads=1"));
  CHECK(has(planned.value()[19], "device.pin=false"));
  CHECK(planned.value()[19].command.processors.empty());
}

TEST_CASE("peers get processors of their own, unless threads or pinning are set otherwise") {
  SwarmFacts known = facts(3);
  const auto processors = [&](std::size_t peer) {
    return plan_launches(swarm_options(3), known).value()[peer].command.processors;
  };
  CHECK(processors(0) == std::vector<int>{0, 1});
  CHECK(processors(1) == std::vector<int>{2, 3, 4});
  CHECK(processors(2) == std::vector<int>{5, 6, 7});
  known.processors.allowed = {3, 9, 11};
  CHECK(processors(2) == std::vector<int>{11});
  known.threads = 1;
  CHECK(processors(2) == std::vector<int>{11});
  CHECK_FALSE(has(plan_launches(swarm_options(3), known).value()[2], "device.pin=false"));
  known.pin = false;
  CHECK(processors(2).empty());
}

TEST_CASE("peers take one GPU after the other, unless there is none to be shared out") {
  SwarmFacts known = facts(3);
  SwarmOptions chosen = swarm_options(3);
  chosen.overrides = {"device.name=cuda"};
  const auto device = [&](std::size_t peer) {
    return plan_launches(chosen, known).value()[peer].command.arguments.back();
  };
  CHECK(device(1) == "device.name=cuda");
  known.gpus = {1, 3};
  CHECK(device(0) == "device.name=cuda:1");
  CHECK(device(1) == "device.name=cuda:3");
  CHECK(device(2) == "device.name=cuda:1");
}

TEST_CASE("what the user has set comes last, or keeps the launcher from setting it") {
  SwarmOptions chosen = swarm_options(2);
  chosen.overrides = {"run.tokens=5", "device.threads=3"};
  SwarmFacts known = facts(2);
  known.threads = 3;
  auto planned = plan_launches(chosen, known);
  REQUIRE(planned.ok());
  for (const PeerLaunch& launch : planned.value()) {
    CHECK(launch.command.arguments.back() == "device.threads=3");
    CHECK_FALSE(has(launch, "device.threads=4"));
  }
}

TEST_CASE("a peer that begins anew does so once, and goes on when it is started again") {
  SwarmFacts known = facts(2);
  SwarmOptions chosen = swarm_options(2);
  chosen.overrides = {"checkpoint.resume=never"};
  auto planned = plan_launches(chosen, known);
  REQUIRE(planned.ok());
  CHECK(planned.value()[1].restart_arguments.empty());
  known.begins_anew = true;
  planned = plan_launches(chosen, known);
  REQUIRE(planned.ok());
  for (const PeerLaunch& launch : planned.value()) {
    CHECK(launch.restart_arguments == std::vector<std::string>{"--set", "checkpoint.resume=auto"});
    CHECK(launch.command.arguments.back() == "checkpoint.resume=never");
  }
}

TEST_CASE("only the peer that was named is slow") {
  SwarmOptions chosen = swarm_options(2);
  chosen.slow = {{.peer = 1, .factor = 2.5}};
  auto planned = plan_launches(chosen, facts(2));
  REQUIRE(planned.ok());
  CHECK_FALSE(has(planned.value()[0], "test.slow_down_factor=2.5"));
  CHECK(has(planned.value()[1], "test.slow_down_factor=2.5"));
}

TEST_CASE("a plan that cannot work says why") {
  const auto message = [](const SwarmOptions& chosen, std::uint32_t peers) {
    auto planned = plan_launches(chosen, facts(peers));
    REQUIRE_FALSE(planned.ok());
    return planned.error().message();
  };
  CHECK(message(swarm_options(0), 0) == "--peers 0 is outside [1, 256]");
  SwarmOptions chosen = swarm_options(2);
  chosen.slow = {{.peer = 2, .factor = 2}};
  CHECK(message(chosen, 2) == "--slow 2: there are peers 0 to 1");
  chosen.slow = {{.peer = 1, .factor = 0.5}};
  CHECK(message(chosen, 2) == "--slow 1=0.5: the factor is at least 1");
  chosen.slow.clear();
  chosen.overrides = {"run.peer_name = \"x\""};
  CHECK(message(chosen, 2).find("run.peer_name") != std::string::npos);
  chosen.overrides = {"gossip.advertise=a:1"};
  CHECK(message(chosen, 2).find("gossip.advertise") != std::string::npos);
}

}  // namespace
}  // namespace starling::peer
