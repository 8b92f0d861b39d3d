// What becomes of a model's tokenizer when the model is copied, averaged, imported and exported.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "peer/files/prepare.h"
#include "peer/models/consolidate.h"
#include "peer/models/model_commands.h"
#include "peer/models/model_export.h"
#include "peer/models/model_import.h"
#include "peer/roles/run_start.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/model_samples.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::peer {

using starling::testing::read_file;
using starling::testing::write_file;

namespace {

namespace fs = std::filesystem;

std::string golden(const std::string& family) {
  return std::string(STARLING_MODEL_GOLDENS) + "/tokenizers/" + family + ".json";
}

std::string name_of(const std::string& spec) {
  auto file = open_tokenizer(spec);
  REQUIRE(file.ok());
  return std::string(file.value().tokenizer->name());
}

PeerConfig wide_config() {
  PeerConfig config = small_config();
  config.model.vocabulary = 810;  // some more than the tokenizers have
  return config;
}

// Zeros, so that every token is as likely. It names its tokenizer and knows no data.
Written model_of(const ScratchFolder& folder, const std::string& name, const std::string& family) {
  const PeerConfig config = wide_config();
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  Written contents;
  contents.fast.resize(layout.value().elements());
  contents.tokens = 100;
  contents.peer = digest(name);
  contents.tokenizer = name_of(golden(family));
  fs::create_directories((folder / name).parent_path());
  return write(folder, name, config, std::move(contents));
}

void keep(const std::string& family, const fs::path& folder) {
  auto file = open_tokenizer(golden(family));
  REQUIRE(file.ok());
  REQUIRE(keep_beside_checkpoint(file.value(), folder).ok());
}

std::string refusal(const fs::path& checkpoint) {
  Status outcome = generate({.checkpoint = checkpoint, .prompt = "x"}, [](std::string_view) {});
  REQUIRE_FALSE(outcome.ok());
  return outcome.error().message();
}

bool writes(const fs::path& checkpoint, const std::string& tokenizer = {}) {
  return generate({.checkpoint = checkpoint, .tokenizer = tokenizer, .tokens = 3},
                  [](std::string_view) {})
      .ok();
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a checkpoint and the tokenizer beside it are enough, and what is missing is named") {
  const ScratchFolder folder;
  const Written model = model_of(folder, "model.ckpt", "llama3");
  const fs::path file = folder / (model.tokenizer + ".json");
  const std::string missing = refusal(model.path);
  CHECK(mentions(missing, file.string()));
  CHECK(mentions(missing, "--tokenizer"));
  CHECK(writes(model.path, golden("llama3")));

  keep("llama3", folder.path());
  CHECK(writes(model.path));
  // Another model's lies there too.
  keep("gpt2", folder.path());
  CHECK(writes(model.path));
  // As many tokens, but others.
  write_file(file, read_file(golden("gpt2")));
  CHECK(mentions(refusal(model.path), "is not the tokenizer that its name says"));
  write_file(file, "{");
  CHECK(mentions(refusal(model.path), file.string()));
}

TEST_CASE("a name that is no name of a tokenizer never becomes a path") {
  const ScratchFolder folder;
  for (const std::string name : {"../../secret", "a/b", "A", "a.json", "a-name-that-is-too-long"}) {
    CAPTURE(name);
    Written model = write_drawn(folder, "model.ckpt", 1);
    model.tokenizer = name;
    model = write(folder, "model.ckpt", small_config(), std::move(model));
    CHECK(mentions(refusal(model.path), "section 'tokenizer'"));
  }
}

TEST_CASE("a run keeps the tokenizer of its data with its checkpoints") {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  write_file(folder / "text", text);
  auto tokenizer = open_tokenizer(golden("gpt2"));
  REQUIRE(tokenizer.ok());
  REQUIRE(prepare({.texts = {folder / "text"}, .out = folder / "data"}, tokenizer.value()).ok());
  const std::vector<std::string> shards = {(folder / "data/train").string()};
  fs::create_directories(folder / "run");
  const std::string name = keep_for_checkpoints(shards, folder / "run");
  CHECK(name == name_of(golden("gpt2")));
  CHECK(read_file(folder / "run" / (name + ".json")) == read_file(golden("gpt2")));
  // A lost file is no reason not to train; the name is still known.
  fs::remove(folder / "data/train/tokenizer.json");
  CHECK(keep_for_checkpoints(shards, folder / "other") == name);

  const Written other = model_of(folder, "model.ckpt", "llama3");
  auto report = evaluate({.checkpoint = other.path, .data = shards});
  REQUIRE_FALSE(report.ok());
  CHECK(mentions(report.error().message(), "were made by '" + name + "'"));
  // Nor does a run go on from it with these.
  auto file = CheckpointFile::open(other.path);
  REQUIRE(file.ok());
  Status resumed = check_tokenizer(file.value(), shards);
  REQUIRE_FALSE(resumed.ok());
  CHECK(mentions(resumed.error().message(), "were made by '" + name + "'"));
  // Nor does a run start from it with these; whatever is wrong with shards is told elsewhere.
  auto layout = model::ParamLayout::plan(wide_config().model, 2);
  REQUIRE(layout.ok());
  auto start = open_start(other.path.string(), layout.value(), shards);
  REQUIRE_FALSE(start.ok());
  CHECK(mentions(start.error().message(), "were made by '" + name + "'"));
  CHECK(
      open_start(model_of(folder, "own.ckpt", "gpt2").path.string(), layout.value(), shards).ok());
  const std::vector<std::string> nowhere = {(folder / "nowhere").string()};
  CHECK(open_start(other.path.string(), layout.value(), nowhere).ok());
}

TEST_CASE("shards of llm.c are measured, per byte where a tokenizer that fits lies beside them") {
  const ScratchFolder folder;
  const Written model = model_of(folder, "model.ckpt", "gpt2");
  std::vector<std::uint16_t> tokens(64, 7);
  tokens.back() = 809;  // the last that the model has, and one that the tokenizer has not
  fs::create_directories(folder / "data");
  const fs::path shard = folder / "data/val.bin";
  const auto measured = [&] {
    write_file(shard, starling::testing::llm_c_shard<std::uint16_t>(20240520, 1, tokens));
    return evaluate({.checkpoint = model.path, .data = {(folder / "data/v*.bin").string()}});
  };
  auto alone = measured();
  REQUIRE(alone.ok());
  CHECK(alone.value().loss == doctest::Approx(std::log(810.0)));
  CHECK(alone.value().bytes == 0);

  write_file(folder / "data/tokenizer.json", read_file(golden("gpt2")));
  auto misfit = measured();
  REQUIRE_FALSE(misfit.ok());
  CHECK(mentions(misfit.error().message(), "put theirs there, or none"));
  tokens.back() = 7;
  auto beside = measured();
  REQUIRE(beside.ok());
  CHECK(beside.value().bytes > 0);
}

TEST_CASE("an average takes the tokenizer along, and there is none of two tokenizers") {
  const ScratchFolder folder;
  const Written a = model_of(folder, "a/model.ckpt", "llama3");
  const Written b = model_of(folder, "b/model.ckpt", "llama3");
  keep("llama3", folder / "b");
  fs::create_directories(folder / "out");
  REQUIRE(average({.out = folder / "out/mean.ckpt", .inputs = {a.path, b.path}}).ok());
  CHECK(writes(folder / "out/mean.ckpt"));

  const fs::path exported = folder / "exported";
  REQUIRE(consolidate({.out = exported, .inputs = {a.path, b.path}}).ok());
  CHECK(read_file(exported / "tokenizer.json") == read_file(golden("llama3")));
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    CHECK_FALSE(mentions(entry.path().string(), "average"));
  }

