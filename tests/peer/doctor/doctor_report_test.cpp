#include "peer/doctor/doctor_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace starling::peer {

namespace {

std::vector<FindingGroup> three_findings() {
  return {{"this machine",
           {good("memory", "1.0 GiB planned, 9.0 GiB free"),
            doubtful("clock", "nobody keeps it", "timedatectl set-ntp true")}},
          {"network", {failed("listen", "the port is taken", "gossip.listen")}}};
}

}  // namespace

TEST_CASE("findings are lines, and under what is not well stands what mends it") {
  const auto groups = three_findings();
  CHECK(group_text(groups[0]) == R"(this machine
  ok       memory: 1.0 GiB planned, 9.0 GiB free
  warning  clock: nobody keeps it
           -> timedatectl set-ntp true
)");
  CHECK(group_text(groups[1]) == R"(network
  FAILED   listen: the port is taken
           -> gossip.listen
)");
  CHECK(summary_text(groups) == "1 check failed, 1 warning\n");
  CHECK(summary_text({}) == "0 checks failed, 0 warnings\n");
}

TEST_CASE("what a stranger said neither drives the terminal nor leaves its column") {
  const FindingGroup group{"seed \x1b[2J", {failed("refused", "one\ntwo\x07", "do\nthis")}};
  CHECK(group_text(group) == R"(seed ?[2J
  FAILED   refused: one
           two?
           -> do
           this
)");
  const std::vector<FindingGroup> groups{group};
  CHECK(report_json(groups).dump().find("\\u001b") == std::string::npos);
}

TEST_CASE("a script reads the same findings") {
  const auto report = report_json(three_findings());
  CHECK(report["failed"] == 1);
  CHECK(report["warnings"] == 1);
  REQUIRE(report["groups"].size() == 2);
  const auto& clock = report["groups"][0]["findings"][1];
  CHECK(clock["verdict"] == "warning");
  CHECK(clock["check"] == "clock");
  CHECK(clock["remedy"] == "timedatectl set-ntp true");
  CHECK(report["groups"][0]["findings"][0]["remedy"] == "");
  CHECK(report["groups"][1]["findings"][0]["verdict"] == "failed");
}

}  // namespace starling::peer
