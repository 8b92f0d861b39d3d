// Small checkpoints for tests of the commands on models.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/init.h"
#include "model/param_layout.h"
#include "peer/config/config.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_write.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {

inline PeerConfig small_config(const std::string& width = "16") {
  const std::vector<std::string> overrides = {
      "model.width=" + width, "model.layers=2", "model.heads=2",       "model.kv_heads=1",
      "model.ffn=24",         "batch.tokens=8", "batch.sequences=2",   "model.context=8",
      "outer.fragments=2",    "run.tokens=100", "run.name=\"testing\""};
  auto config = parse_config("", "test", overrides);
  REQUIRE(config.ok());
  return std::move(config).value();
}

struct Written {
  std::filesystem::path path;
  std::vector<float> fast, slow;  // slow may be empty
  std::uint64_t tokens = 0;
  std::uint64_t peer = 7;
  std::string tokenizer{};  // its name; empty: unknown
};

inline Written write(const ScratchFolder& folder, const std::string& name, const PeerConfig& config,
                     Written contents) {
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  contents.path = folder.path() / name;
  CheckpointHeader header;
  header.peer = contents.peer;
  header.tokens = contents.tokens;
  header.digests.layout = layout.value().digest();
  header.title = "run \"" + name + "\"";
  const std::string text = dump(config);
  std::vector<Section> sections = {{"weights", std::as_bytes(std::span(contents.fast))},
                                   {"config", std::as_bytes(std::span(text))}};
  if (!contents.slow.empty()) {
    sections.push_back({"slow", std::as_bytes(std::span(contents.slow))});
  }
  if (!contents.tokenizer.empty()) sections.push_back(tokenizer_section(contents.tokenizer));
  REQUIRE(write_checkpoint(contents.path, header, sections).ok());
  return contents;
}

inline Written write_drawn(const ScratchFolder& folder, const std::string& name, std::uint64_t seed,
                           bool with_slow = false) {
  const PeerConfig config = small_config();
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  Written contents;
  contents.fast.resize(layout.value().elements());
  model::initialise(layout.value(), seed, contents.fast);
  if (with_slow) {
    contents.slow.resize(contents.fast.size());
    model::initialise(layout.value(), seed + 100, contents.slow);
  }
  contents.tokens = seed * 1000;
  return write(folder, name, config, std::move(contents));
}

// Whose tokenizer is named by shards that are not there.
inline Written write_without_tokenizer(const ScratchFolder& folder, const std::string& name) {
  PeerConfig config = small_config();
  config.model.vocabulary = 300;
  config.data.train = {"/nowhere/shards"};
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  Written contents;
  contents.fast.resize(layout.value().elements());
  return write(folder, name, config, std::move(contents));
}

}  // namespace starling::peer
