#include "peer/files/dataset.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::write_file;

namespace {

// A shard of consecutive numbers, so that every window shows where it began.
void write_counting_shard(const std::filesystem::path& path, std::int32_t first, std::int32_t count,
                          std::uint32_t vocabulary = 10'000, std::string tokenizer = "count") {
  auto writer = ShardWriter::create(
      path, {.token_bytes = 2, .vocabulary = vocabulary, .tokenizer = std::move(tokenizer)});
  REQUIRE(writer.ok());
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<std::int32_t>(i);
  REQUIRE(writer.value().append(tokens).ok());
  REQUIRE(writer.value().finish().ok());
}

constexpr DatasetNeeds kNeeds{.vocabulary = 10'000, .tokens = 8};

constexpr std::size_t kSequences = 4;

struct TwoShards {
  TwoShards() {
    write_counting_shard(folder / "1.tok", 0, 300);
    write_counting_shard(folder / "2.tok", 1000, 100);
    write_file(folder / "notes.txt", "not a shard");
  }
  Dataset open() const {
    const std::vector<std::string> paths{folder.path().string()};
    auto dataset = Dataset::open(paths, kNeeds);
    REQUIRE(dataset.ok());
    return std::move(dataset).value();
  }
  ScratchFolder folder;
};

}  // namespace

TEST_CASE("windows cover every start in every shard and never cross from one to the next") {
  const TwoShards shards;
  const Dataset dataset = shards.open();
  CHECK(dataset.shards() == 2);
  CHECK(dataset.tokens() == 400);
  CHECK(dataset.windows() == 292 + 92);
  CHECK(dataset.tokenizer() == "count");
  std::vector<std::int32_t> inputs(8), targets(8);
  for (std::uint64_t window = 0; window < dataset.windows(); ++window) {
    CAPTURE(window);
    dataset.copy(window, inputs, targets);
    const auto first = static_cast<std::int32_t>(window < 292 ? window : 1000 + window - 292);
    bool consecutive = true;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto expected = first + static_cast<std::int32_t>(i);
      consecutive = consecutive && inputs[i] == expected && targets[i] == expected + 1;
    }
    CHECK(consecutive);
  }
}

TEST_CASE("a window begins at the token asked for, or as near as it fits into a shard") {
  const TwoShards shards;
  write_counting_shard(shards.folder / "3.tok", 2000, 5);  // shorter than a window
  const Dataset dataset = shards.open();
  REQUIRE(dataset.tokens() == 405);
  std::vector<std::int32_t> inputs(8), targets(8);
  const auto first = [&](std::uint64_t token) {
    dataset.copy(dataset.window_at(token), inputs, targets);
    return inputs[0];
  };
  CHECK(first(0) == 0);
  CHECK(first(291) == 291);
  for (const std::uint64_t token : {292, 299}) CHECK(first(token) == 291);
  CHECK(first(300) == 1000);
  CHECK(first(391) == 1091);
  for (const std::uint64_t token : {392, 399, 400, 404, 405, 1'000'000}) {
    CHECK(first(token) == 1091);
  }
}

TEST_CASE("the same shards are the same data on every machine, and others are not") {
  const TwoShards here;
  const TwoShards there;
  CHECK(here.open().digest() == there.open().digest());
  write_counting_shard(there.folder / "2.tok", 1001, 100);
  CHECK(here.open().digest() != there.open().digest());
}

TEST_CASE("validation windows are always the same and spread over the split") {
  const TwoShards shards;
  const Dataset dataset = shards.open();
  const ValidationBatches source(dataset, kSequences, 3);
  std::vector<std::int32_t> inputs(kSequences * 8), targets(kSequences * 8), starts;
  for (std::uint32_t batch = 0; batch < 3; ++batch) {
    source.copy(batch, inputs, targets);
    for (std::size_t i = 0; i < kSequences; ++i) starts.push_back(inputs[8 * i]);
  }
  // 384 windows / 12: every 32nd.
  CHECK(starts ==
        std::vector<std::int32_t>{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 1028, 1060});
}

TEST_CASE("windows that read everything lie side by side in each shard") {
  const ScratchFolder folder;
  write_counting_shard(folder / "1.tok", 0, 33);     // four and the last target
  write_counting_shard(folder / "2.tok", 1000, 8);   // none
  write_counting_shard(folder / "3.tok", 2000, 32);  // three: the fourth lacks a target
  const std::vector<std::string> paths{folder.path().string()};
  auto dataset = Dataset::open(paths, kNeeds);
  REQUIRE(dataset.ok());
  CHECK(dataset.value().windows_apart() == 7);
  const ValidationBatches all = ValidationBatches::of_all(dataset.value(), 1);
  REQUIRE(all.size() == 7);
  std::vector<std::int32_t> inputs(8), targets(8), starts;
  for (std::uint32_t batch = 0; batch < 7; ++batch) {
    all.copy(batch, inputs, targets);
    starts.push_back(inputs[0]);
    CHECK(targets[7] == inputs[0] + 8);
  }
  CHECK(starts == std::vector<std::int32_t>{0, 8, 16, 24, 2000, 2008, 2016});
  CHECK(ValidationBatches::of_all(dataset.value(), 3).size() == 2);
  CHECK(ValidationBatches::of_all(dataset.value(), 100).size() == 1);
}

