#include "peer/files/tokenizer_file.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "peer/files/hugging_face.h"
#include "peer/files/prepare.h"
#include "tests/peer/file_steps.h"
#include "tests/support/sentencepiece_sample.h"

namespace starling::peer {

using starling::testing::read_file;
using starling::testing::write_file;

namespace {

std::string golden_path(const std::string& family) {
  return std::string(STARLING_MODEL_GOLDENS) + "/tokenizers/" + family + ".json";
}

std::string name_of(Result<TokenizerFile> file) {
  REQUIRE(file.ok());
  return std::string(file.value().tokenizer->name());
}

// Shards of a small text, in OUT/train.
std::vector<std::string> shards_by(const std::string& spec, const ScratchFolder& folder,
                                   const std::string& out) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "line " + std::to_string(i) + "\n";
  write_file(folder / "text", text);
  auto tokenizer = open_tokenizer(spec);
  REQUIRE(tokenizer.ok());
  REQUIRE(prepare({.texts = {folder / "text"}, .out = folder / out}, tokenizer.value()).ok());
  return {(folder / out / "train").string()};
}

}  // namespace

TEST_CASE("a tokenizer is bytes, a file, or a folder with one, and anything else is named") {
  const ScratchFolder folder;
  CHECK(name_of(open_tokenizer("bytes")) == "bytes");
  const std::string name = name_of(open_tokenizer(golden_path("qwen2")));
  write_file(folder / "tokenizer.json", read_file(golden_path("qwen2")));
  CHECK(name_of(open_tokenizer(folder.path().string())) == name);
  for (const std::string text : {"", "{}", "not JSON"}) {
    write_file(folder / "tokenizer.json", text);
    auto broken = open_tokenizer(folder.path().string());
    REQUIRE(!broken.ok());
    CHECK(broken.error().message().find((folder / "tokenizer.json").string()) == 0);
  }
  CHECK(!open_tokenizer((folder / "absent").string()).ok());
}

TEST_CASE("the tokenizer that an export of a model of bytes holds is one of bytes") {
  const ScratchFolder folder;
  write_file(folder / "tokenizer.json", byte_tokenizer_json());
  auto file = open_tokenizer(folder.path().string());
  REQUIRE(file.ok());
  std::vector<std::int32_t> tokens;
  file.value().tokenizer->encoder(model::SpecialTokens::kAsText)->encode("a\xff\n", tokens);
  CHECK(tokens == std::vector<std::int32_t>{'a', 0xff, '\n'});
  CHECK(file.value().tokenizer->name() == "bytes");  // so that shards of bytes go on with it
  // The same as somebody else writes it is another file, whose tokens are alike.
  write_file(folder / "tokenizer.json", byte_tokenizer_json() + "\n");
  file = open_tokenizer(folder.path().string());
  REQUIRE(file.ok());
  tokens.clear();
  file.value().tokenizer->encoder(model::SpecialTokens::kAsText)->encode("a\xff\n", tokens);
  CHECK(tokens == std::vector<std::int32_t>{'a', 0xff, '\n'});
}

TEST_CASE("shards are followed by their tokenizer, and by no other") {
  const ScratchFolder folder;
  const auto shards = shards_by(golden_path("gpt2"), folder, "gpt2");
  CHECK(read_file(folder / "gpt2/train/tokenizer.json") == read_file(golden_path("gpt2")));
  CHECK(read_file(folder / "gpt2/validation/tokenizer.json") == read_file(golden_path("gpt2")));
  CHECK(name_of(tokenizer_of_shards(shards)) == name_of(open_tokenizer(golden_path("gpt2"))));

  // The same number of tokens, but not the same file.
  write_file(folder / "gpt2/train/tokenizer.json", read_file(golden_path("gpt2")) + "\n");
  auto exchanged = tokenizer_of_shards(shards);
  REQUIRE(!exchanged.ok());
  CHECK(exchanged.error().message().find("put that one there") != std::string::npos);
  std::filesystem::remove(folder / "gpt2/train/tokenizer.json");
  auto missing = tokenizer_of_shards(shards);
  REQUIRE(!missing.ok());
  CHECK(missing.error().message().find("must lie beside them") != std::string::npos);

  CHECK(name_of(tokenizer_of_shards(shards_by("bytes", folder, "bytes"))) == "bytes");
  CHECK(!std::filesystem::exists(folder / "bytes/train/tokenizer.json"));
  CHECK(!tokenizer_of_shards({}).ok());
}

TEST_CASE("a SentencePiece model is read whatever its name, and lies beside its shards as it is") {
  const ScratchFolder folder;
  const std::string file = starling::testing::sample_model({});
  write_file(folder / "spiece.spm", file);
  const std::string spec = (folder / "spiece.spm").string();
  const std::string name = name_of(open_tokenizer(spec));
  CHECK(name.starts_with("spm-"));
  const auto shards = shards_by(spec, folder, "out");
  CHECK(read_file(folder / "out/train/tokenizer.model") == file);
  CHECK(!std::filesystem::exists(folder / "out/train/tokenizer.json"));
  CHECK(name_of(tokenizer_of_shards(shards)) == name);
  // Folders of models often hold both.
  write_file(folder / "out/train/tokenizer.json", "{}");
  CHECK(name_of(tokenizer_of_shards(shards)) == name);
  CHECK(name_of(open_tokenizer((folder / "out/train").string())) == name);
  write_file(folder / "out/train/tokenizer.model", file.substr(0, file.size() / 2));
  auto broken = open_tokenizer((folder / "out/train").string());
  REQUIRE(!broken.ok());
  CHECK(broken.error().message().find((folder / "out/train/tokenizer.model").string()) == 0);
}

TEST_CASE("a model that has other tokens than its supposed data is not given their tokenizer") {
  const ScratchFolder folder;
  PeerConfig config;
  config.model.vocabulary = 256;
  config.data.train = {(folder / "absent").string()};
  CHECK(name_of(tokenizer_of_model(config, {}, "")) == "bytes");
  config.model.vocabulary = 700;
  CHECK(!tokenizer_of_model(config, {}, "").ok());
  config.data.train = shards_by("bytes", folder, "bytes");
  CHECK(!tokenizer_of_model(config, {}, "").ok());
  CHECK(name_of(tokenizer_of_model(config, {}, "bytes")) == "bytes");
  config.data.train = shards_by(golden_path("gpt2"), folder, "gpt2");
  CHECK(name_of(tokenizer_of_model(config, {}, "")) != "bytes");
}

TEST_CASE("shards of llm.c are of the tokenizer that lies beside them, or of none that is known") {
  const ScratchFolder folder;
  write_file(folder / "x.bin", starling::testing::llm_c_shard<std::uint16_t>(20240520, 1, {1, 2}));
  const std::vector<std::string> shards = {(folder / "x.bin").string()};
  auto unknown = tokenizer_of_shards(shards);
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().code() == ErrorCode::kNotFound);
  CHECK(unknown.error().message().find("put its tokenizer.json beside them") != std::string::npos);
  auto no_name = tokenizer_name_of_shards(shards);
  REQUIRE(no_name.ok());
  CHECK(no_name.value().empty());

  write_file(folder / "tokenizer.json", read_file(golden_path("gpt2")));
  const std::string name = name_of(open_tokenizer(golden_path("gpt2")));
  CHECK(name_of(tokenizer_of_shards(shards)) == name);
  auto found = tokenizer_name_of_shards(shards);
  REQUIRE(found.ok());
  CHECK(found.value() == name);
}

}  // namespace starling::peer
