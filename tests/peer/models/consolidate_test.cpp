#include "peer/models/consolidate.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "peer/files/hugging_face.h"
#include "peer/files/run_folder.h"
#include "peer/files/safetensors.h"
#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

// A checkpoint where a peer of a run has its own.
Written write_as_peer(const ScratchFolder& folder, const std::string& name, std::uint64_t peer) {
  const auto place = std::filesystem::path(name) / kCheckpointFolder;
  std::filesystem::create_directories(folder.path() / place);
  Written drawn = write_drawn(folder, "scratch", peer);
  drawn.peer = peer;
  return write(folder, (place / "00000000000000000001.ckpt").string(), small_config(),
               std::move(drawn));
}

std::vector<float> embedding(const std::filesystem::path& folder) {
  auto file = SafeTensorsFile::open(folder / kModelFileName);
  REQUIRE(file.ok());
  const SafeTensor& tensor = file.value().tensors().at("model.embed_tokens.weight");
  std::vector<float> values(tensor.elements());
  REQUIRE(file.value().read(tensor, 0, values).ok());
  return values;
}

}  // namespace

TEST_CASE("a run becomes one exported model that says who contributed, and how much") {
  const ScratchFolder folder;
  write_as_peer(folder, "run/a", 1);
  write_as_peer(folder, "run/b", 3);
  const auto out = folder.path() / "out";
  auto report = consolidate(
      {.out = out, .inputs = {folder.path() / "run"}, .by_tokens = true, .type = FloatType::kF32});
  REQUIRE_MESSAGE(report.ok(), report.error().message());

  // The same as the two steps by hand.
  REQUIRE(average({.out = folder.path() / "average",
                   .inputs = {folder.path() / "run/a", folder.path() / "run/b"},
                   .by_tokens = true})
              .ok());
  REQUIRE(export_model({.checkpoint = folder.path() / "average",
                        .out = folder.path() / "by hand",
                        .type = FloatType::kF32})
              .ok());
  CHECK(embedding(out) == embedding(folder.path() / "by hand"));

  std::ifstream file(out / "contributors.json");
  const nlohmann::json record = nlohmann::json::parse(file);
  CHECK(record["tokens"] == 4000);
  REQUIRE(record["contributors"].size() == 2);
  CHECK(record["contributors"][0]["name"] == "a");
  CHECK(record["contributors"][1]["peer"] == "0000000000000003");
  CHECK(record["contributors"][1]["tokens"] == 3000);
  CHECK(record["contributors"][1]["share"] == 0.75);
  const std::string text = consolidate_text(report.value());
  CHECK(text.find("3000 tokens  75.00%") != std::string::npos);
  // Nothing else is left behind.
  CHECK_FALSE(std::filesystem::exists(out.string() + ".average.tmp"));
}

TEST_CASE("a new folder may be named with a slash at its end") {
  const ScratchFolder folder;
  const auto input = write_as_peer(folder, "run/a", 1).path;
  const std::string out = (folder.path() / "out").string();
  auto report = consolidate({.out = out + "/", .inputs = {input}});
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  CHECK(std::filesystem::exists(out + "/" + std::string(kModelFileName)));
  CHECK_FALSE(std::filesystem::exists(out + "/.average.tmp"));
  auto exported = export_model({.checkpoint = input, .out = out + "2/"});
  REQUIRE_MESSAGE(exported.ok(), exported.error().message());
  CHECK_FALSE(std::filesystem::exists(out + "2/.tmp"));
}

TEST_CASE("a peer that would count twice is refused, and what is there is not touched") {
  const ScratchFolder folder;
  write_as_peer(folder, "run/a", 1);
  write_as_peer(folder, "copy/a", 1);
  const auto out = folder.path() / "out";
  const std::vector<std::filesystem::path> inputs = {folder.path() / "run", folder.path() / "copy"};
  auto twice = consolidate({.out = out, .inputs = inputs});
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().message().find("would count twice") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK_FALSE(std::filesystem::exists(out.string() + ".average.tmp"));
  auto there = consolidate({.out = folder.path() / "run", .inputs = inputs});
  REQUIRE_FALSE(there.ok());
  CHECK(there.error().message().find("exists already") != std::string::npos);
}

}  // namespace starling::peer
