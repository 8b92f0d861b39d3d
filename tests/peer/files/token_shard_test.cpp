#include "peer/files/token_shard.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "base/rng.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::llm_c_shard;
using starling::testing::read_file;
using starling::testing::to_bytes;
using starling::testing::write_file;

namespace {

std::filesystem::path write_shard(const ScratchFolder& folder, const ShardHeader& header,
                                  std::span<const std::int32_t> tokens) {
  const auto path = folder / "x.tok";
  auto writer = ShardWriter::create(path, header);
  REQUIRE(writer.ok());
  // In two pieces, as prepare does it.
  const std::size_t half = tokens.size() / 2;
  REQUIRE(writer.value().append(tokens.first(half)).ok());
  REQUIRE(writer.value().append(tokens.subspan(half)).ok());
  REQUIRE(writer.value().finish().ok());
  return path;
}

std::vector<std::int32_t> some_tokens(std::size_t count, std::uint64_t vocabulary) {
  Rng rng(7);
  std::vector<std::int32_t> tokens(count);
  for (auto& token : tokens) token = static_cast<std::int32_t>(rng.below(vocabulary));
  return tokens;
}

}  // namespace

TEST_CASE("a shard gives back its tokens, at either width") {
  for (const std::uint32_t width : {2U, 4U}) {
    CAPTURE(width);
    const ScratchFolder folder;
    const std::uint32_t vocabulary = width == 2 ? 65536 : 1 << 20;
    const auto tokens = some_tokens(1001, vocabulary);
    const auto path = write_shard(
        folder, {.token_bytes = width, .vocabulary = vocabulary, .tokenizer = "test"}, tokens);
    auto shard = TokenShard::open(path);
    REQUIRE(shard.ok());
    const TokenShardView& view = shard.value().view();
    CHECK(view.tokens() == 1001);
    CHECK(view.header().tokenizer == "test");
    CHECK(view.header().vocabulary == vocabulary);
    std::vector<std::int32_t> back(1001);
    view.copy(0, back);
    CHECK(back == tokens);
    std::int32_t last = -1;
    view.copy(1000, std::span(&last, 1));
    CHECK(last == tokens[1000]);
    CHECK(std::filesystem::file_size(path) == 64 + 1001 * width);
  }
}

TEST_CASE("the bytes of a shard are those that its description promises") {
  const ScratchFolder folder;
  const std::vector<std::int32_t> tokens{1, 256};
  const auto path =
      write_shard(folder, {.token_bytes = 2, .vocabulary = 300, .tokenizer = "t"}, tokens);
  const std::string bytes = read_file(path);
  REQUIRE(bytes.size() == 68);
  CHECK(bytes.substr(0, 8) == "STRLTOK1");
  CHECK(bytes.substr(8, 4) == std::string("\1\0\0\0", 4));
  CHECK(bytes.substr(16, 2) == std::string("\2\0", 2));
  CHECK(bytes.substr(32, 4) == std::string("\x2C\1\0\0", 4));
  CHECK(bytes.substr(64) == std::string("\1\0\0\1", 4));
}

TEST_CASE("no byte of a shard can change unnoticed and no length but its own is accepted") {
  const ScratchFolder folder;
  const auto path = write_shard(folder, {.token_bytes = 2, .vocabulary = 100, .tokenizer = "t"},
                                some_tokens(50, 100));
  const auto whole = to_bytes(read_file(path));
  const auto accepted = [](std::span<const std::byte> bytes) {
    auto view = TokenShardView::open(bytes);
    return view.ok() && view.value().verify().ok();
  };
  REQUIRE(accepted(whole));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CAPTURE(i);
    for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
      auto damaged = whole;
      damaged[i] ^= static_cast<std::byte>(flip);
      CHECK(!accepted(damaged));
    }
    CHECK(!accepted(std::span(whole).first(i)));
  }
  auto longer = whole;
  longer.push_back(std::byte{0});
  CHECK(!accepted(longer));
}

TEST_CASE("a header that lies under a correct digest is refused") {
  const std::vector<std::byte> payload(8);
  const auto with = [&payload](ShardHeader header) {
    header.digest = digest(payload);
    const auto head = encode(header);
    std::vector<std::byte> file(head.begin(), head.end());
    file.insert(file.end(), payload.begin(), payload.end());
    return TokenShardView::open(file).ok();
  };
  CHECK(with({.token_bytes = 2, .vocabulary = 10, .tokens = 4}));
  CHECK(with({.token_bytes = 4, .vocabulary = 10, .tokens = 2}));
  CHECK(!with({.token_bytes = 3, .vocabulary = 10, .tokens = 2}));
  CHECK(!with({.token_bytes = 0, .vocabulary = 10, .tokens = 8}));
  CHECK(!with({.token_bytes = 2, .vocabulary = 0, .tokens = 4}));
  CHECK(!with({.token_bytes = 2, .vocabulary = 65537, .tokens = 4}));
  CHECK(!with({.token_bytes = 2, .vocabulary = 10, .tokens = 5}));
  CHECK(with({.token_bytes = 2, .vocabulary = 10, .tokens = 4, .tokenizer = "my-own-2"}));
  for (const char* name : {"GPT2", "cl100k_base", "../x", "a b"}) {  // names become those of files
    CHECK(!with({.token_bytes = 2, .vocabulary = 10, .tokens = 4, .tokenizer = name}));
  }
  // Times two, it is 8 modulo 2^64.
  CHECK(!with({.token_bytes = 2, .vocabulary = 10, .tokens = (std::uint64_t{1} << 63) + 4}));
}

