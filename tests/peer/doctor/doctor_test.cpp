#include "peer/doctor/doctor.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "peer/files/token_shard.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using nlohmann::json;
using starling::testing::write_file;

namespace {

struct Outcome {
  std::string out, error;
};

// A configuration and a little data; alone, so that nobody is asked anything.
struct Node {
  Node() {
    auto writer = ShardWriter::create(folder / "0.tok",
                                      {.token_bytes = 2, .vocabulary = 256, .tokenizer = "bytes"});
    REQUIRE(writer.ok());
    REQUIRE(writer.value().append(std::vector<std::int32_t>(5000, 7)).ok());
    REQUIRE(writer.value().finish().ok());
    write_file(folder / "config.toml", "[outer]\nmethod = \"local\"\n");
    options.config = folder / "config.toml";
    options.overrides = {"run.folder=" + (folder / "runs").string(),
                         "data.train=[\"" + folder.path().string() + "\"]", "data.validation=[]",
                         "metrics.validate_every_steps=0"};
  }
  Outcome doctor() const {
    std::ostringstream out;
    const Status status = run_doctor(options, out);
    return {out.str(), status.ok() ? "" : status.error().message()};
  }
  ScratchFolder folder;
  DoctorOptions options;
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a sound node passes, and nothing is made on the way") {
  const Node node;
  const Outcome outcome = node.doctor();
  CHECK(outcome.error.empty());
  for (const char* part : {"configuration\n", "identity\n", "data\n", "this machine\n",
                           "trains alone", "0 checks failed"}) {
    CAPTURE(part);
    CHECK(contains(outcome.out, part));
  }
  CHECK(!contains(outcome.out, "FAILED"));
  CHECK(!std::filesystem::exists(node.folder / "runs"));
}

TEST_CASE("what is wrong is counted, and the rest is looked at all the same") {
  Node node;
  node.options.overrides.push_back("data.train=[\"/nowhere\"]");
  node.options.overrides.push_back("run.start=/nowhere/x.ckpt");
  const Outcome outcome = node.doctor();
  CHECK(outcome.error == "2 of the doctor's checks failed");
  CHECK(contains(outcome.out, "  FAILED   training: there is no /nowhere"));
  CHECK(contains(outcome.out, "-> starling prepare"));
  CHECK(contains(outcome.out, "this machine\n"));
}

TEST_CASE("a configuration that makes no sense ends it, with what the loader says") {
  Node node;
  node.options.overrides.push_back("batch.sequencs=4");
  const Outcome outcome = node.doctor();
  CHECK(outcome.error == "1 of the doctor's checks failed");
  CHECK(contains(outcome.out, "did you mean 'batch.sequences'?"));
  CHECK(!contains(outcome.out, "this machine\n"));
}

TEST_CASE("a script gets one line of JSON, and less of it is read if it is in a hurry") {
  Node node;
  node.options.json = true;
  node.options.quick = true;
  const Outcome outcome = node.doctor();
  REQUIRE(outcome.out.find('\n') == outcome.out.size() - 1);
  const json report = json::parse(outcome.out);
  CHECK(report["failed"] == 0);
  CHECK(contains(report.dump(), "headers read"));
  CHECK(report["groups"][0]["name"] == "configuration");
}

}  // namespace starling::peer
