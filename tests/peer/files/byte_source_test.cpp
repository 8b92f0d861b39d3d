#include "peer/files/byte_source.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/files/packed_files.h"

namespace starling::peer {

using starling::testing::write_file;

namespace {

// Or the error's message.
std::string contents_of(const std::filesystem::path& path, std::size_t at_once = 5000) {
  auto source = open_bytes(path);
  if (!source.ok()) return source.error().message();
  std::string contents;
  std::vector<char> bytes(at_once);
  for (;;) {
    auto read = source.value()->read(bytes);
    if (!read.ok()) return read.error().message();
    if (read.value() == 0) return contents;
    contents.append(bytes.data(), read.value());
  }
}

std::string text_of_noise(std::size_t bytes) {
  Rng rng(3);
  std::string text;
  while (text.size() < bytes) text += std::to_string(rng.below(100)) + "\n";
  return text;
}

}  // namespace

TEST_CASE("packed files give their text, in one part or several") {
  const ScratchFolder folder;
  const std::string text = text_of_noise(700'000);
  write_file(folder / "a.txt", text);
  write_file(folder / "a.gz", gzip(text));
  write_file(folder / "a.zst", zstd(text));
  write_file(folder / "two.gz", gzip("one ") + gzip("") + gzip("two") + std::string(600, '\0'));
  write_file(folder / "two.zst", zstd("one ") + zstd("") + zstd("two"));
  for (const char* name : {"a.txt", "a.gz", "a.zst"}) {
    CAPTURE(name);
    CHECK(contents_of(folder / name) == text);
    CHECK(unpacked_bytes(folder / name).value() == text.size());
  }
  CHECK(contents_of(folder / "two.gz", 2) == "one two");
  CHECK(contents_of(folder / "two.zst", 2) == "one two");
}

TEST_CASE("a packed file that is damaged, cut short or none is named, and nothing is made up") {
  const ScratchFolder folder;
  const std::string text = text_of_noise(700'000);
  for (const bool gz : {true, false}) {
    const auto path = folder / (gz ? "a.gz" : "a.zst");
    const std::string packed = gz ? gzip(text) : zstd(text);
    for (const std::size_t bytes : {std::size_t{3}, packed.size() / 2, packed.size() - 1}) {
      write_file(path, packed.substr(0, bytes));
      CHECK(contents_of(path) ==
            path.string() + (gz ? ": the gzip file is cut short" : ": the zstd file is cut short"));
      CHECK(!unpacked_bytes(path).ok());
    }
    std::string damaged = packed;
    damaged[packed.size() / 2] ^= 0x10;
    if (gz) {
      write_file(path, damaged);
      CHECK(contents_of(path).find("the gzip file is ") != std::string::npos);
    }
    for (const std::string& other :
         {packed + "more", std::string("plain text"), std::string(2, '\0') + packed}) {
      write_file(path, other);
      CHECK(contents_of(path).find(" is damaged, or is none") != std::string::npos);
    }
  }
  CHECK(contents_of(folder / "absent.gz").find((folder / "absent.gz").string()) !=
        std::string::npos);
}

}  // namespace starling::peer