TEST_CASE("an id outside the vocabulary is refused by writer and reader") {
  const ScratchFolder folder;
  auto writer = ShardWriter::create(folder / "x.tok", {.token_bytes = 2, .vocabulary = 100});
  REQUIRE(writer.ok());
  for (const std::int32_t token : {-1, 100, 70000}) {
    CAPTURE(token);
    CHECK(!writer.value().append(std::span(&token, 1)).ok());
  }
  const std::int32_t large = 200;
  const auto payload = std::as_bytes(std::span(&large, 1));
  const auto head =
      encode({.token_bytes = 4, .vocabulary = 200, .tokens = 1, .digest = digest(payload)});
  std::vector<std::byte> file(head.begin(), head.end());
  file.insert(file.end(), payload.begin(), payload.end());
  auto view = TokenShardView::open(file);
  REQUIRE(view.ok());
  CHECK(!view.value().verify().ok());
}

TEST_CASE("a shard of llm.c gives its tokens, and what it does not say is found out") {
  const ScratchFolder folder;
  write_file(folder / "2.bin", llm_c_shard<std::uint16_t>(20240520, 1, {7, 65535, 0, 300}));
  write_file(folder / "4.bin", llm_c_shard<std::uint32_t>(20240801, 7, {7, 128255, 0, 300}));
  for (const std::int32_t width : {2, 4}) {
    CAPTURE(width);
    auto shard = TokenShard::open(folder / (std::to_string(width) + ".bin"));
    REQUIRE(shard.ok());
    const TokenShardView& view = shard.value().view();
    CHECK(view.header().format == ShardFormat::kLlmC);
    CHECK(view.header().tokenizer.empty());
    CHECK(view.header().digest != 0);
    CHECK(view.header().vocabulary == (width == 2 ? 65536 : 128256));
    std::vector<std::int32_t> tokens(view.tokens());
    view.copy(0, tokens);
    CHECK(tokens == std::vector<std::int32_t>{7, width == 2 ? 65535 : 128255, 0, 300});
  }
}

TEST_CASE("a shard of llm.c that is cut, too long, of another version or no text is refused") {
  const std::string whole = llm_c_shard<std::uint16_t>(20240520, 1, {1, 2, 3});
  const auto refusal = [](std::string_view file) {
    const ScratchFolder folder;
    write_file(folder / "x.bin", file);
    auto shard = TokenShard::open(folder / "x.bin");
    REQUIRE(!shard.ok());
    CHECK(shard.error().message().find((folder / "x.bin").string()) != std::string::npos);
    return shard.error().message();
  };
  const auto says = [](const std::string& text, std::string_view part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  for (const std::size_t length : {4, 500, 1023, 1024, 1028, 1029}) {
    CAPTURE(length);
    says(refusal(whole.substr(0, length)), "make it anew with llm.c's dev/data");
  }
  says(refusal(whole.substr(0, 1028)), "says 3 tokens of 2 bytes, but 4 bytes follow");
  says(refusal(whole + "xx"), "says 3 tokens of 2 bytes, but 8 bytes follow");
  says(refusal(llm_c_shard<std::uint16_t>(20240520, 2, {1})), "version 2; this program reads 1");
  says(refusal(llm_c_shard<std::uint32_t>(20240801, 1, {1})), "version 1; this program reads 7");
  says(refusal(llm_c_shard<std::uint16_t>(20240520, 1, {})), "says 0 tokens");
  std::string negative = whole;
  negative.replace(8, 4, "\xff\xff\xff\xff");
  says(refusal(negative), "says -1 tokens");
  says(refusal(llm_c_shard<std::uint16_t>(20240522, 1, {1})), "questions of llm.c");
  says(refusal(llm_c_shard<std::uint16_t>(20240523, 1, {1})), "neither a token shard");
  says(refusal(llm_c_shard<std::uint32_t>(20240801, 7, {1U << 31})), "holds token 2147483648");
}

TEST_CASE("an unfinished, absent or foreign file is refused with its path and a remedy") {
  const ScratchFolder folder;
  {
    auto writer = ShardWriter::create(folder / "unfinished", {.token_bytes = 2, .vocabulary = 9});
    REQUIRE(writer.ok());
    const std::int32_t token = 1;
    REQUIRE(writer.value().append(std::span(&token, 1)).ok());
  }
  write_file(folder / "foreign", std::string(500, 'x'));
  write_file(folder / "empty", "");
  for (const std::string_view name : {"unfinished", "foreign", "empty", "absent"}) {
    CAPTURE(name);
    auto shard = TokenShard::open(folder / name);
    REQUIRE(!shard.ok());
    CHECK(shard.error().message().find((folder / name).string()) != std::string::npos);
    CHECK(shard.error().message().find("starling prepare") != std::string::npos);
  }
}

}  // namespace starling::peer