  const Written c = model_of(folder, "c/model.ckpt", "gpt2");
  auto mixed = average({.out = folder / "out/mixed.ckpt", .inputs = {a.path, b.path, c.path}});
  REQUIRE_FALSE(mixed.ok());
  CHECK(mixed.error().code() == ErrorCode::kIncompatible);
  CHECK(mentions(mixed.error().message(), c.path.string()));
  CHECK_FALSE(fs::exists(folder / "out/mixed.ckpt"));
}

TEST_CASE("an export names the tokens that begin and end a document, and an import needs no data") {
  const ScratchFolder folder;
  const Written model = model_of(folder, "model.ckpt", "llama3");
  keep("llama3", folder.path());
  REQUIRE(export_model({.checkpoint = model.path, .out = folder / "out"}).ok());
  auto file = open_tokenizer(golden("llama3"));
  const model::Tokenizer& tokenizer = *file.value().tokenizer;
  REQUIRE(tokenizer.begin_token());
  REQUIRE(tokenizer.end_token());
  const auto config = nlohmann::json::parse(read_file(folder / "out/config.json"));
  CHECK(config["bos_token_id"] == *tokenizer.begin_token());
  CHECK(config["eos_token_id"] == *tokenizer.end_token());
  const auto generation = nlohmann::json::parse(read_file(folder / "out/generation_config.json"));
  CHECK(generation["bos_token_id"] == *tokenizer.begin_token());
  CHECK(generation["eos_token_id"] == *tokenizer.end_token());
  const auto settings = nlohmann::json::parse(read_file(folder / "out/tokenizer_config.json"));
  CHECK(settings["bos_token"] == "<|begin_of_text|>");
  CHECK(settings["eos_token"] == "<|end_of_text|>");

  fs::create_directories(folder / "in");
  const fs::path imported = folder / "in/imported.ckpt";
  auto report = import_model({.folder = folder / "out", .out = imported});
  REQUIRE(report.ok());
  CHECK(report.value().tokenizer == model.tokenizer);
  CHECK(writes(imported));
  // One that cannot be read costs nothing but itself.
  write_file(folder / "out/tokenizer.json", "{}");
  report = import_model({.folder = folder / "out", .out = folder / "in/without.ckpt"});
  REQUIRE(report.ok());
  CHECK(report.value().tokenizer.empty());
  CHECK(mentions(report.value().no_tokenizer, "tokenizer.json"));
}

