#include "peer/files/line_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "peer/io/uv_loop.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/resource_limit.h"

namespace starling::peer {

using starling::testing::read_file;
using starling::testing::ResourceLimit;
using starling::testing::write_file;

namespace {

constexpr std::size_t kBytesMax = 1 << 20;

void run(UvLoop& loop) { uv_run(loop.get(), UV_RUN_DEFAULT); }

bool is_same_file(int one, int other) {
  struct stat first {
  }, second{};
  return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

TEST_CASE("lines are appended in order, also to a file that exists") {
  const ScratchFolder folder;
  write_file(folder / "a.jsonl", "{\"step\": 0}\n");
  UvLoop loop;
  int idle = 0;
  LineFile file(loop.get(), folder / "a.jsonl", {.bytes_max = kBytesMax}, [&idle] { ++idle; });
  std::string expected = "{\"step\": 0}\n";
  for (int i = 1; i < 1000; ++i) {
    const std::string line = "{\"step\": " + std::to_string(i) + "}";
    file.append(line);
    expected += line + "\n";
  }
  CHECK(!file.idle());
  run(loop);
  CHECK(file.idle());
  CHECK(idle == 1);
  CHECK(file.lines_written() == 999);
  CHECK(file.lines_dropped() == 0);
  CHECK(read_file(folder / "a.jsonl") == expected);
}

TEST_CASE("a line torn by a crash does not swallow the next one") {
  const ScratchFolder folder;
  write_file(folder / "a.jsonl", "{\"step\": 1}\n{\"st");
  UvLoop loop;
  LineFile file(loop.get(), folder / "a.jsonl", {.bytes_max = kBytesMax}, [] {});
  file.append("{\"step\": 3}");
  run(loop);
  CHECK(read_file(folder / "a.jsonl") == "{\"step\": 1}\n{\"st\n{\"step\": 3}\n");
}

TEST_CASE("lines beyond the limit are dropped and counted") {
  const ScratchFolder folder;
  UvLoop loop;
  LineFile file(loop.get(), folder / "a.jsonl", {.bytes_max = 10}, [] {});
  file.append("12345");     // under way at once
  file.append("abcd");      // waits
  file.append("efgh");      // waits: ten bytes with their line feeds
  file.append("too much");  // dropped
  run(loop);
  CHECK(read_file(folder / "a.jsonl") == "12345\nabcd\nefgh\n");
  CHECK(file.lines_dropped() == 1);
}

TEST_CASE("a file that cannot be opened costs its lines and nothing else") {
  const ScratchFolder folder;
  UvLoop loop;
  LineFile file(loop.get(), folder / "absent/a.jsonl", {.bytes_max = kBytesMax}, [] {});
  file.append("1");
  file.append("2");
  CHECK(file.idle());
  CHECK(file.lines_dropped() == 2);
  std::filesystem::create_directory(folder / "absent");
  file.append("3");
  run(loop);
  CHECK(read_file(folder / "absent/a.jsonl") == "3\n");
}

TEST_CASE("a write that fails in the middle of a line does not spoil later lines") {
  const ScratchFolder folder;
  UvLoop loop;
  LineFile file(loop.get(), folder / "a.jsonl", {.bytes_max = kBytesMax}, [] {});
  {
    const ResourceLimit limit(RLIMIT_FSIZE, 6);
    file.append("123456789");
    run(loop);
  }
  CHECK(file.lines_dropped() == 1);
  file.append("next");
  run(loop);
  CHECK(read_file(folder / "a.jsonl") == "123456\nnext\n");
  CHECK(file.lines_written() == 1);
}

TEST_CASE("a torn line is closed however many writes fail before that works") {
  const ScratchFolder folder;
  UvLoop loop;
  LineFile file(loop.get(), folder / "a.jsonl", {.bytes_max = kBytesMax}, [] {});
  // The first is torn, at the second not a byte fits, of the third only the line feed before it.
  for (const rlim_t bytes : {6, 6, 7}) {
    const ResourceLimit limit(RLIMIT_FSIZE, bytes);
    file.append("123456789");
    run(loop);
  }
  CHECK(file.lines_dropped() == 3);
  file.append("next");
  run(loop);
  CHECK(read_file(folder / "a.jsonl") == "123456\nnext\n");
}

TEST_CASE("a line that does not fit at all leaves the one before it torn") {
  const ScratchFolder folder;
  write_file(folder / "a.jsonl", "123456");
  UvLoop loop;
  LineFile file(loop.get(), folder / "a.jsonl", {.bytes_max = kBytesMax}, [] {});
  {
    const ResourceLimit limit(RLIMIT_FSIZE, 6);
    file.append("lost");
    run(loop);
  }
  file.append("next");
  run(loop);
  CHECK(read_file(folder / "a.jsonl") == "123456\nnext\n");
}

TEST_CASE("a write that fails in the middle of a record leaves whole records") {
  const ScratchFolder folder;
  UvLoop loop;
  LineFile file(loop.get(), folder / "events",
                {.framing = Framing::kRecords, .bytes_max = kBytesMax}, [] {});
  file.append("abc\n");
  file.append("def");
  run(loop);
  {
    const ResourceLimit limit(RLIMIT_FSIZE, 9);
    file.append("123456789");
    run(loop);
  }
  CHECK(read_file(folder / "events") == "abc\ndef12");
  file.append("next");
  run(loop);
  CHECK(read_file(folder / "events") == "abc\ndefnext");
  CHECK(file.lines_dropped() == 1);
  CHECK(file.lines_written() == 3);
}

TEST_CASE("a file that cannot be mended is idle all the same") {
  const ScratchFolder folder;
  UvLoop loop;
  int idle = 0;
  LineFile file(loop.get(), folder / "events",
                {.framing = Framing::kRecords, .bytes_max = kBytesMax}, [&idle] { ++idle; });
  file.append("abc\n");
  run(loop);
  REQUIRE(idle == 1);
  {
    const ResourceLimit limit(RLIMIT_FSIZE, 6);
    file.append("123456789");
    file.append("waits");
    // Between its two writes the disk becomes one that can only be read.
    while (read_file(folder / "events").size() < 6) uv_run(loop.get(), UV_RUN_ONCE);
    const int reader = ::open((folder / "events").c_str(), O_RDONLY);
    REQUIRE(reader >= 0);
    for (int open_file = 3; open_file < 64; ++open_file) {
      if (open_file == reader || !is_same_file(open_file, reader)) continue;
      REQUIRE(::dup2(reader, open_file) == open_file);
    }
    ::close(reader);
    run(loop);
  }
  CHECK(file.idle());
  CHECK(idle == 2);
  CHECK(file.lines_dropped() == 2);
}

}  // namespace starling::peer
