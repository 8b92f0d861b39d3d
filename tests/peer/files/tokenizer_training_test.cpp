#include "peer/files/tokenizer_training.h"

#include <doctest/doctest.h>

#include <string>

#include "peer/files/tokenizer_file.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/files/packed_files.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::peer {

using starling::testing::sample_text;
using starling::testing::write_file;

TEST_CASE("a sample holds all lines that fit, cut where they are long, and none that are odd") {
  LineSample sample(1'000'000);
  sample.add("one");
  sample.add("");
  sample.add("caf\xe9");
  sample.add(std::string("a\0b", 3));
  std::string words;
  while (words.size() < 10'000) words += "a word ";
  sample.add(words);
  std::string unbroken;
  for (int i = 0; i < 3'000; ++i) unbroken += "\xc3\xa9";
  sample.add(unbroken);
  const auto& sentences = sample.sentences();
  REQUIRE(sentences.size() == 6);
  CHECK(sentences[0] == "one");
  CHECK(sentences[1] + sentences[2] + sentences[3] == words);
  CHECK(sentences[2].starts_with(" "));
  CHECK(sentences[4] + sentences[5] == unbroken);
  CHECK(sentences[4].size() == model::kSentenceBytesMax);
}

TEST_CASE("of more lines than fit a sample has some from everywhere, always the same") {
  const auto sampled = [] {
    LineSample sample(20'000);
    for (int i = 0; i < 100'000; ++i) sample.add("line " + std::to_string(100'000 + i));
    CHECK(sample.bytes() <= 20'000);
    CHECK(sample.bytes() > 8'000);
    return sample.sentences();
  };
  const auto sentences = sampled();
  CHECK(sentences < std::vector<std::string>{"line 102"});
  CHECK(sentences.back() > "line 198");
  CHECK(sampled() == sentences);
}

TEST_CASE("a tokenizer of packed texts is written once, and can be used") {
  const ScratchFolder folder;
  write_file(folder / "a.txt.gz", gzip(sample_text(30'000, 1)));
  write_file(folder / "b.jsonl", "{\"text\": \"ta mon ri\\nta\"}\n");
  TokenizerTrainingOptions options{.texts = {folder / "a.txt.gz", folder / "b.jsonl"},
                                   .out = folder / "new/tokenizer.model"};
  options.training.vocabulary = 350;
  auto trained = train_tokenizer(options);
  REQUIRE_MESSAGE(trained.ok(), trained.error().message());
  auto file = open_tokenizer((folder / "new").string());
  REQUIRE(file.ok());
  CHECK(file.value().tokenizer->vocabulary() == 350);
  CHECK(file.value().tokenizer->name() == trained.value().name);
  options.out = folder / "new";  // the folder, where the file is by now
  auto again = train_tokenizer(options);
  REQUIRE(!again.ok());
  CHECK(again.error().message().find("exists already") != std::string::npos);
  options.out = folder / "other";
  options.texts = {folder / "absent"};
  CHECK(!train_tokenizer(options).ok());
  write_file(folder / "empty.txt", "");
  write_file(folder / "text", sample_text(30'000, 1));
  options.texts = {folder / "text"};
  options.sample_bytes_max = 1;
  auto little = train_tokenizer(options);
  REQUIRE(!little.ok());
  CHECK(little.error().message().find("--sample-bytes 1 left 0 of ") == 0);
  options.texts = {folder / "empty.txt", folder / "a.txt.gz"};
  auto empty = train_tokenizer(options);
  REQUIRE(!empty.ok());
  CHECK(empty.error().message() == (folder / "empty.txt").string() + " is empty");
  options.texts = {folder / "text"};
  options.text_field = "text";  // even this one, if it is asked for
  auto plain = train_tokenizer(options);
  REQUIRE(!plain.ok());
  CHECK(plain.error().message().find("is not read as JSON lines") != std::string::npos);
}

}  // namespace starling::peer
