#include "peer/models/model_commands.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "model/init.h"
#include "model/param_layout.h"
#include "model/tokenizers/tokenizer.h"
#include "peer/config/config.h"
#include "peer/files/checkpoint.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_write.h"
#include "peer/files/dataset.h"
#include "peer/files/prepare.h"
#include "peer/models/model_export.h"
#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::peer {
namespace {

std::vector<float> floats(const CheckpointFile& file, std::string_view section) {
  std::vector<float> values(file.section_bytes(section).value() / sizeof(float));
  REQUIRE(file.read(section, std::as_writable_bytes(std::span(values))).ok());
  return values;
}

std::string drawn_text(GenerateOptions options) {
  std::string text;
  Status outcome = generate(options, [&text](std::string_view piece) { text += piece; });
  REQUIRE(outcome.ok());
  return text;
}

std::vector<std::string> some_shards(const ScratchFolder& folder,
                                     const std::string& spec = "bytes") {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "In the beginning was line " + std::to_string(i) + ".\n";
  std::ofstream(folder.path() / "text.txt") << text;
  auto tokenizer = open_tokenizer(spec);
  REQUIRE(tokenizer.ok());
  auto report = prepare({.texts = {folder.path() / "text.txt"}, .out = folder.path() / "data"},
                        tokenizer.value());
  REQUIRE(report.ok());
  return {(folder.path() / "data" / "train").string()};
}

TEST_CASE("the average of two checkpoints is the mean of their weights") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1, true);
  const Written b = write_drawn(folder, "b", 3, true);
  const auto out = folder.path() / "average";
  auto report = average({.out = out, .inputs = {a.path, b.path}});
  REQUIRE(report.ok());
  CHECK(report.value().tokens == 4000);

  auto file = CheckpointFile::open(out);
  REQUIRE(file.ok());
  CHECK(file.value().header().tokens == 4000);
  CHECK(file.value().header().peer == 0);
  CHECK(file.value().header().title.find("average of 2") == 0);
  const std::vector<float> fast = floats(file.value(), "weights");
  const std::vector<float> slow = floats(file.value(), "slow");
  REQUIRE(fast.size() == a.fast.size());
  for (std::size_t i = 0; i < fast.size(); ++i) {
    REQUIRE(fast[i] == static_cast<float>((double{a.fast[i]} + double{b.fast[i]}) / 2));
    REQUIRE(slow[i] == static_cast<float>((double{a.slow[i]} + double{b.slow[i]}) / 2));
  }
  CHECK(read_config(file.value()).value() == dump(small_config()));
}

TEST_CASE("by tokens, a peer that has seen three times as much weighs three times as much") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  const Written b = write_drawn(folder, "b", 3);
  const auto out = folder.path() / "average";
  REQUIRE(average({.out = out, .inputs = {a.path, b.path}, .by_tokens = true}).ok());
  auto file = CheckpointFile::open(out);
  REQUIRE(file.ok());
  const std::vector<float> fast = floats(file.value(), "weights");
  for (std::size_t i = 0; i < fast.size(); ++i) {
    const double expected = 0.25 * double{a.fast[i]} + 0.75 * double{b.fast[i]};
    REQUIRE(fast[i] == doctest::Approx(expected).epsilon(1e-6));
  }
}

TEST_CASE("models of different runs are averaged only where that is asked for") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  const auto refusal = [&](const std::string& key, const auto& change) {
    PeerConfig config = small_config();
    change(config.run);
    const Written b = write(folder, "b", config, {.path = {}, .fast = a.fast, .slow = {}});
    const AverageOptions options{.out = folder.path() / "average", .inputs = {a.path, b.path}};
    auto refused = average(options);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message().find(key) != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(options.out));
    AverageOptions any = options;
    any.any_run = true;
    CHECK(average(any).ok());
    std::filesystem::remove(options.out);
  };
  refusal("run.seed 1 and 8", [](RunConfig& run) { run.seed = 8; });
  refusal("run.name testing and other", [](RunConfig& run) { run.name = "other"; });
}