TEST_CASE("a split smaller than its validation batches repeats itself") {
  const ScratchFolder folder;
  write_counting_shard(folder / "1.tok", 0, 10);
  const std::vector<std::string> paths{(folder / "1.tok").string()};
  auto dataset = Dataset::open(paths, kNeeds);
  REQUIRE(dataset.ok());
  REQUIRE(dataset.value().windows() == 2);
  const ValidationBatches source(dataset.value(), kSequences, 1);
  std::vector<std::int32_t> inputs(kSequences * 8), targets(kSequences * 8);
  source.copy(0, inputs, targets);
  CHECK(inputs[0] == 0);
  CHECK(inputs[8] == 1);
  CHECK(inputs[16] == 0);
}

TEST_CASE("what cannot be trained on is refused with the path and a remedy") {
  const ScratchFolder folder;
  write_counting_shard(folder / "short.tok", 0, 8);
  write_counting_shard(folder / "large.tok", 0, 100, 20'000);
  write_counting_shard(folder / "good.tok", 0, 100);
  write_counting_shard(folder / "other.tok", 0, 100, 10'000, "other");
  write_counting_shard(folder / "small.tok", 0, 100, 9'000);
  std::filesystem::create_directory(folder / "empty");
  const auto refused = [&](std::vector<std::string> names, ErrorCode code, std::string_view part) {
    for (std::string& name : names) name = (folder / name).string();
    auto dataset = Dataset::open(names, kNeeds);
    REQUIRE(!dataset.ok());
    CHECK(dataset.error().code() == code);
    CAPTURE(dataset.error().message());
    CHECK(dataset.error().message().find(names.back()) != std::string::npos);
    CHECK(dataset.error().message().find(part) != std::string::npos);
  };
  refused({"absent"}, ErrorCode::kNotFound, "starling prepare");
  refused({"empty"}, ErrorCode::kNotFound, "starling prepare");
  refused({"large.tok"}, ErrorCode::kIncompatible, "model.vocabulary is 10000");
  refused({"good.tok", "other.tok"}, ErrorCode::kIncompatible, "do not mix");
  refused({"good.tok", "small.tok"}, ErrorCode::kIncompatible, "do not mix");
  refused({"short.tok"}, ErrorCode::kInvalidConfig, "batch.tokens = 8");
  CHECK(!Dataset::open({}, kNeeds).ok());
  const std::vector<std::string> good{(folder / "short.tok").string(),
                                      (folder / "good.tok").string()};
  CHECK(Dataset::open(good, kNeeds).ok());  // a short shard beside a long one is left out
}

namespace {

std::string counting_llm_c(std::uint16_t first) {
  std::vector<std::uint16_t> tokens(100);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(first + i);
  return starling::testing::llm_c_shard<std::uint16_t>(20240520, 1, tokens);
}

}  // namespace

TEST_CASE("shards of llm.c are one file, a folder of them or what a pattern matches, by name") {
  const ScratchFolder folder;
  write_file(folder / "train_2.bin", counting_llm_c(500));
  write_file(folder / "train_1.bin", counting_llm_c(0));
  write_file(folder / "val_0.bin", counting_llm_c(900));
  const auto opened = [&](const std::string& name, std::uint64_t tokens, std::int32_t first) {
    CAPTURE(name);
    auto data = Dataset::open(std::vector<std::string>{(folder / name).string()}, kNeeds);
    REQUIRE(data.ok());
    CHECK(data.value().tokens() == tokens);
    std::vector<std::int32_t> inputs(8), targets(8);
    data.value().copy(0, inputs, targets);
    CHECK(inputs[0] == first);
    CHECK(targets[7] == first + 8);
    return data.value().digest();
  };
  CHECK(opened("val_0.bin", 100, 900) != opened("train_1.bin", 100, 0));
  CHECK(opened("train_*.bin", 200, 0) == opened("train_[12].bin", 200, 0));
  opened("", 300, 0);
  // A folder of our own shards may hold other things, too.
  write_counting_shard(folder / "1.tok", 2000, 300);
  opened("", 300, 2000);
}

TEST_CASE("shards of llm.c do not mix with others, and must fit the model") {
  const ScratchFolder folder;
  using starling::testing::llm_c_shard;
  write_file(folder / "a.bin", counting_llm_c(0));
  write_file(folder / "b.bin", llm_c_shard<std::uint16_t>(20240520, 1, {1, 50256}));
  write_file(folder / "c.bin",
             llm_c_shard<std::uint32_t>(20240801, 7, std::vector<std::uint32_t>(20)));
  write_counting_shard(folder / "d.tok", 0, 100);
  const auto refused = [&](const std::vector<std::string>& names, std::string_view part) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back((folder / name).string());
    auto data = Dataset::open(paths, kNeeds);
    REQUIRE(!data.ok());
    CAPTURE(data.error().message());
    CHECK(data.error().message().find(paths.back()) != std::string::npos);
    CHECK(data.error().message().find(part) != std::string::npos);
  };
  refused({"a.bin", "b.bin"}, "set it to at least 50257");
  refused({"a.bin", "c.bin"}, "llm.c in 32 bits per token");
  refused({"a.bin", "d.tok"}, "do not mix");
  refused({"d.tok", "a.bin"}, "do not mix");
  refused({"absent_*.bin"}, "pattern");
}

TEST_CASE("who names the folder that was prepared is told to name the one inside") {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "train");
  write_counting_shard(folder / "train/0.tok", 0, 300);
  auto found = shard_files(folder.path());
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().message().find("name its folder " + (folder / "train").string()) !=
        std::string::npos);
}

}  // namespace starling::peer
