#include "peer/files/text_file.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/peer/file_steps.h"
#include "tests/peer/files/packed_files.h"

namespace starling::peer {

using starling::testing::write_file;

namespace {

struct Document {
  std::string text;
  bool held_out = false;
  bool operator==(const Document&) const = default;
};

// Pieces of odd lengths.
std::size_t short_cut(std::string_view text) { return std::min<std::size_t>(text.size(), 9'973); }

std::vector<Document> documents_of(const std::filesystem::path& path,
                                   std::uint64_t held_out_from = TextFile::kNothingHeldOut) {
  auto file = TextFile::open(path, held_out_from);
  REQUIRE_MESSAGE(file.ok(), file.error().message());
  std::vector<Document> documents;
  bool inside = false;
  for (;;) {
    auto piece = file.value().next(short_cut);
    REQUIRE_MESSAGE(piece.ok(), piece.error().message());
    if (!piece.value()) break;
    CHECK(piece.value()->begins == !inside);
    if (piece.value()->begins) documents.push_back({"", piece.value()->held_out});
    CHECK(documents.back().held_out == piece.value()->held_out);
    documents.back().text += piece.value()->text;
    inside = !piece.value()->ends;
  }
  CHECK(!inside);
  return documents;
}

std::string text_of_field(const std::filesystem::path& path, const std::string& field) {
  auto file = TextFile::open(path, TextFile::kNothingHeldOut, field);
  REQUIRE(file.ok());
  auto piece = file.value().next(short_cut);
  if (!piece.ok()) return piece.error().message();
  return std::string(piece.value().value().text);
}

std::string fault_of(const ScratchFolder& folder, const std::string& name,
                     const std::string& contents) {
  write_file(folder / name, contents);
  auto file = TextFile::open(folder / name);
  REQUIRE(file.ok());
  for (;;) {
    auto piece = file.value().next(short_cut);
    if (!piece.ok()) return piece.error().message();
    if (!piece.value()) return "";
  }
}

}  // namespace

TEST_CASE("a plain text is one document, and two where some of it is held out") {
  const ScratchFolder folder;
  std::string text;
  while (text.size() < 5'000'000) text += "line " + std::to_string(text.size()) + "\n";
  write_file(folder / "a.txt", text);
  CHECK(documents_of(folder / "a.txt") == std::vector<Document>{{text, false}});
  CHECK(documents_of(folder / "a.txt", 0) == std::vector<Document>{{text, true}});
  CHECK(documents_of(folder / "a.txt", text.size()) == std::vector<Document>{{text, false}});
  for (const std::size_t from : {std::size_t{1}, std::size_t{1} << 20, std::size_t{3'333'333},
                                 (std::size_t{2} << 20) + 1, text.size() - 30}) {
    CAPTURE(from);
    const std::size_t split = text.find('\n', from) + 1;
    CHECK(documents_of(folder / "a.txt", from) ==
          std::vector<Document>{{text.substr(0, split), false}, {text.substr(split), true}});
  }
  // No line end, or none with text behind it: there and then.
  text = std::string(3'000'000, 'x') + "\n";
  write_file(folder / "a.txt", text);
  for (const std::size_t from : {std::size_t{1'000'000}, text.size() - 5}) {
    CHECK(documents_of(folder / "a.txt", from) ==
          std::vector<Document>{{text.substr(0, from), false}, {text.substr(from), true}});
  }
}

TEST_CASE("a plain text without line ends is cut between two characters") {
  const ScratchFolder folder;
  std::string text;
  while (text.size() < 3'000'000) text += "\xe6\x97\xa5";
  for (const std::size_t whole : {std::size_t{3}, TextFile::kPieceBytesMax / 3 * 3,
                                  std::size_t{1'500'000}, text.size() - 3}) {
    for (const std::size_t before : {0, 1, 2}) {
      CAPTURE(whole);
      CAPTURE(before);
      write_file(folder / "a.txt", text);
      CHECK(documents_of(folder / "a.txt", whole - before) ==
            std::vector<Document>{{text.substr(0, whole), false}, {text.substr(whole), true}});
    }
  }
  CHECK(documents_of(folder / "a.txt", text.size() + 5) == std::vector<Document>{{text, false}});
  // Bytes that are no UTF-8: there and then.
  text = std::string(3'000'000, '\xa5');
  write_file(folder / "a.txt", text);
  CHECK(documents_of(folder / "a.txt", 1'000'000) ==
        std::vector<Document>{{text.substr(0, 1'000'000), false}, {text.substr(1'000'000), true}});
}

TEST_CASE("every line of JSON is a document, held out if it ends behind the place") {
  const ScratchFolder folder;
  const std::string first = R"({"id": [1, {"text": 2}], "text": "a\n\u00e9 \ud83d\ude42"})";
  const std::string text = first + "\r\n\n  \n{\"text\":\"\"}\n" +
                           R"({"text": "old", "text": "b", "meta": {"text": "c"}})"
                           "\n" +
                           R"({"text": "last"})";
  write_file(folder / "a.jsonl", text);
  const std::string smile = "a\n\xc3\xa9 \xf0\x9f\x99\x82";
  CHECK(documents_of(folder / "a.jsonl") ==
        std::vector<Document>{{smile, false}, {"b", false}, {"last", false}});
  CHECK(documents_of(folder / "a.jsonl", first.size() + 10) ==
        std::vector<Document>{{smile, false}, {"b", true}, {"last", true}});
  CHECK(documents_of(folder / "a.jsonl", text.size() - 1) ==
        std::vector<Document>{{smile, false}, {"b", false}, {"last", true}});
}

TEST_CASE("packed texts are the same documents, however long their lines") {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += R"({"text": ")" + std::string(i * 20'000U, static_cast<char>('a' + i % 26)) + "\"}\n";
  }
  write_file(folder / "a.jsonl", text);
  write_file(folder / "a.jsonl.gz", gzip(text));
  write_file(folder / "a.jsonl.zst", zstd(text));
  const auto documents = documents_of(folder / "a.jsonl", 9'000'000);
  CHECK(documents.size() == 39);
  CHECK(documents_of(folder / "a.jsonl.gz", 9'000'000) == documents);
  CHECK(documents_of(folder / "a.jsonl.zst", 9'000'000) == documents);
}

TEST_CASE("a line that is no document is named by file and number") {
  const ScratchFolder folder;
  const std::string good = "{\"text\": \"a\"}\n";
  const auto names = [&](const std::string& line, const std::string& what) {
    const std::string fault = fault_of(folder, "a.jsonl", good + "\n" + line);
    CAPTURE(fault);
    CHECK(fault.find((folder / "a.jsonl").string() + ", line 3: ") == 0);
    CHECK(fault.find(what) != std::string::npos);
  };
  names("{\"text\": \"a\"", "no JSON");
  names("some text\n", "no JSON");
  names("{\"text\": \"caf\xe9\"}\n", "no JSON");
  names("{\"text\": \"\\ud800\"}\n", "no JSON");
  names("{\"text\": \"a\"} }\n", "no JSON");
  names("{\"txet\": \"a\"}\n", "field \"text\"");
  names("{\"text\": 1}\n", "field \"text\"");
  names("{\"text\": \"a\", \"text\": null}\n", "field \"text\"");
  names("[\"text\", \"a\"]\n", "field \"text\"");
  names("\"text\"\n", "field \"text\"");
  names(std::string(100'000, '['), "no JSON");
  names("{\"text\": \"" + std::string(TextFile::kLineBytesMax, 'x') + "\"}\n" + good, "one line");
  CHECK(fault_of(folder, "b.jsonl", good + "\n").empty());
  CHECK(fault_of(folder, "c.txt", "{\"text\"\n\xff").empty());
}

TEST_CASE("what begins like another format is no text, and the error says what to do") {
  const ScratchFolder folder;
  const auto told = [&](const std::string& name, std::string_view contents) {
    write_file(folder / name, contents);
    auto file = TextFile::open(folder / name);
    return file.ok() ? std::string() : file.error().message();
  };
  const std::string at = (folder / "a").string();
  CHECK(told("a.txt", "PAR1\x15\x04") == at + ".txt is Parquet: export it as JSON lines (*.jsonl)");
  CHECK(told("a.jsonl", "\x1f\x8b\x08") == at + ".jsonl is packed by gzip: name it *.gz");
  CHECK(told("a.txt", "\x28\xb5\x2f\xfd").find("zstd: name it *.zst") != std::string::npos);
  CHECK(told("a.md",
             "\xff\xfe"
             "a")
            .find("iconv -f UTF-16 -t UTF-8") != std::string::npos);
  CHECK(told("a.tok", "STRLTOK1").find("prepared already") != std::string::npos);
  CHECK(told("a", std::string_view("\177ELF\2\1\1\0", 8)) ==
        at + " is a program or a library of one (ELF): leave it out");
  std::string archive(1024, '\0');
  archive.replace(0, 5, "a.txt");
  archive.replace(257, 5, "ustar");
  CHECK(told("a.tar", archive).starts_with(at + ".tar is a tar archive: "));
  CHECK(told("a.tar.gz", gzip(archive)).starts_with(at + ".tar.gz is a tar archive: "));
  CHECK(told("a.txt", archive.substr(0, 259)).empty());
  CHECK(told("a.txt", "ustar").empty());
  // The same bytes inside a packed file, and none of them.
  CHECK(told("a.gz", gzip("%PDF-1.7")).find("PDF") != std::string::npos);
  CHECK(told("a.txt", "PAR1 is the first").empty());
  CHECK(told("a.txt", std::string_view("\0\1", 2)).empty());
  CHECK(told("a.txt", "").empty());
}

TEST_CASE("lines of JSON are known by either of their names, packed or not") {
  const ScratchFolder folder;
  const std::string text = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
  write_file(folder / "a.ndjson", text);
  write_file(folder / "a.ndjson.gz", gzip(text));
  write_file(folder / "a.ndjson.zst", zstd(text));
  for (const char* name : {"a.ndjson", "a.ndjson.gz", "a.ndjson.zst"}) {
    CAPTURE(name);
    CHECK(documents_of(folder / name) == std::vector<Document>{{"a", false}, {"b", false}});
  }
}

TEST_CASE("lines of JSON by another name are refused, and other JSON is a text") {
  const ScratchFolder folder;
  const auto told = [&](const std::string& name, const std::string& contents) {
    write_file(folder / name, contents);
    auto file = TextFile::open(folder / name);
    return file.ok() ? std::string() : file.error().message();
  };
  const std::string refused = " has lines of JSON: name it *.jsonl (packed, ";
  const std::string line = "{\"text\": \"a\"}", other = "{\"id\": 1}";
  CHECK(told("n.json", line + "\n").starts_with((folder / "n.json").string() + refused));
  CHECK(told("n", other + "\r\n\n" + other).starts_with((folder / "n").string() + refused));
  CHECK(told("n.txt", "\xef\xbb\xbf\n" + line).find(refused) != std::string::npos);
  CHECK(told("n.json.gz", gzip(line + "\n" + line)).find(refused) != std::string::npos);
  const std::string long_line = "{\"text\": \"" + std::string(500'000, 'x') + "\"}\n";
  CHECK(told("n.json", long_line + line).find(refused) != std::string::npos);
  // One object for itself, in one line or many, and texts that only begin like one.
  for (const std::string& text :
       {other + "\n", std::string("{}\n"), std::string("{\n  \"text\": \"a\"\n}\n"),
        "[" + line + "]\n", "{ x }\n" + line + "\n", line + " and more\n" + line,
        "A line.\n" + line + "\n"}) {
    CAPTURE(text);
    CHECK(told("n.json", text).empty());
    CHECK(documents_of(folder / "n.json") == std::vector<Document>{{text, false}});
  }
}

TEST_CASE("a field can be named of JSON lines only") {
  const ScratchFolder folder;
  write_file(folder / "a.txt", "a text\n");
  const auto told = [&](const std::string& name) {
    auto file = TextFile::open(folder / name, TextFile::kNothingHeldOut, "content");
    return file.ok() ? std::string() : file.error().message();
  };
  CHECK(told("a.txt").starts_with((folder / "a.txt").string() + " is not read as JSON lines"));
  write_file(folder / "a.jsonl", "");
  CHECK(told("a.jsonl").empty());
  CHECK(told("absent").find("is not read") == std::string::npos);
}

TEST_CASE("a folder stands for the files in it and below, by name, without hidden ones") {
  const ScratchFolder folder;
  const std::filesystem::path at = folder.path();
  for (const char* name : {"b.txt", "a/z.txt", "a/.part", ".git/config", "c.jsonl"}) {
    std::filesystem::create_directories((at / name).parent_path());
    write_file(at / name, "text\n");
  }
  write_file(at.string() + ".txt", "text\n");
  const std::vector<std::filesystem::path> named{at.string() + ".txt", at, "nowhere"};
  auto files = text_files(named);
  REQUIRE(files.ok());
  CHECK(files.value() == std::vector<std::filesystem::path>{at.string() + ".txt", at / "a/z.txt",
                                                            at / "b.txt", at / "c.jsonl",
                                                            "nowhere"});
  std::filesystem::remove(at.string() + ".txt");
  auto twice = text_files(std::vector{at / "a/../c.jsonl", at});
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().message().find("would count twice") != std::string::npos);
  std::filesystem::create_directories(at / "empty");
  auto none = text_files(std::vector{at / "empty"});
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message().find("no file in") != std::string::npos);
}

TEST_CASE("empty files in a folder are left out, and those that are named are not") {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder / "mix/below");
  write_file(folder / "mix/a.txt", "text\n");
  write_file(folder / "mix/empty.txt", "");
  write_file(folder / "mix/below/__init__.py", "");
  auto files = text_files(std::vector{folder / "mix"});
  REQUIRE(files.ok());
  CHECK(files.value() == std::vector{folder / "mix/a.txt"});
  files = text_files(std::vector{folder / "mix/empty.txt"});
  REQUIRE(files.ok());
  auto sizes = text_sizes(files.value(), std::nullopt);
  REQUIRE(!sizes.ok());
  CHECK(sizes.error().message() == (folder / "mix/empty.txt").string() + " is empty");
  auto none = text_files(std::vector{folder / "mix/below"});
  REQUIRE(!none.ok());
  CHECK(none.error().message() ==
        "there are only empty files in " + (folder / "mix/below").string());
}

TEST_CASE("of lines of JSON another field may have the text") {
  const ScratchFolder folder;
  write_file(folder / "a.jsonl", R"({"content": "yes", "text": "no", "in": {"content": "no"}})");
  CHECK(text_of_field(folder / "a.jsonl", "content") == "yes");
  CHECK(text_of_field(folder / "a.jsonl", "text") == "no");
  const std::string fault = text_of_field(folder / "a.jsonl", "body");
  CHECK(fault.find("its field \"body\" (--text-field") != std::string::npos);
}

}  // namespace starling::peer
