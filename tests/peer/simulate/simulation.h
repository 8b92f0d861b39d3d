// Simulation: a configuration for `starling simulate` with a model of a few thousand parameters,
// and text that follows a grammar. For tests.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "peer/files/token_shard.h"
#include "peer/simulate/simulate.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {

// token' = 3 * token + 1, now and then one more.
inline void write_shard(const std::filesystem::path& path, std::uint64_t seed, std::int32_t count) {
  auto writer =
      ShardWriter::create(path, {.token_bytes = 2, .vocabulary = 32, .tokenizer = "count"});
  REQUIRE(writer.ok());
  Rng rng(seed);
  std::vector<std::int32_t> tokens;
  for (std::int32_t token = 0; static_cast<std::int32_t>(tokens.size()) < count;) {
    tokens.push_back(token);
    token = (3 * token + 1 + (rng.chance(0.1) ? 1 : 0)) % 32;
  }
  REQUIRE(writer.value().append(tokens).ok());
  REQUIRE(writer.value().finish().ok());
}

struct Simulation {
  Simulation() {
    write_shard(folder.path() / "train.tok", 1, 40'000);
    write_shard(folder.path() / "held-out.tok", 2, 4000);
    std::ofstream(config()) << fmt::format(
        "[run]\nname = \"sim\"\ntokens = 5120\nfolder = \"{0}\"\nlog_level = \"error\"\n"
        "[model]\nvocabulary = 32\nwidth = 32\nlayers = 2\nheads = 2\nkv_heads = 1\nffn = 64\n"
        "context = 32\n[batch]\nsequences = 4\ntokens = 16\n[optimizer]\nlearning_rate = 1e-2\n"
        "[outer]\nfragments = 2\nsteps_per_round = 10\n[data]\ntrain = [\"{0}/train.tok\"]\n"
        "validation = [\"{0}/held-out.tok\"]\n[metrics]\nvalidation_batches = 4\n"
        "[simulate]\npeers = 4\nstep_seconds = 0.1\nthreads = 1\n",
        folder.path().string());
  }
  std::filesystem::path config() const { return folder.path() / "simulate.toml"; }

  // Its lines of JSON; `text`: what it prints.
  std::vector<nlohmann::json> run(std::vector<std::string> overrides) {
    const std::filesystem::path lines_file = folder.path() / "sim/simulate.jsonl";
    std::filesystem::remove(lines_file);
    std::ostringstream out;
    const Status ran = run_simulation({.config = config(), .overrides = std::move(overrides)}, out);
    CAPTURE((ran.ok() ? std::string() : ran.error().message()));
    REQUIRE(ran.ok());
    text = out.str();
    std::vector<nlohmann::json> lines;
    std::ifstream file(lines_file);
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  ScratchFolder folder;
  std::string text;
};

inline std::vector<nlohmann::json> of_kind(const std::vector<nlohmann::json>& lines,
                                           const char* kind) {
  std::vector<nlohmann::json> chosen;
  for (const nlohmann::json& line : lines) {
    if (line["event"] == kind) chosen.push_back(line);
  }
  return chosen;
}

}  // namespace starling::peer
