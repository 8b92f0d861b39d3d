#include "peer/commands/plan_command.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/peer/file_steps.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {

namespace {

struct Described {
  explicit Described(const std::string& more = "") {
    std::ofstream(folder.path() / "run.toml") << "[run]\nname = \"planned\"\n";
    std::ofstream(folder.path() / "plan.toml")
        << "config = \"run.toml\"\n[[machine]]\nname = \"fast\"\ntokens_per_second = 10_000\n"
           "[[machine]]\nname = \"slow\"\ncount = 2\ntokens_per_second = 1000\n"
        << more;
  }
  Status run(PlanOptions options = {}) {
    options.file = folder.path() / "plan.toml";
    std::ostringstream out;
    Status done = run_plan(options, out);
    text = out.str();
    return done;
  }
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }

  ScratchFolder folder;
  std::string text;
};

}  // namespace

TEST_CASE("a plan is a table, and the lines that each machine's configuration wants") {
  Described described;
  REQUIRE(described.run({.overrides = {"outer.local_steps=fixed"}}).ok());
  CHECK(described.says("3 machines"));
  CHECK(described.says("2 x slow"));
  CHECK(
      described.says("# slow, the first of 2; the others differ in run.peer_name\n[run]\n"
                     "peer_name = \"slow-0\"\n"));
  CHECK(described.says("[outer]\nlocal_steps = \"dynamic\"\n"));
  CHECK(!described.says("DOES NOT FIT"));
}

TEST_CASE("one machine is one, not several") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "run.toml") << "[run]\nname = \"planned\"\n";
  std::ofstream(folder.path() / "plan.toml")
      << "config = \"run.toml\"\n[[machine]]\nname = \"only\"\ntokens_per_second = 1000\n";
  std::ostringstream out;
  REQUIRE(run_plan({.file = folder.path() / "plan.toml"}, out).ok());
  CHECK(out.str().starts_with("1 machine, "));
}

TEST_CASE("as JSON it is one line") {
  Described described;
  REQUIRE(described.run({.json = true}).ok());
  const auto plan = nlohmann::json::parse(described.text);
  CHECK(plan["machines"].size() == 2);
  CHECK(plan["machines"][1]["steps_per_round"] == 5);
  CHECK(plan["misfits"].empty());
}

TEST_CASE("every machine gets a configuration that loads, and none is overwritten") {
  Described described;
  const auto folder = described.folder.path() / "new" / "configs";
  REQUIRE(described.run({.overrides = {"outer.steps_per_round=200"}, .write = folder}).ok());
  for (const char* name : {"fast", "slow-0", "slow-1"}) {
    CAPTURE(name);
    auto config = load_config(folder / (std::string(name) + ".toml"), {});
    REQUIRE(config.ok());
    CHECK(config.value().run.peer_name == name);
    CHECK(config.value().run.name == "planned");
    CHECK(config.value().outer.rounds.steps_per_round == 200);
    CHECK(config.value().outer.local_steps == LocalSteps::kDynamic);
  }
  std::filesystem::remove(folder / "slow-0.toml");
  CHECK(!described.run({.write = folder}).ok());
  CHECK(!std::filesystem::exists(folder / "slow-0.toml"));
  CHECK(described.text.empty());  // found before anything is reckoned, let alone measured
}

TEST_CASE("two machines of one name are found before anything is written") {
  Described described("[[machine]]\nname = \"slow-1\"\ntokens_per_second = 1000\n");
  const auto folder = described.folder.path() / "new";
  CHECK(!described.run({.write = folder}).ok());
  CHECK(!std::filesystem::exists(folder));
}

TEST_CASE("a slip in a plan is told with its line, whatever else was asked") {
  for (const bool write : {false, true}) {
    Described described("upload_mbit = 1 Mbit\n");
    const Status done =
        described.run({.write = write ? described.folder.path() / "new" : std::filesystem::path()});
    REQUIRE(!done.ok());
    CHECK(done.error().message().find("plan.toml:9") != std::string::npos);
  }
}

TEST_CASE("a plan that does not fit is an error that is printed, and nothing is written") {
  Described described("upload_mbit = 0.001\n");
  const auto folder = described.folder.path() / "new";
  const Status done = described.run({.write = folder});
  CHECK(!done.ok());
  CHECK(described.says("DOES NOT FIT: slow:"));
  CHECK(described.says("upload_mbit = "));
  CHECK(!std::filesystem::exists(folder));
}

}  // namespace starling::peer
