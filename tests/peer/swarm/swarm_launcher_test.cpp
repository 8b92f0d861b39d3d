#include "peer/swarm/swarm_launcher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "peer/files/prepare.h"
#include "peer/files/run_folder.h"
#include "peer/files/tokenizer_file.h"
#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

SwarmOptions options(std::uint32_t peers) {
  SwarmOptions result;
  result.program = "/usr/bin/starling";
  result.config = "configs/demo.toml";
  result.peers = peers;
  return result;
}

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

TEST_CASE("each peer of a swarm gets a status page of its own, and a port of any is left to each") {
  SwarmFacts known = facts(3);
  SwarmOptions chosen = options(3);
  chosen.overrides = {"status.listen=127.0.0.1:9000"};
  known.status_listen = "127.0.0.1:9000";
  auto planned = plan_launches(chosen, known);
  REQUIRE(planned.ok());
  CHECK(planned.value()[2].command.arguments.back() == "status.listen=127.0.0.1:9002");
  known.status_listen = "[::1]:65535";
  planned = plan_launches(options(3), known);
  REQUIRE(planned.ok());
  CHECK(planned.value()[1].command.arguments.back() == "status.listen=[::1]:0");
  known.status_listen = "127.0.0.1:0";
  planned = plan_launches(options(3), known);
  REQUIRE(planned.ok());
  CHECK(planned.value()[1].command.arguments.back() == "status.listen=127.0.0.1:0");
}

TEST_CASE("each peer is told its name, its port, its seeds and its share of the machine") {
  auto planned = plan_launches(options(3), facts(3));
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
  auto planned = plan_launches(options(1), facts(1));
  REQUIRE(planned.ok());
  CHECK(has(planned.value()[0], "gossip.seeds=[]"));
  CHECK(has(planned.value()[0], "device.threads=7"));
}

TEST_CASE("more threads than there are processors are refused with what would do") {
  SwarmFacts known = facts(3);
  for (const std::uint32_t threads : {9, 3}) {  // three would fit alone, not three times
    known.threads = threads;
    known.pin = true;
    const auto refused = plan_launches(options(3), known);
    REQUIRE(!refused.ok());
    CHECK(refused.error().message().find("set it to 2") != std::string::npos);
    known.pin = false;
    CHECK(plan_launches(options(3), known).ok());
  }
  known = facts(3);
  known.threads = 2;
  CHECK(plan_launches(options(3), known).ok());
  known = facts(20);
  known.threads = 1;
  CHECK(plan_launches(options(20), known).ok());
}

TEST_CASE("more peers than processors get a thread each and share them") {
  auto planned = plan_launches(options(20), facts(20));
  REQUIRE(planned.ok());
  CHECK(has(planned.value()[19], "device.threads=1"));
  CHECK(has(planned.value()[19], "device.pin=false"));
  CHECK(planned.value()[19].command.processors.empty());
}

TEST_CASE("peers get processors of their own, unless threads or pinning are set otherwise") {
  SwarmFacts known = facts(3);
  const auto processors = [&](std::size_t peer) {
    return plan_launches(options(3), known).value()[peer].command.processors;
  };
  CHECK(processors(0) == std::vector<int>{0, 1});
  CHECK(processors(1) == std::vector<int>{2, 3, 4});
  CHECK(processors(2) == std::vector<int>{5, 6, 7});
  known.processors.allowed = {3, 9, 11};
  CHECK(processors(2) == std::vector<int>{11});
  known.threads = 1;
  CHECK(processors(2) == std::vector<int>{11});
  CHECK_FALSE(has(plan_launches(options(3), known).value()[2], "device.pin=false"));
  known.pin = false;
  CHECK(processors(2).empty());
}

TEST_CASE("peers take one GPU after the other, unless there is none to be shared out") {
  SwarmFacts known = facts(3);
  SwarmOptions chosen = options(3);
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
  SwarmOptions chosen = options(2);
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
  SwarmOptions chosen = options(2);
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
  SwarmOptions chosen = options(2);
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
  CHECK(message(options(0), 0) == "--peers 0 is outside [1, 256]");
  SwarmOptions chosen = options(2);
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

TEST_CASE("a configuration that does not exist is named") {
  SwarmOptions chosen = options(2);
  chosen.config = "/nowhere/demo.toml";
  std::ostringstream out;
  Status ran = run_swarm(chosen, out);
  REQUIRE_FALSE(ran.ok());
  CHECK(ran.error().message().find("/nowhere/demo.toml") != std::string::npos);
}

// A swarm of this machine that could be prepared: a folder with data and a configuration.
struct Home {
  explicit Home(std::uint32_t peers, const std::string& more = "") : swarm(options(peers)) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "In the beginning was line " + std::to_string(i) + ".\n";
    std::ofstream(folder.path() / "text") << text;
    auto tokenizer = open_tokenizer("bytes");
    REQUIRE(tokenizer.ok());
    REQUIRE(prepare({.texts = {folder.path() / "text"}, .out = folder.path() / "data"},
                    tokenizer.value())
                .ok());
    swarm.config = folder.path() / "small.toml";
    std::ofstream(swarm.config) << "[run]\nname = \"small\"\nfolder = \"" << runs.string()
                                << "\"\n[data]\ntrain = [\"" << folder.path().string()
                                << "/data/train\"]\nvalidation = []\n[metrics]\n"
                                << "validate_every_steps = 0\n"
                                << more;
  }
  // What each peer is instead.
  void play(const std::string& script) {
    swarm.program = folder.path() / "peer.sh";
    std::ofstream(swarm.program) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(swarm.program, std::filesystem::perms(0755));
  }
  std::string refusal() const {
    auto prepared = prepare_swarm(swarm);
    REQUIRE_FALSE(prepared.ok());
    return prepared.error().message();
  }
  ScratchFolder folder;
  std::filesystem::path runs = folder.path() / "runs";
  SwarmOptions swarm;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a swarm that has nothing to be measured on is averaged all the same") {
  Home home(1);
  const Written written = write_drawn(home.folder, "model.ckpt", 5);
  home.play("echo '{\"phase\": \"ended\", \"step\": 1, \"checkpoints\": 1, \"checkpoint\": \"" +
            written.path.string() + "\"}'");
  // The average of a swarm takes the place of the last one. A page may have the file's port of the
  // link: no peer of a swarm has it.
  for (const std::string page : {"127.0.0.1:0", "127.0.0.1:7700"}) {
    home.swarm.overrides = {"status.listen=" + page};
    std::ostringstream out;
    Status ran = run_swarm(home.swarm, out);
    REQUIRE_MESSAGE(ran.ok(), ran.error().message());
    CHECK(contains(out.str(), "1 peer in "));
    CHECK_FALSE(contains(out.str(), "http://127.0.0.1:0"));  // each peer gets another port
    CHECK(contains(out.str(), (home.runs / "small/average.ckpt").string()));
    CHECK(std::filesystem::exists(home.runs / "small/average.ckpt"));
  }
}