TEST_CASE("a checkpoint may hold settings with which no peer would begin today") {
  const ScratchFolder folder;
  PeerConfig config = small_config();
  config.bandwidth.quiet_hours = "22:00-22:00";
  REQUIRE_FALSE(validate(config).ok());
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  Written contents;
  contents.fast.resize(layout.value().elements());
  const Written old = write(folder, "old", config, std::move(contents));
  CHECK(average({.out = folder.path() / "average", .inputs = {old.path}}).ok());
  CHECK(evaluate({.checkpoint = old.path, .data = some_shards(folder)}).ok());
}

TEST_CASE("the average of one checkpoint with itself changes nothing") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 5);
  const auto out = folder.path() / "average";
  const auto copy = folder.path() / "copy.ckpt";
  std::filesystem::copy_file(a.path, copy);
  REQUIRE(average({.out = out, .inputs = {a.path, copy}}).ok());
  auto file = CheckpointFile::open(out);
  REQUIRE(file.ok());
  CHECK(floats(file.value(), "weights") == a.fast);
}

TEST_CASE("a checkpoint does not count twice in an average, however it is named") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 5);
  const auto out = folder.path() / "average";
  const auto again = folder.path() / "." / a.path.filename();
  const auto twice = average({.out = out, .inputs = {a.path, again}});
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().message().find("would count twice") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("slow weights that one input lacks are left out") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1, true);
  const Written b = write_drawn(folder, "b", 3);
  const auto out = folder.path() / "average";
  REQUIRE(average({.out = out, .inputs = {a.path, b.path}}).ok());
  auto file = CheckpointFile::open(out);
  REQUIRE(file.ok());
  CHECK_FALSE(file.value().section_bytes("slow").has_value());
}

TEST_CASE("checkpoints of different models are refused and nothing is written") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  const PeerConfig wider = small_config("32");
  auto layout = model::ParamLayout::plan(wider.model, wider.outer.rounds.fragments);
  REQUIRE(layout.ok());
  Written contents;
  contents.fast.resize(layout.value().elements());
  const Written b = write(folder, "b", wider, std::move(contents));
  auto report = average({.out = folder.path() / "average", .inputs = {a.path, b.path}});
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().code() == ErrorCode::kIncompatible);
  CHECK(report.error().message().find(a.path.string() + " (run \"a\")") != std::string::npos);
  CHECK(report.error().message().find(b.path.string() + " (run \"b\")") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "average"));
}

TEST_CASE("a checkpoint that is absent or damaged is named") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  const auto missing = folder.path() / "missing";
  auto absent = average({.out = folder.path() / "average", .inputs = {a.path, missing}});
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.error().message().find(missing.string()) != std::string::npos);

  std::filesystem::resize_file(a.path, std::filesystem::file_size(a.path) - 100);
  auto damaged = evaluate({.checkpoint = a.path, .data = some_shards(folder)});
  REQUIRE_FALSE(damaged.ok());
  CHECK(damaged.error().message().find(a.path.string()) != std::string::npos);
}

TEST_CASE("a model of zeros needs eight bits per byte") {
  const ScratchFolder folder;
  Written zeros = write_drawn(folder, "zeros", 1);
  std::fill(zeros.fast.begin(), zeros.fast.end(), 0.0F);
  zeros = write(folder, "zeros", small_config(), std::move(zeros));
  auto report = evaluate({.checkpoint = zeros.path, .data = some_shards(folder)});
  REQUIRE(report.ok());
  CHECK(report.value().bytes == report.value().tokens);
  CHECK(report.value().bits_per_byte() == doctest::Approx(8).epsilon(1e-6));
  CHECK(report.value().perplexity() == doctest::Approx(256).epsilon(1e-5));
  CHECK(report.value().tokens > 2000);
}

TEST_CASE("all of a small split is measured, whatever fits into a batch") {
  const ScratchFolder folder;
  PeerConfig config = small_config();
  Written model = write_drawn(folder, "a", 1);
  const std::vector<std::string> data = some_shards(folder);
  auto shards = Dataset::open(data, {.vocabulary = 256, .tokens = config.batch.tokens});
  REQUIRE(shards.ok());
  const std::uint64_t all = shards.value().tokens();
  config.run.tokens = config.run.total_tokens = 1'000'000;
  // One batch of as many windows would leave more than a third over.
  config.batch.sequences = static_cast<std::int64_t>(all) / config.batch.tokens * 2 / 3;
  model = write(folder, "a", config, std::move(model));
  auto report = evaluate({.checkpoint = model.path, .data = data});
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  CHECK(report.value().tokens > all * 9 / 10);
}

