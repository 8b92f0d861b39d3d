// DatasetSource at one end of the rings and PartFeed at the other, with what stands for the core
// in between.
#include "peer/roles/dataset_source.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

#include "peer/roles/part_feed.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {
namespace {

constexpr std::int64_t kWindow = 64;
constexpr std::int32_t kTokens = 20 * 4096;

// A core's side that remembers what it is told and says what the test wants.
struct FakeCore {
  std::vector<std::uint64_t> finished = std::vector<std::uint64_t>(20);
  std::vector<std::uint16_t> held;
  std::vector<gossip::PartView> views = std::vector<gossip::PartView>(20);
  int told = 0;

  void part_finished(std::uint16_t part, std::uint16_t times) { finished.at(part) += times; }
  void parts_held(std::span<const std::uint16_t> parts) {
    held.assign(parts.begin(), parts.end());
    ++told;
  }
  const std::vector<gossip::PartView>& parts() const { return views; }
};

void write_sevens(const std::filesystem::path& path, std::size_t tokens) {
  auto writer =
      ShardWriter::create(path, {.token_bytes = 2, .vocabulary = 256, .tokenizer = "bytes"});
  REQUIRE(writer.ok());
  REQUIRE(writer.value().append(std::vector<std::int32_t>(tokens, 7)).ok());
  REQUIRE(writer.value().finish().ok());
}

struct Bench {
  Bench() {
    auto writer = ShardWriter::create(
        folder / "1.tok", {.token_bytes = 2, .vocabulary = 65'536, .tokenizer = "count"});
    REQUIRE(writer.ok());
    std::vector<std::int32_t> tokens(kTokens);
    for (std::int32_t i = 0; i < kTokens; ++i) tokens[static_cast<std::size_t>(i)] = i % 65'536;
    REQUIRE(writer.value().append(tokens).ok());
    REQUIRE(writer.value().finish().ok());
    const std::vector<std::string> paths{(folder / "1.tok").string()};
    auto opened = Dataset::open(paths, {.vocabulary = 65'536, .tokens = kWindow});
    REQUIRE(opened.ok());
    data.emplace(std::move(opened).value());
    source.emplace(*data, std::nullopt, reading_plan(*data, kWindow, {}), rings, metrics);
  }
  void train(int batches) {
    std::vector<std::int32_t> inputs(4 * kWindow), targets(4 * kWindow);
    for (int i = 0; i < batches; ++i) source->training_batch(0, inputs, targets);
  }

  ScratchFolder folder;
  std::optional<Dataset> data;
  Rings rings{4};
  DataMetrics metrics;
  std::optional<DatasetSource> source;
  PartFeed feed{rings};
  FakeCore core;
};

}  // namespace

TEST_CASE("parts are never smaller than what is worth sharing, nor too many to tell of") {
  const ScratchFolder folder;
  const auto parts_of = [&](int shards, std::int64_t context) {
    write_sevens(folder / "1.tok", 9000);
    const std::vector<std::string> paths(static_cast<std::size_t>(shards),
                                         (folder / "1.tok").string());
    auto dataset = Dataset::open(paths, {.vocabulary = 256, .tokens = kWindow});
    REQUIRE(dataset.ok());
    return reading_plan(dataset.value(), context, {}).parts;
  };
  CHECK(parts_of(1, 64) == 2);
  CHECK(parts_of(1, 9000) == 1);
  CHECK(parts_of(1, 10'000) == 1);  // windows of fewer tokens than the model has context
  CHECK(parts_of(10, 64) == 21);
  CHECK(parts_of(10, 8192) == 10);
  CHECK(parts_of(2000, 64) == gossip::kPartsMax);
}

TEST_CASE("data that is cut otherwise is another space") {
  const ScratchFolder folder;
  write_sevens(folder / "1.tok", 9000);
  const std::vector<std::string> paths{(folder / "1.tok").string()};
  auto dataset = Dataset::open(paths, {.vocabulary = 256, .tokens = kWindow});
  REQUIRE(dataset.ok());
  const ReadingPlan plan = reading_plan(dataset.value(), 64, {.seed = 1, .stream = 2});
  CHECK(reading_plan(dataset.value(), 128, {.seed = 1, .stream = 2}).space != plan.space);
  CHECK(reading_plan(dataset.value(), 64, {.seed = 3, .stream = 4}).space == plan.space);
}

TEST_CASE("the core hears of every part that was finished and of those held now") {
  Bench bench;
  for (int i = 0; i < 100; ++i) {
    bench.train(4);
    bench.feed.carry(bench.core);
  }
  std::uint64_t finished = 0;
  for (const std::uint64_t times : bench.core.finished) finished += times;
  CHECK(finished == bench.metrics.parts_read.value());
  CHECK(finished >= 20);
  CHECK(bench.core.held.size() == 1);
  CHECK(bench.core.told > 10);
}

TEST_CASE("a network that does not listen delays reports and loses none") {
  Bench bench;
  bench.train(30'000);  // more parts than the ring has room for
  REQUIRE(bench.rings.parts_to_network.size() == bench.rings.parts_to_network.capacity());
  for (int i = 0; i < 10; ++i) {
    bench.feed.carry(bench.core);
    bench.train(1);
  }
  bench.feed.carry(bench.core);
  std::uint64_t finished = 0;
  for (const std::uint64_t times : bench.core.finished) finished += times;
  CHECK(finished == bench.metrics.parts_read.value());
  CHECK(finished > bench.rings.parts_to_network.capacity());
}

TEST_CASE("the trainer hears of every part that others have read, once") {
  Bench bench;
  for (std::size_t part = 0; part < 15; ++part) bench.core.views[part].passes = part < 5 ? 2 : 1;
  bench.feed.carry(bench.core);
  CHECK(bench.rings.parts_to_trainer.size() == 15);
  bench.feed.carry(bench.core);
  CHECK(bench.rings.parts_to_trainer.size() == 15);
  bench.train(1);
  CHECK(bench.metrics.parts.value() == 20);
  CHECK(bench.metrics.parts_never.value() == 5);
  CHECK(bench.metrics.parts_once.value() == 10);
  CHECK(bench.metrics.parts_more.value() == 5);
}

TEST_CASE("alone or with a core that has nothing to say, the same text is read") {
  Bench alone;
  Bench listened;
  std::vector<std::int32_t> left(4 * kWindow), right(4 * kWindow), targets(4 * kWindow);
  for (std::uint64_t i = 0; i < 2000; ++i) {
    alone.source->training_batch(i, left, targets);
    listened.source->training_batch(i, right, targets);
    REQUIRE(left == right);
    alone.feed.discard();
    listened.feed.carry(listened.core);
    // The core's echo of what this peer itself has read.
    for (std::size_t part = 0; part < 20; ++part) {
      listened.core.views[part].passes = static_cast<std::uint16_t>(listened.core.finished[part]);
    }
  }
}

TEST_CASE("targets follow inputs by one token") {
  Bench bench;
  std::vector<std::int32_t> inputs(4 * kWindow), targets(4 * kWindow);
  bench.source->training_batch(0, inputs, targets);
  for (std::size_t i = 0; i < inputs.size(); ++i) REQUIRE(targets[i] == (inputs[i] + 1) % 65'536);
}

}  // namespace starling::peer
