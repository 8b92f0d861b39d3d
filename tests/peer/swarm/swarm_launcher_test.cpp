#include "peer/swarm/swarm_launcher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "peer/files/checkpoint_store.h"
#include "peer/files/prepare.h"
#include "peer/files/run_folder.h"
#include "peer/files/tokenizer_file.h"
#include "peer/status/status_server.h"
#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"
#include "tests/peer/swarm/swarm_samples.h"

namespace starling::peer {
namespace {

TEST_CASE("a configuration that does not exist is named") {
  SwarmOptions chosen = swarm_options(2);
  chosen.config = "/nowhere/demo.toml";
  std::ostringstream out;
  Status ran = run_swarm(chosen, out);
  REQUIRE_FALSE(ran.ok());
  CHECK(ran.error().message().find("/nowhere/demo.toml") != std::string::npos);
}

// A swarm of this machine that could be prepared: a folder with data and a configuration.
struct Home {
  explicit Home(std::uint32_t peers, const std::string& more = "") : swarm(swarm_options(peers)) {
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
  SwarmOptions chosen = swarm_options(2);
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

TEST_CASE("pages of a swarm pass over ports that others have, and there may be none") {
  const Home home(3);
  auto pages = [swarm = home.swarm](const std::string& listen) mutable {
    swarm.overrides = {"status.listen=" + listen};
    auto prepared = prepare_swarm(swarm);
    REQUIRE(prepared.ok());
    return prepared.value().facts.status_pages;
  };
  auto found = StatusServer::open({.host = "127.0.0.1", .port = 0});
  REQUIRE(found.ok());
  const int taken = found.value()->port();
  const std::string first = "127.0.0.1:" + std::to_string(taken);
  const std::vector<std::string> chosen = pages(first);
  REQUIRE(chosen.size() == 3);
  CHECK(std::set<std::string>(chosen.begin(), chosen.end()).size() == 3);
  CHECK(std::find(chosen.begin(), chosen.end(), first) == chosen.end());
  CHECK(pages("[::1]:65535").back() == "[::1]:0");
  CHECK(pages("127.0.0.1:0") == std::vector<std::string>(3, "127.0.0.1:0"));
  CHECK(pages("").empty());
}

TEST_CASE("an average takes the place of the last one, which is kept, and says of whom it is") {
  Home home(2);
  const Written written = write_drawn(home.folder, "model.ckpt", 5);
  const std::string told = R"("phase": "ended", "step": 1, "checkpoints": 1, "checkpoint": ")" +
                           written.path.string() + "\"}";
  const std::filesystem::path folder = home.runs / "small";
  home.play("echo '{" + told + "'; case \"$*\" in *peer-1*) exit 3;; esac");
  std::ostringstream first, second;
  CHECK_FALSE(run_swarm(home.swarm, first).ok());
  CHECK(contains(first.str(), "average.ckpt (of 1 of 2 peers)"));
  CHECK_FALSE(contains(first.str(), "going on"));
  std::ofstream(folder / "average.ckpt") << "of before";
  std::filesystem::create_directories(folder / "peer-1/checkpoints");
  std::ofstream(folder / "peer-1/checkpoints/00000000000000000001.ckpt") << "there";
  CHECK_FALSE(run_swarm(home.swarm, second).ok());
  CHECK(contains(second.str(), ", 1 of them going on from what is there"));
  CHECK(contains(second.str(), "(of 1 of 2 peers; the one before is average.last.ckpt)"));
  std::ifstream kept(folder / "average.last.ckpt");
  CHECK(std::string(std::istreambuf_iterator<char>(kept), {}) == "of before");
  CHECK(open_checkpoint(folder / "average.ckpt").ok());
}

}  // namespace
}  // namespace starling::peer