TEST_CASE("where there is no average, it is told whether any checkpoint was written this time") {
  Home home(1);
  const auto fault = [&home](const std::string& part) {
    std::ostringstream out;
    Status ran = run_swarm(home.swarm, out);
    CHECK(contains(out.str(), part));
    return ran.ok() ? std::string() : ran.error().message();
  };
  const std::string resumed = R"("phase": "training", "step": 2, "checkpoint": "/runs/7.ckpt")";
  for (const std::string& status : {std::string(R"("phase": "ended", "step": 1)"), resumed}) {
    home.play("echo '{" + status + "}'; exit 3");
    const std::string none = fault("  peer-0       none of this start\n");
    CHECK(none.starts_with("no peer wrote a checkpoint this time: "));
  }
  home.play("echo '{" + resumed + R"(, "checkpoints": 1}'; exit 3)");
  const std::string failed = fault("  peer-0       /runs/7.ckpt\n");
  CHECK(failed.starts_with("there is no average, as the peers that wrote a checkpoint failed "));
}

TEST_CASE("peers that are to begin anew go on when they are started again, by the file or --set") {
  for (const bool by_file : {true, false}) {
    Home home(2, by_file ? "[checkpoint]\nresume = \"never\"\n" : "");
    if (!by_file) home.swarm.overrides = {"checkpoint.resume=never"};
    auto prepared = prepare_swarm(home.swarm);
    REQUIRE(prepared.ok());
    CHECK(prepared.value().launches[1].restart_arguments.size() == 2);
  }
  const Home plain(2);
  auto prepared = prepare_swarm(plain.swarm);
  REQUIRE(prepared.ok());
  CHECK(prepared.value().launches[1].restart_arguments.empty());
}

TEST_CASE("a number of peers that cannot be is refused before anything is written") {
  Home home(0);
  CHECK(home.refusal() == "--peers 0 is outside [1, 256]");
  home.swarm.peers = 1'000'000;
  CHECK(home.refusal() == "--peers 1000000 is outside [1, 256]");
  CHECK_FALSE(std::filesystem::exists(home.runs));
  home.swarm.peers = 2;
  CHECK(prepare_swarm(home.swarm).ok());
}

TEST_CASE("what is wrong with the file alone is not said of settings that nobody has made") {
  Home home(2, "[model]\nheads = 3\n");
  CHECK(home.refusal().starts_with(home.swarm.config.string() + ": "));
  home.swarm.overrides = {"run.seed=2"};
  CHECK(home.refusal().starts_with(home.swarm.config.string() + " with --set: "));
}

TEST_CASE("peers of a swarm do not share a folder of checkpoints, whoever names it") {
  Home home(2, "[checkpoint]\nfolder = \"somewhere\"\n");
  CHECK(contains(home.refusal(), "checkpoint.folder"));
  CHECK_FALSE(std::filesystem::exists(home.runs));
  home.swarm.peers = 1;
  CHECK(prepare_swarm(home.swarm).ok());
  Home plain(2);
  plain.swarm.overrides = {"checkpoint.folder=somewhere"};
  CHECK(contains(plain.refusal(), "checkpoint.folder"));
}

TEST_CASE("a swarm whose name is in use changes nothing for the one that runs") {
  const Home home(2);
  REQUIRE(prepare_swarm(home.swarm).ok());
  auto running = RunFolder::open({home.runs, "small", "peer-3"});  // of the larger swarm
  REQUIRE(running.ok());
  std::ofstream(home.runs / "small/allow.txt") << "its list";
  CHECK(contains(home.refusal(), "run.name"));
  std::ifstream list(home.runs / "small/allow.txt");
  CHECK(std::string(std::istreambuf_iterator<char>(list), {}) == "its list");
}

TEST_CASE("data that no peer could read are named once, and no peer is started for it") {
  SwarmOptions chosen = options(2);
  const ScratchFolder folder;
  chosen.config = folder.path() / "small.toml";
  std::ofstream(chosen.config) << "[data]\ntrain = [\"/nowhere/data\"]\n";
  chosen.program = "/nowhere/starling";
  std::ostringstream out;
  Status ran = run_swarm(chosen, out);
  REQUIRE_FALSE(ran.ok());
  CHECK(ran.error().message().find("data.train: there is no /nowhere/data") != std::string::npos);
  CHECK(out.str().empty());
}

}  // namespace
}  // namespace starling::peer