TEST_CASE("an evaluation of everything reads every token once") {
  const ScratchFolder folder;
  const Written model = write_drawn(folder, "a", 1);
  Rng rng(1);
  std::vector<std::int32_t> tokens(4 * 8 + 1);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(rng.below(256));
  const auto loss_of = [&](std::size_t pieces) {
    std::vector<std::string> paths;
    const std::size_t length = (tokens.size() - 1) / pieces;
    for (std::size_t i = 0; i < pieces; ++i) {
      paths.push_back((folder.path() / (std::to_string(pieces) + std::to_string(i) + ".tok")));
      auto writer = ShardWriter::create(
          paths.back(), {.token_bytes = 2, .vocabulary = 256, .tokenizer = "bytes"});
      REQUIRE(writer.ok());
      REQUIRE(writer.value().append(std::span(tokens).subspan(i * length, length + 1)).ok());
      REQUIRE(writer.value().finish().ok());
    }
    auto report = evaluate({.checkpoint = model.path, .data = paths});
    REQUIRE_MESSAGE(report.ok(), report.error().message());
    CHECK(report.value().tokens == 4 * 8);
    return report.value().loss;
  };
  CHECK(loss_of(1) == loss_of(4));  // a window in each
}

TEST_CASE("an evaluation is the same every time and looks at the weights that were asked for") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1, true);
  const std::vector<std::string> data = some_shards(folder);
  const auto loss = [&](WeightsKind kind) {
    auto report =
        evaluate({.checkpoint = a.path, .data = data, .runner = {.weights = kind}, .batches = 3});
    REQUIRE(report.ok());
    CHECK(report.value().tokens == 3 * 2 * 8);
    return report.value().loss;
  };
  CHECK(loss(WeightsKind::kFast) == loss(WeightsKind::kFast));
  CHECK(loss(WeightsKind::kFast) != loss(WeightsKind::kSlow));
}

