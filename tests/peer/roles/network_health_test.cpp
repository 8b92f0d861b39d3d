// What the network role says of the disk. That it is over again when a checkpoint is written,
// processes_status_test sees.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "peer/roles/network.h"

namespace starling::peer {

namespace {

using nlohmann::json;

struct Told {
  json report;
  std::vector<json> alarms;  // events
};

// By a peer that trains alone and looks once, at the end of its run.
Told told_of(const DiskStats& disk) {
  Rings rings(4);
  TrainerMetrics trainer;
  MixerMetrics mixer;
  Ending ending;
  ending.closed.raise();
  ending.written.raise();
  Told told;
  NetworkOutlets outlets;
  outlets.event = [&told](const std::string& line) {
    json event = json::parse(line);
    if (event.at("event") == "alarm") told.alarms.push_back(std::move(event));
  };
  outlets.disk = [&disk] { return disk; };
  outlets.status = [&told](json report) { told.report = std::move(report); };
  Network network({}, rings, trainer, mixer, ending, outlets);
  network.run();
  return told;
}

}  // namespace

TEST_CASE("checkpoints that cannot be written are an alarm that says what to do, until one is") {
  DiskStats disk;
  disk.checkpoints_failed = 2;
  disk.lines_dropped = 7;
  CheckpointTrouble& trouble = disk.trouble.emplace();
  trouble.tries = 2;
  trouble.since_step = 1200;
  trouble.why = "cannot write 7.ckpt.tmp: No space left on device";
  const Told failing = told_of(disk);
  CHECK(failing.report.at("checkpoints_failed") == 2);
  CHECK(failing.report.at("lines_dropped") == 7);
  REQUIRE(failing.report.at("alarms").size() == 1);
  const json& alarm = failing.report.at("alarms").at(0);
  CHECK(alarm.at("kind") == "disk");
  const std::string text = alarm.at("text");
  for (const char* part : {"step 1200 (2 attempts)", "Make room", trouble.why.c_str()}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
  REQUIRE(failing.alarms.size() == 1);
  CHECK(failing.alarms.front().at("up").get<bool>());

  disk.trouble.reset();
  const Told mended = told_of(disk);
  CHECK(mended.report.at("checkpoints_failed") == 2);
  CHECK(mended.report.at("alarms").empty());
  CHECK(mended.alarms.empty());
}

}  // namespace starling::peer