TEST_CASE("an export takes a tokenizer that is named, and ends where that one is not there") {
  const ScratchFolder folder;
  const Written model = model_of(folder, "model.ckpt", "llama3");
  auto without = export_model({.checkpoint = model.path, .out = folder / "without"});
  REQUIRE(without.ok());
  CHECK(mentions(without.value().no_tokenizer, "--tokenizer"));
  REQUIRE(export_model(
              {.checkpoint = model.path, .out = folder / "with", .tokenizer = golden("llama3")})
              .ok());
  CHECK(read_file(folder / "with/tokenizer.json") == read_file(golden("llama3")));
  CHECK_FALSE(export_model({.checkpoint = model.path,
                            .out = folder / "absent",
                            .tokenizer = (folder / "nowhere").string()})
                  .ok());
}

TEST_CASE("a SentencePiece model is exported as it is, and as tokenizer.json too") {
  const ScratchFolder folder;
  const fs::path tokenizer = folder / "tokenizer.model";
  write_file(tokenizer, starling::testing::sample_model({{"model_type", "unigram"}}));
  auto file = open_tokenizer(tokenizer.string());
  REQUIRE(file.ok());
  REQUIRE(keep_beside_checkpoint(file.value(), folder.path()).ok());
  Written contents;
  contents.fast.resize(model_of(folder, "other.ckpt", "llama3").fast.size());
  contents.tokenizer = file.value().tokenizer->name();
  const Written model = write(folder, "model.ckpt", wide_config(), std::move(contents));
  REQUIRE(export_model({.checkpoint = model.path, .out = folder / "out"}).ok());
  CHECK(read_file(folder / "out/tokenizer.model") == file.value().contents);
  const auto format = nlohmann::json::parse(read_file(folder / "out/tokenizer.json"));
  CHECK(format["model"]["type"] == "Unigram");
  CHECK(format["model"]["vocab"].size() ==
        static_cast<std::size_t>(file.value().tokenizer->vocabulary()));
  // Readers that know no Unigram in a model of Llama's would read it as BPE.
  const auto settings = nlohmann::json::parse(read_file(folder / "out/tokenizer_config.json"));
  CHECK(settings["tokenizer_class"] == "PreTrainedTokenizerFast");

  fs::create_directories(folder / "in");
  auto report = import_model({.folder = folder / "out", .out = folder / "in/imported.ckpt"});
  REQUIRE(report.ok());
  CHECK(report.value().tokenizer == model.tokenizer);
}

}  // namespace starling::peer