TEST_CASE("more batches than there are read everything once") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  const std::vector<std::string> data = some_shards(folder);
  auto all = evaluate({.checkpoint = a.path, .data = data, .batches = 0});
  auto many = evaluate({.checkpoint = a.path, .data = data, .batches = 100'000});
  REQUIRE(all.ok());
  REQUIRE(many.ok());
  CHECK(many.value().tokens == all.value().tokens);
  CHECK(many.value().loss == all.value().loss);
}

TEST_CASE("a batch is measured in the parts in which it was trained, or smaller ones") {
  const ScratchFolder folder;
  const Written a = write_drawn(folder, "a", 1);
  auto stored = open_model(a.path);
  REQUIRE(stored.ok());
  PeerConfig config = stored.value().config;
  config.batch.sequences = 8;
  CHECK(passes_to_try(config, config.batch) == std::vector<std::int64_t>{8, 4, 2, 1});
  config.micro_batch = 2;
  CHECK(passes_to_try(config, config.batch) == std::vector<std::int64_t>{2, 1});
  CHECK(passes_to_try(config, {.sequences = 6, .tokens = 8}) == std::vector<std::int64_t>{2, 1});
  config.micro_batch.reset();
  config.batch = {.sequences = 32, .tokens = 1024};
  CHECK(passes_to_try(config, config.batch) == std::vector<std::int64_t>{4, 2, 1});
  config.batch.tokens = 8192;
  CHECK(passes_to_try(config, config.batch) == std::vector<std::int64_t>{1});

  Written same = a;
  config = stored.value().config;
  config.micro_batch = 1;  // of 2 sequences
  const Written parted = write(folder, "parted", config, std::move(same));
  const std::vector<std::string> data = some_shards(folder);
  auto whole = evaluate({.checkpoint = a.path, .data = data});
  auto parts = evaluate({.checkpoint = parted.path, .data = data});
  REQUIRE(whole.ok());
  REQUIRE(parts.ok());
  CHECK(whole.value().tokens == parts.value().tokens);
  CHECK(whole.value().loss == doctest::Approx(parts.value().loss).epsilon(1e-6));
}

TEST_CASE("a model of other tokens is measured in bits per byte and writes text") {
  const ScratchFolder folder;
  const std::string spec = std::string(STARLING_MODEL_GOLDENS) + "/tokenizers/gpt2.json";
  const std::vector<std::string> data = some_shards(folder, spec);
  PeerConfig config = small_config();
  config.model.vocabulary = 704;  // four more than the tokenizer has
  config.data.train = data;
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  Written contents;
  contents.fast.resize(layout.value().elements());  // zeros: every token is as likely
  const Written zeros = write(folder, "zeros", config, std::move(contents));

  auto report = evaluate({.checkpoint = zeros.path, .data = data});
  REQUIRE(report.ok());
  CHECK(report.value().bytes > report.value().tokens);  // some words are one token
  const double bits = std::log2(704.0) * static_cast<double>(report.value().tokens);
  CHECK(report.value().bits_per_byte() ==
        doctest::Approx(bits / static_cast<double>(report.value().bytes)).epsilon(1e-5));

  GenerateOptions options{.checkpoint = zeros.path, .prompt = "The ", .tokens = 50};
  const std::string text = drawn_text(options);  // finds the tokenizer beside the shards
  CHECK(text.find("The ") == 0);
  CHECK(text.size() > 20);
  options.tokenizer = spec;
  CHECK(drawn_text(options) == text);

  REQUIRE(export_model({.checkpoint = zeros.path, .out = folder.path() / "out"}).ok());
  auto exported = open_tokenizer((folder.path() / "out").string());
  REQUIRE(exported.ok());
  CHECK(exported.value().tokenizer->vocabulary() == 700);

  // Without it there is no text, but still a loss.
  std::filesystem::remove(std::filesystem::path(data.front()) / "tokenizer.json");
  report = evaluate({.checkpoint = zeros.path, .data = data});
  REQUIRE(report.ok());
  CHECK(report.value().bytes == 0);
  options.tokenizer.clear();
  const auto refused = [&](const std::string& name) {
    options.tokenizer = name;
    Status outcome = generate(options, [](std::string_view) {});
    REQUIRE_FALSE(outcome.ok());
    return outcome.error().message();
  };
  CHECK(refused("").find("name it with --tokenizer") != std::string::npos);
  const std::string larger = std::string(STARLING_MODEL_GOLDENS) + "/tokenizers/llama3.json";
  CHECK(refused(larger).find("has 805 tokens, but the model 704") != std::string::npos);
}

TEST_CASE("a model of SentencePiece tokens is measured, writes text and takes its file along") {
  const ScratchFolder folder;
  const std::string spec = (folder.path() / "tokenizer.model").string();
  std::ofstream(spec) << starling::testing::sample_model({{"byte_fallback", "true"}});
  const std::vector<std::string> data = some_shards(folder, spec);
  PeerConfig config = small_config();
  config.model.vocabulary = 420;
  config.data.train = data;
  auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
  REQUIRE(layout.ok());
  Written contents;
  contents.fast.resize(layout.value().elements());  // zeros: every token is as likely
  const Written zeros = write(folder, "zeros", config, std::move(contents));
  auto report = evaluate({.checkpoint = zeros.path, .data = data});
  REQUIRE(report.ok());
  CHECK(report.value().bytes > 0);
  // Some seed draws a token first that begins with a space, which is not of the text.
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    const std::string text = drawn_text({.checkpoint = zeros.path, .tokens = 1, .seed = seed});
    CHECK_FALSE(text.starts_with(" "));
  }
  REQUIRE(export_model({.checkpoint = zeros.path, .out = folder.path() / "out"}).ok());
  CHECK(std::filesystem::exists(folder.path() / "out/tokenizer.json"));  // not for us
  auto exported = open_tokenizer((folder.path() / "out").string());
  REQUIRE(exported.ok());
  CHECK(exported.value().tokenizer->name() == open_tokenizer(spec).value().tokenizer->name());
}

}  // namespace
}  // namespace starling::peer
