#include "peer/files/prepare.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/rng.h"
#include "peer/files/dataset.h"
#include "peer/files/encode_crew.h"
#include "peer/io/file_io.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/files/packed_files.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::peer {

using starling::testing::write_file;

namespace {

TokenizerFile tokenizer_named(const std::string& spec) {
  auto tokenizer = open_tokenizer(spec);
  REQUIRE(tokenizer.ok());
  return std::move(tokenizer).value();
}

TokenizerFile byte_tokenizer() { return tokenizer_named("bytes"); }

TokenizerFile golden_tokenizer(const std::string& family) {
  return tokenizer_named(std::string(STARLING_MODEL_GOLDENS) + "/tokenizers/" + family + ".json");
}

std::vector<std::int32_t> tokens_of(const std::filesystem::path& shard) {
  auto file = TokenShard::open(shard);
  REQUIRE(file.ok());
  std::vector<std::int32_t> tokens(file.value().view().tokens());
  file.value().view().copy(0, tokens);
  return tokens;
}

std::string text_of(const std::filesystem::path& folder) {
  std::string text;
  for (std::uint32_t i = 0;; ++i) {
    const auto path = folder / (std::string(4, '0') + std::to_string(i) + ".tok");
    if (!std::filesystem::exists(path)) return text;
    for (const std::int32_t token : tokens_of(path)) text.push_back(static_cast<char>(token));
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
  const PrepareOptions options{.texts = {folder / "text"},
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
  CHECK(report.value().train.tokens == train.size());
  CHECK(report.value().validation.tokens == validation.size());
  CHECK(report.value().train.shards == 3);
  CHECK(report.value().validation.shards == 1);
}

TEST_CASE("a text without a line end is split all the same") {
  const ScratchFolder folder;
  write_file(folder / "text", std::string(10'000, 'x'));
  auto report =
      prepare({.texts = {folder / "text"}, .out = folder / "out", .validation_fraction = 0.25},
              byte_tokenizer());
  REQUIRE(report.ok());
  CHECK(report.value().train.tokens == 7'500);
  CHECK(report.value().validation.tokens == 2'500);
}

TEST_CASE("what was prepared is not overwritten, and what was interrupted is done again") {
  const ScratchFolder folder;
  write_file(folder / "text", lines_of_text(10'000));
  const PrepareOptions options{.texts = {folder / "text"}, .out = folder / "out"};
  // As after a crash in the middle.
  std::filesystem::create_directories(folder / "out/train.tmp");
  write_file(folder / "out/train.tmp/00000.tok", "half");
  REQUIRE(prepare(options, byte_tokenizer()).ok());
  CHECK(!std::filesystem::exists(folder / "out/train.tmp"));
  CHECK(text_of(folder / "out/train").size() > 9'000);
  auto again = prepare(options, byte_tokenizer());
  REQUIRE(!again.ok());
  CHECK(again.error().message().find("already prepared") != std::string::npos);
  CHECK(again.error().message().find("folders 'train' and 'validation'") != std::string::npos);
}

TEST_CASE("two that prepare into one folder do not write over each other") {
  const ScratchFolder folder;
  write_file(folder / "text", lines_of_text(10'000));
  const PrepareOptions options{.texts = {folder / "text"}, .out = folder / "out"};
  std::filesystem::create_directories(folder / "out/train.tmp");
  write_file(folder / "out/train.tmp/00000.tok", "of the other");
  {
    auto other = lock_file(folder / "out/.lock");
    REQUIRE(other.ok());
    auto report = prepare(options, byte_tokenizer());
    REQUIRE(!report.ok());
    CHECK(report.error().message().find("another process prepares") == 0);
    CHECK(starling::testing::read_file(folder / "out/train.tmp/00000.tok") == "of the other");
  }
  CHECK(prepare(options, byte_tokenizer()).ok());
  CHECK_FALSE(std::filesystem::exists(folder / "out/.lock"));
}

TEST_CASE("a folder of validation data is not replaced, though there is none to train on") {
  const ScratchFolder folder;
  write_file(folder / "text", lines_of_text(10'000));
  std::filesystem::create_directories(folder / "out/validation");
  write_file(folder / "out/validation/00000.tok", "of somebody");
  auto report = prepare({.texts = {folder / "text"}, .out = folder / "out"}, byte_tokenizer());
  REQUIRE(!report.ok());
  CHECK(report.error().message().find("'validation'") != std::string::npos);
  CHECK(starling::testing::read_file(folder / "out/validation/00000.tok") == "of somebody");
}

TEST_CASE("a preparation that fails leaves nothing of itself, whenever it does") {
  const ScratchFolder folder;
  write_file(folder / "text", lines_of_text(10'000));
  write_file(folder / "bad.jsonl", "no JSON\n");
  const auto out = folder / "out";
  REQUIRE(!prepare({.texts = {folder / "text", folder / "bad.jsonl"}, .out = out}, byte_tokenizer())
               .ok());
  CHECK(!std::filesystem::exists(out));
  std::filesystem::create_directory(out);
  REQUIRE(!prepare({.texts = {folder / "bad.jsonl"}, .out = out}, byte_tokenizer()).ok());
  CHECK(std::filesystem::is_empty(out));  // it was there before
  // Between the two folders: somebody else has made the second meanwhile.
  const auto meddle = [&out](std::uint64_t, std::uint64_t) { write_file(out / "train", "mine"); };
  REQUIRE(!prepare({.texts = {folder / "text"}, .out = out, .progress = meddle}, byte_tokenizer())
               .ok());
  std::filesystem::remove(out / "train");
  CHECK(std::filesystem::is_empty(out));
}

TEST_CASE("an empty text and a wrong fraction are refused") {
  const ScratchFolder folder;
  write_file(folder / "text", lines_of_text(10'000));
  write_file(folder / "empty", "");
  const auto out = folder / "out";
  CHECK(!prepare({.texts = {folder / "empty"}, .out = out}, byte_tokenizer()).ok());
  CHECK(!prepare({.texts = {folder / "absent"}, .out = out}, byte_tokenizer()).ok());
  for (const double fraction : {-1.0, 0.6}) {
    CAPTURE(fraction);
    CHECK(!prepare({.texts = {folder / "text"}, .out = out, .validation_fraction = fraction},
                   byte_tokenizer())
               .ok());
  }
  CHECK(!std::filesystem::exists(out / "train"));
}

TEST_CASE("a text in pieces has the tokens of the whole, between those that make a document") {
  const ScratchFolder folder;
  const TokenizerFile file = golden_tokenizer("llama3");
  std::string text;
  while (text.size() < 2'500'000) text += "The quick 12345 brown\r\n\r\n  fox, doesn't it?\n\n";
  write_file(folder / "text", text);
  auto report = prepare({.texts = {folder / "text"}, .out = folder / "out"}, file);
  REQUIRE(report.ok());
  CHECK(!report.value().first_invalid.has_value());
  const auto train = tokens_of(folder / "out/train/00000.tok");
  const auto validation = tokens_of(folder / "out/validation/00000.tok");
  const std::string train_text = model::decode(*file.tokenizer, train);
  CHECK(train_text + model::decode(*file.tokenizer, validation) == text);
  std::vector<std::int32_t> whole = {*file.tokenizer->begin_token()};
  file.tokenizer->encoder(model::SpecialTokens::kAsText)->encode(train_text, whole);
  whole.push_back(*file.tokenizer->end_token());
  CHECK(train == whole);
  CHECK(validation.front() == *file.tokenizer->begin_token());
  CHECK(validation.back() == *file.tokenizer->end_token());
}

TEST_CASE("only the beginning of a text in pieces is given the space of a SentencePiece model") {
  const ScratchFolder folder;
  write_file(folder / "tokenizer.model",
             starling::testing::sample_model(
                 {{"byte_fallback", "true"}, {"remove_extra_whitespaces", "false"}}));
  const TokenizerFile file = tokenizer_named(folder.path().string());
  const std::string text = starling::testing::sample_text(2'500'000, 4);
  write_file(folder / "text", text);
  REQUIRE(prepare({.texts = {folder / "text"}, .out = folder / "out"}, file).ok());
  const auto train = tokens_of(folder / "out/train/00000.tok");
  const auto validation = tokens_of(folder / "out/validation/00000.tok");
  const auto count = [&](std::string_view part) {
    std::vector<std::int32_t> tokens;
    file.tokenizer->encoder(model::SpecialTokens::kAsText)->encode(part, tokens);
    return tokens.size() + 2;  // and begin and end
  };
  std::size_t split = text.size() - text.size() / 50;
  split = text.find('\n', split) + 1;
  CHECK(train.size() == count(std::string_view(text).substr(0, split)));
  CHECK(validation.size() == count(std::string_view(text).substr(split)));
}

TEST_CASE("the names of special tokens in a text are text") {
  const ScratchFolder folder;
  write_file(folder / "text", "a <|endoftext|> b\n" + lines_of_text(10'000));
  const TokenizerFile file = golden_tokenizer("gpt2");
  REQUIRE(prepare({.texts = {folder / "text"}, .out = folder / "out"}, file).ok());
  const auto tokens = tokens_of(folder / "out/train/00000.tok");
  CHECK(std::count(tokens.begin(), tokens.end(), *file.tokenizer->end_token()) == 1);
  CHECK(tokens.back() == *file.tokenizer->end_token());
}

TEST_CASE("bytes that are no UTF-8 are encoded, counted, and the first is named") {
  const ScratchFolder folder;
  const std::string text =
      lines_of_text(2'000'000) + "caf\xe9 and \xff\xfe\n" + lines_of_text(90'000);
  write_file(folder / "text", text);
  const TokenizerFile file = golden_tokenizer("gpt2");
  auto report = prepare({.texts = {folder / "text"}, .out = folder / "out"}, file);
  REQUIRE(report.ok());
  CHECK(report.value().invalid_bytes == 3);
  CHECK(report.value().first_invalid->offset == text.find('\xe9'));
  CHECK(report.value().first_invalid->file == folder / "text");
  CHECK(model::decode(*file.tokenizer, tokens_of(folder / "out/train/00000.tok"))
            .find("caf\xe9 and \xff\xfe\n") != std::string::npos);
  auto bytes = prepare({.texts = {folder / "text"}, .out = folder / "bytes"}, byte_tokenizer());
  REQUIRE(bytes.ok());
  CHECK(!bytes.value().first_invalid.has_value());
}

TEST_CASE("texts of all kinds give the same shards, packed or not, on one thread or on many") {
  const ScratchFolder folder;
  const std::string plain = lines_of_text(3'000'000);
  std::string lines;
  for (int i = 0; i < 2000; ++i) {
    lines += R"({"text": "document )" + std::to_string(i) + R"(\n"})" + "\n";
  }
  write_file(folder / "a.txt", plain);
  write_file(folder / "b.jsonl", lines);
  write_file(folder / "a.txt.zst", zstd(plain));
  write_file(folder / "b.jsonl.gz", gzip(lines));
  const TokenizerFile file = golden_tokenizer("llama3");
  const auto prepared = [&](const std::string& out, std::vector<std::filesystem::path> texts,
                            std::size_t threads) {
    std::uint64_t told = 0;
    auto report = prepare({.texts = std::move(texts),
                           .out = folder / out,
                           .validation_fraction = 0.01,
                           .threads = threads,
                           .progress = [&](std::uint64_t done, std::uint64_t) { told = done; }},
                          file);
    REQUIRE_MESSAGE(report.ok(), report.error().message());
    CHECK(told == plain.size() + lines.size());
    CHECK(report.value().text_bytes == plain.size() + lines.size());
    CHECK(report.value().train.documents + report.value().validation.documents == 2001);
    return tokens_of(folder / out / "train/00000.tok");
  };
  const auto train = prepared("one", {folder / "a.txt", folder / "b.jsonl"}, 1);
  CHECK(std::count(train.begin(), train.end(), *file.tokenizer->begin_token()) ==
        std::count(train.begin(), train.end(), *file.tokenizer->end_token()));
  CHECK(prepared("five", {folder / "a.txt.zst", folder / "b.jsonl.gz"}, 5) == train);
  CHECK(tokens_of(folder / "one/validation/00000.tok") ==
        tokens_of(folder / "five/validation/00000.tok"));
}

TEST_CASE("documents of bytes have a line end between them, and one document has none") {
  const ScratchFolder folder;
  write_file(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"xx\"}");
  write_file(folder / "b.jsonl", "{\"text\": \"four\"}\n");
  auto report = prepare({.texts = {folder / "a.jsonl", folder / "b.jsonl"},
                         .out = folder / "out",
                         .validation_fraction = 0.5},
                        byte_tokenizer());
  REQUIRE_MESSAGE(report.ok(), report.error().message());
  CHECK(text_of(folder / "out/train") == "one\ntwo");
  CHECK(text_of(folder / "out/validation") == "xx\nfour");
}

TEST_CASE("an error in a text is told, and nothing looks finished") {
  const ScratchFolder folder;
  write_file(folder / "good.txt", lines_of_text(10'000));
  write_file(folder / "bad.jsonl", "{\"text\": \"a\"}\nno JSON\n");
  write_file(folder / "one.jsonl", "{\"text\": \"a long line\"}\n");
  write_file(folder / "cut.gz", gzip(lines_of_text(10'000)).substr(0, 300));
  write_file(folder / "empty.txt", "");
  const auto fault = [&](const std::vector<std::string>& names) {
    std::vector<std::filesystem::path> texts;
    for (const std::string& name : names) texts.push_back(folder / name);
    auto report = prepare({.texts = texts, .out = folder / "out"}, byte_tokenizer());
    CHECK(!std::filesystem::exists(folder / "out/train"));
    return report.ok() ? "" : report.error().message();
  };
  CHECK(fault({"good.txt", "bad.jsonl"}).find("bad.jsonl, line 2: no JSON") != std::string::npos);
  CHECK(fault({"good.txt", "cut.gz"}).find("cut.gz: the gzip file is cut short") !=
        std::string::npos);
  CHECK(fault({"good.txt", "empty.txt"}).find("empty.txt is empty") != std::string::npos);
  CHECK(fault({"one.jsonl"}).find("too short") != std::string::npos);
}

TEST_CASE("every text has to be JSON lines where their field is named") {
  const ScratchFolder folder;
  write_file(folder / "a.ndjson", "{\"body\": \"one\"}\n{\"body\": \"two\"}\n");
  write_file(folder / "b.txt", lines_of_text(10'000));
  PrepareOptions options{.texts = {folder / "a.ndjson", folder / "b.txt"},
                         .out = folder / "out",
                         .validation_fraction = 0.5,
                         .text_field = "body"};
  auto mixed = prepare(options, byte_tokenizer());
  REQUIRE(!mixed.ok());
  CHECK(mixed.error().message().starts_with((folder / "b.txt").string() + " is not read as JSON"));
  CHECK(!std::filesystem::exists(folder / "out"));
  options.texts = {folder / "a.ndjson"};
  REQUIRE(prepare(options, byte_tokenizer()).ok());
  CHECK(text_of(folder / "out/train") == "one");
}

TEST_CASE("where nothing is to be held out, all of the text is to train on") {
  const ScratchFolder folder;
  write_file(folder / "text", "ten bytes.");
  auto report =
      prepare({.texts = {folder / "text"}, .out = folder / "out", .validation_fraction = 0},
              byte_tokenizer());
  REQUIRE(report.ok());
  CHECK(report.value().train.tokens == 10);
  CHECK(report.value().validation.tokens == 0);
  CHECK(std::filesystem::exists(folder / "out/train"));
  CHECK(!std::filesystem::exists(folder / "out/validation"));
}

}  // namespace starling::peer
