#include "peer/swarm/swarm_plan_file.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "peer/doctor/doctor_report.h"

namespace starling::peer {

namespace {

// What is wrong with it; empty: nothing.
std::string fault(const std::string& text) {
  auto parsed = parse_plan_file(text, "plan.toml", "/somewhere");
  return parsed.ok() ? std::string() : parsed.error().message();
}

std::string machine(const std::string& lines) {
  return "config = \"peer.toml\"\n[[machine]]\nname = \"a\"\n" + lines;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the example describes its machines") {
  auto plan = load_plan_file(STARLING_CONFIGS "/plan.toml");
  CAPTURE((plan.ok() ? std::string() : plan.error().message()));
  REQUIRE(plan.ok());
  CHECK(plan.value().config == std::filesystem::path(STARLING_CONFIGS) / "peer.toml");
  REQUIRE(plan.value().machines.size() == 3);
  const PlanMachine& gaming = plan.value().machines[1];
  CHECK(gaming.name == "gaming-pc");
  CHECK(gaming.count == 2);
  CHECK(gaming.tokens_per_second == 9000);
  CHECK(gaming.memory_gb == 8);
  CHECK(gaming.upload_mbit == 20);
  CHECK(gaming.region == 7);
  CHECK(gaming.gigabytes_per_day == 80);
  CHECK(gaming.quiet_hours == "19:00-23:00");
  CHECK(!plan.value().machines[2].tokens_per_second);
  CHECK(plan.value().machines[2].round_trip_ms == 60);
}

TEST_CASE("whatever is wrong is named, all of it at once") {
  CHECK(fault(machine("tokens_per_second = 5")).empty());
  CHECK(mentions(fault(machine("")), "tokens_per_second is missing"));
  CHECK(mentions(fault(machine("tokens_per_second = 0")), "number from"));
  CHECK(mentions(fault(machine("tokens_per_second = nan")), "number from"));
  CHECK(mentions(fault(machine("tokens_per_second = \"soon\"")), "\"measure\""));
  CHECK(mentions(fault(machine("tokens_per_second = 5\ncount = 1.5")), "count must be an integer"));
  CHECK(mentions(fault(machine("tokens_per_second = 5\ncount = 1e9")), "count must be a number"));
  CHECK(mentions(fault(machine("tokens_per_second = 5\nregion = \"Atlantis\"")), "Frankfurt"));
  CHECK(mentions(fault(machine("tokens_per_second = 5\nuploads_mbit = 1")), "'upload_mbit'"));
  CHECK(mentions(fault(machine("tokens_per_second = 5\nquiet_hours = \"late\"")), "22:00-07:30"));
  CHECK(mentions(fault(machine("tokens_per_second = 5\nquiet_hours = \"0:00-0:00\"")), "alone"));
  CHECK(mentions(fault(machine("tokens_per_second = 5\nmeasured = [\"none.json\"]")), "none.json"));
  CHECK(mentions(fault("config = \"peer.toml\""), "[[machine]]"));
  CHECK(mentions(fault("[[machine]]\nname = \"a\"\ntokens_per_second = 1"), "config must name"));
  CHECK(mentions(fault("machine = 5\nconfig = \"a\""), "[[machine]]"));
  CHECK(mentions(fault("machine = [5]\nconfig = \"a\""), "[[machine]]"));
  CHECK(mentions(fault("not toml"), "plan.toml:1"));
  const std::string twice = machine("tokens_per_second = 5\n") +
                            "[[machine]]\nname = \"a\"\ntokens_per_second = 5\nregion = 3\n" +
                            "[[machine]]\nname = \"../x\"\ntokens_per_second = 5\n";
  CHECK(mentions(fault(twice), "two machines"));
  CHECK(mentions(fault(twice), "region must be a string"));
  CHECK(mentions(fault(twice), "letters"));
  CHECK(mentions(fault(machine("tokens_per_second = 5\ncount = 4000\n") +
                       "[[machine]]\nname = \"b\"\ncount = 100\ntokens_per_second = 5\n"),
                 "4096"));
}

TEST_CASE("what was measured fills in what is not said") {
  PlanMachine machine;
  REQUIRE(
      add_measured(R"({"bench": "step", "tokens_per_second": {"median": 1234.5}})", machine).ok());
  CHECK(machine.tokens_per_second == 1234.5);
  const FindingGroup group{"x",
                           {with_figure(good("memory", "much"), "memory_available_bytes", 4e9),
                            with_figure(good("gpu memory", "x"), "gpu_memory_available_bytes", 8e9),
                            with_figure(good("round trip", "30 ms"), "round_trip_ms", 30),
                            with_figure(good("round trip", "50 ms"), "round_trip_ms", 50),
                            with_figure(good("rate", "fast"), "fetched_bytes_per_second", 2.5e6)}};
  const std::string report = report_json(std::vector<FindingGroup>{group}).dump();
  REQUIRE(add_measured(report, machine).ok());
  CHECK(machine.memory_gb == 4);
  REQUIRE(machine.gpu_memory_gb);  // with what the doctor left out of it
  CHECK(*machine.gpu_memory_gb > 8.5);
  CHECK(*machine.gpu_memory_gb < 9.5);
  CHECK(machine.round_trip_ms == 40);
  CHECK(machine.download_mbit == 20);
  CHECK(machine.download_measured);

  PlanMachine said;
  said.tokens_per_second = 1;
  said.memory_gb = 1;
  said.round_trip_ms = 1;
  said.download_mbit = 1;
  REQUIRE(add_measured(report, said).ok());
  CHECK(said.memory_gb == 1);
  CHECK(said.round_trip_ms == 1);
  CHECK(said.download_mbit == 1);
  CHECK(!said.download_measured);
}

TEST_CASE("a file that measures nothing is told so") {
  PlanMachine machine;
  for (const char* text :
       {"", "{", "5", "[]", "{}", R"({"bench": "step"})", R"({"bench": "codec"})",
        R"({"bench": "step", "tokens_per_second": {"median": -1}})", R"({"groups": 5})"}) {
    CAPTURE(text);
    CHECK(!add_measured(text, machine).ok());
  }
  CHECK(
      add_measured(R"({"groups": [5, {"findings": 3}, {"findings": [{"figures": []}]}]})", machine)
          .ok());
  CHECK(!machine.memory_gb);
}

}  // namespace starling::peer
