#include "peer/commands/memory_command.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "peer/commands/plan_command.h"
#include "peer/roles/memory_plan.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {

namespace {

struct Told {
  explicit Told(const std::vector<std::string>& settings, bool json = false) {
    std::ofstream(folder.path() / "peer.toml") << "[batch]\nsequences = 12\n";
    std::ostringstream out;
    Status done = run_plan(
        {.file = folder.path() / "peer.toml", .overrides = settings, .write = {}, .json = json},
        out);
    REQUIRE_MESSAGE(done.ok(), done.error().message());
    text = out.str();
  }
  bool says(const std::string& part) const { return text.find(part) != std::string::npos; }

  ScratchFolder folder;
  std::string text;
};

const std::vector<std::string> kOnCpu{"device.name=cpu", "device.compute=fp32", "device.threads=2"};

}  // namespace

TEST_CASE("each part of a peer's memory is told, for the ways to cut its batch") {
  const Told told(kOnCpu);
  CHECK(told.says("12 sequences of 128 tokens, on a CPU in fp32"));
  CHECK(told.says("sequences at a time (batch.micro)"));
  for (const char* part :
       {"parameters ", "activations ", "slots ", "checkpoint image ", "in all "}) {
    CAPTURE(part);
    CHECK(told.says("\n" + std::string(part)));
  }
  CHECK_FALSE(told.says("GPU"));
}

TEST_CASE("whether a start would find room on this machine is told, with what would help") {
  const Told fits(kOnCpu);
  CHECK(fits.says("\nThis machine has "));
  CHECK(fits.says(" free: a start takes "));
  CHECK(fits.says(" of 12 sequences at a time.\n"));
  std::vector<std::string> large = kOnCpu;
  large.insert(large.end(), {"model.width=16384", "model.heads=128", "model.layers=128"});
  CHECK(Told(large).says("\nNot on this machine now: "));
  CHECK(Told(large).says("take a smaller [model]"));
  CHECK_FALSE(nlohmann::json::parse(Told(large, true).text).contains("micro_batch"));
  CHECK(Told({"device.name=cuda:3"}).says("\nWhether it fits this machine: starling doctor "));
}

TEST_CASE("what is told is what a start plans with") {
  const Told told(kOnCpu, true);
  const auto plan = nlohmann::json::parse(told.text);
  CHECK(plan.at("device") == "cpu");
  PeerConfig config = load_config(told.folder.path() / "peer.toml", kOnCpu).value();
  const auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments).value();
  CHECK(plan.at("parameters") == layout.elements());
  CHECK(plan.at("free_bytes") > 0);
  CHECK(12 % plan.at("micro_batch").get<int>() == 0);
  REQUIRE(plan.at("batches").size() == 6);  // 12, 6, 4, 3, 2, 1
  for (const auto& batch : plan.at("batches")) {
    config.micro_batch = batch.at("micro_batch").get<std::int64_t>();
    const MemoryPlan expected =
        plan_memory(config, layout, StripeTable(layout), needs_of_cpu(model::Compute::kFp32, 2));
    CHECK(batch.at("host_bytes") == expected.total());
    CHECK(batch.at("gpu_bytes") == 0);
    CHECK(batch.at("parts").size() == expected.parts.size());
  }
}

TEST_CASE("a GPU need not be there to know what it would hold") {
  const Told text({"device.name=cuda:3", "batch.micro=4"});
  CHECK(text.says("on a GPU in bf16"));
  CHECK(text.says("activations, GPU"));
  CHECK(text.says("arriving corrections, GPU"));
  CHECK(text.says("slow weights and momentum, host"));
  const Told told({"device.name=cuda:3", "batch.micro=4"}, true);
  const auto plan = nlohmann::json::parse(told.text);
  REQUIRE(plan.at("batches").size() == 1);
  const auto& batch = plan.at("batches").front();
  std::size_t on_gpu = 0, all = 0;
  for (const auto& part : batch.at("parts")) {
    all += part.at("bytes").get<std::size_t>();
    if (part.at("on_gpu").get<bool>()) on_gpu += part.at("bytes").get<std::size_t>();
  }
  CHECK(batch.at("gpu_bytes") == on_gpu);
  CHECK(batch.at("host_bytes") == all - on_gpu);
  CHECK(on_gpu > 0);
}

TEST_CASE("memory of a device that is unknown is not told") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "peer.toml") << "[batch]\nsequences = 12\n";
  std::ostringstream out;
  Status done =
      run_plan({.file = folder.path() / "peer.toml", .overrides = {"device.name=gpu"}}, out);
  REQUIRE(!done.ok());
  CHECK(done.error().message().find("none of \"auto\"") != std::string::npos);
  CHECK(out.str().empty());
}

TEST_CASE("a batch that can be cut in very many ways is told by its largest parts and by one") {
  std::vector<std::string> settings = kOnCpu;
  settings.push_back("batch.sequences=720");
  const Told told(settings, true);
  std::vector<std::int64_t> ways;
  const auto plan = nlohmann::json::parse(told.text);
  for (const auto& batch : plan.at("batches")) {
    ways.push_back(batch.at("micro_batch").get<std::int64_t>());
  }
  const std::vector<std::int64_t> expected{720, 360, 240, 180, 144, 1};
  CHECK(ways == expected);
}

TEST_CASE("files for machines are written of a description of machines alone") {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "peer.toml") << "[batch]\nsequences = 12\n";
  std::ostringstream out;
  Status done =
      run_plan({.file = folder.path() / "peer.toml", .write = folder.path() / "new"}, out);
  REQUIRE(!done.ok());
  CHECK(done.error().message().find("--write") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "new"));
}

}  // namespace starling::peer
