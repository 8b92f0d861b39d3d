#include "peer/prepare.h"

#include <doctest/doctest.h>

#include "base/rng.h"
#include "peer/dataset.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::write_file;

namespace {

Tokenizer byte_tokenizer() {
  return {.name = "bytes",
          .vocabulary = 256,
          .encode = [](std::string_view text, std::vector<std::int32_t>& tokens) {
            for (const char letter : text) tokens.push_back(static_cast<unsigned char>(letter));
          }};
}

std::string text_of(const std::filesystem::path& folder) {
  std::string text;
  for (std::uint32_t i = 0;; ++i) {
    const auto path = folder / (std::string(4, '0') + std::to_string(i) + ".tok");
    if (!std::filesystem::exists(path)) return text;
    auto shard = TokenShard::open(path);
    REQUIRE(shard.ok());
    std::vector<std::int32_t> tokens(shard.value().view().tokens());
    shard.value().view().copy(0, tokens);
    for (const std::int32_t token : tokens) text.push_back(static_cast<char>(token));
  }
}

std::string lines_of_text(std::size_t bytes) {
  Rng rng(5);
  std::string text;
  while (text.size() < bytes) {
    text += std::string(rng.below(80), static_cast<char>('a' + rng.below(26))) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a text comes back whole from its shards, split at a line end near its end") {
  const ScratchFolder folder;
  const std::string text = lines_of_text(3'000'000);  // several pieces
  write_file(folder / "text", text);
  const PrepareOptions options{.text = folder / "text",
                               .out = folder / "out",
                               .validation_fraction = 0.1,
                               .shard_tokens_max = 1'000'000};
  auto report = prepare(options, byte_tokenizer());
  REQUIRE(report.ok());
  const std::string train = text_of(folder / "out/train");
  const std::string validation = text_of(folder / "out/validation");
  CHECK(train + validation == text);
  CHECK(train.back() == '\n');
  CHECK(validation.size() <= text.size() / 10);
  CHECK(validation.size() > text.size() / 10 - 100);
  CHECK(report.value().text_bytes == text.size());
  CHECK(report.value().train_tokens == train.size());
  CHECK(report.value().validation_tokens == validation.size());
  CHECK(report.value().train_shards == 3);
  CHECK(report.value().validation_shards == 1);
}

TEST_CASE("a text without a line end is split all the same") {
  const ScratchFolder folder;
  write_file(folder / "text", std::string(10'000, 'x'));
  auto report =
      prepare({.text = folder / "text", .out = folder / "out", .validation_fraction = 0.25},
              byte_tokenizer());
  REQUIRE(report.ok());
  CHECK(report.value().train_tokens == 7'500);
  CHECK(report.value().validation_tokens == 2'500);
}

TEST_CASE("what was prepared is not overwritten, and what was interrupted is done again") {
  const ScratchFolder folder;
  write_file(folder / "text", lines_of_text(10'000));
  const PrepareOptions options{.text = folder / "text", .out = folder / "out"};
  // As after a crash in the middle: a held-out split, a half-written rest.
  std::filesystem::create_directories(folder / "out/validation");
  std::filesystem::create_directories(folder / "out/train.tmp");
  write_file(folder / "out/train.tmp/00000.tok", "half");
  REQUIRE(prepare(options, byte_tokenizer()).ok());
  CHECK(!std::filesystem::exists(folder / "out/train.tmp"));
  CHECK(text_of(folder / "out/train").size() > 9'000);
  auto again = prepare(options, byte_tokenizer());
  REQUIRE(!again.ok());
  CHECK(again.error().message().find("already prepared") != std::string::npos);
}

TEST_CASE("an empty text, a wrong fraction and a tokenizer out of bounds are refused") {
  const ScratchFolder folder;
  write_file(folder / "text", lines_of_text(10'000));
  write_file(folder / "empty", "");
  const auto out = folder / "out";
  CHECK(!prepare({.text = folder / "empty", .out = out}, byte_tokenizer()).ok());
  CHECK(!prepare({.text = folder / "absent", .out = out}, byte_tokenizer()).ok());
  for (const double fraction : {0.0, -1.0, 0.6}) {
    CAPTURE(fraction);
    CHECK(!prepare({.text = folder / "text", .out = out, .validation_fraction = fraction},
                   byte_tokenizer())
               .ok());
  }
  Tokenizer wrong = byte_tokenizer();
  wrong.vocabulary = 100;
  CHECK(!prepare({.text = folder / "text", .out = out}, wrong).ok());
  CHECK(!std::filesystem::exists(out / "train"));
}

}  // namespace starling::peer
