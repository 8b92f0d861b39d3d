#include "peer/io/file_io.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "peer/io/byte_codec.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::read_file;
using starling::testing::write_file;

static_assert(!std::is_copy_constructible_v<FileHandle>);
static_assert(!std::is_copy_constructible_v<MappedFile>);

TEST_CASE("errors tell a full disk and an absent file from the rest and name the path") {
  CHECK(io_error("write", "/a/b", ENOSPC).code() == ErrorCode::kExhausted);
  CHECK(io_error("write", "/a/b", ENOENT).code() == ErrorCode::kNotFound);
  CHECK(io_error("write", "/a/b", EIO).code() == ErrorCode::kIo);
  CHECK(io_error("write", "/a/b", EIO).message().find("cannot write /a/b: ") == 0);
}

TEST_CASE("a replaced file holds the new text and leaves nothing beside it") {
  const ScratchFolder folder;
  const auto path = folder / "x.json";
  REQUIRE(replace_file(path, "first, and longer").ok());
  REQUIRE(replace_file(path, "second").ok());
  CHECK(read_file(path) == "second");
  CHECK(!std::filesystem::exists(path.string() + ".tmp"));
  auto text = read_text(path, 6);
  REQUIRE(text.ok());
  CHECK(text.value() == "second");
  CHECK(read_text(path, 5).error().code() == ErrorCode::kCorrupt);
  CHECK(read_text(folder.path(), 5).error().code() == ErrorCode::kIo);
  CHECK(read_text(folder / "absent", 5).error().code() == ErrorCode::kNotFound);
}

TEST_CASE("whether a name is taken is told, or why nobody can tell") {
  const ScratchFolder folder;
  write_file(folder / "full", "abc");
  CHECK(path_exists(folder / "full").value());
  CHECK_FALSE(path_exists(folder / "absent").value());
  CHECK_FALSE(path_exists(folder / "full/inside").value());
  const auto too_long = folder / std::string(300, 'n');
  auto unknown = path_exists(too_long);
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message().find("cannot look at " + too_long.string()) == 0);
  CHECK(check_absent(folder / "absent", "another file").ok());
  CHECK_FALSE(check_absent(too_long, "another file").ok());
  CHECK(check_absent(folder / "full", "another file").error().message() ==
        (folder / "full").string() + " exists already: remove it, or choose another file");
}

TEST_CASE("a mapped file shows its bytes, also when it has none") {
  const ScratchFolder folder;
  write_file(folder / "full", "abc");
  write_file(folder / "empty", "");
  auto full = MappedFile::open(folder / "full");
  REQUIRE(full.ok());
  const MappedFile moved = std::move(full).value();
  CHECK(moved.bytes().size() == 3);
  CHECK(moved.bytes()[2] == std::byte{'c'});
  auto empty = MappedFile::open(folder / "empty");
  REQUIRE(empty.ok());
  CHECK(empty.value().bytes().empty());
}

TEST_CASE("a file that is cut short while it is mapped ends the process, which says so") {
  const ScratchFolder folder;
  write_file(folder / "full", std::string(8192, 'a'));
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(::open((folder / "said").c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    explain_lost_mappings();
    auto file = MappedFile::open(folder / "full");
    std::filesystem::resize_file(folder / "full", 1);
    ::_exit(file.value().bytes()[5000] == std::byte{0} ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
  CHECK(read_file(folder / "said").find("a file of tokens was cut short") != std::string::npos);
}

TEST_CASE("a reader of fields never reads past the end and remembers that it was asked to") {
  ByteWriter writer;
  writer.put(std::uint16_t{0x0201});
  writer.put_text("abc", 5);
  writer.put_text("too long", 3);
  REQUIRE(writer.bytes().size() == 10);
  CHECK(writer.bytes()[0] == std::byte{1});  // little-endian
  ByteReader reader(writer.bytes());
  CHECK(reader.get<std::uint16_t>() == 0x0201);
  CHECK(reader.text(5) == "abc");
  CHECK(reader.text(3) == "too");
  CHECK(reader.ok());
  CHECK(reader.get<std::uint8_t>() == 0);
  CHECK(!reader.ok());
  CHECK(reader.take(0).empty());
  CHECK(!reader.ok());
}

}  // namespace starling::peer
