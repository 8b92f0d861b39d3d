#include "peer/run_folder.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::read_file;
using starling::testing::write_file;

static_assert(!std::is_copy_constructible_v<RunFolder>);

TEST_CASE("a peer keeps its id and has a higher incarnation at every start") {
  const ScratchFolder root;
  PeerId id;
  for (std::uint64_t start = 1; start <= 3; ++start) {
    auto folder = RunFolder::open({root.path(), "run", "a"});
    REQUIRE(folder.ok());
    if (start == 1) id = folder.value().peer_id();
    CHECK(id.value != 0);
    CHECK(folder.value().peer_id() == id);
    CHECK(folder.value().incarnation() == start);
    CHECK(folder.value().path() == root / "run/a");
    CHECK(std::filesystem::is_directory(folder.value().checkpoints()));
  }
  auto other = RunFolder::open({root.path(), "run", "b"});
  REQUIRE(other.ok());
  CHECK(other.value().peer_id() != id);
}

TEST_CASE("a second process on a folder is told who has it") {
  const ScratchFolder root;
  auto folder = RunFolder::open({root.path(), "run", "a"});
  REQUIRE(folder.ok());
  // A second descriptor of the same file conflicts like another process.
  auto second = RunFolder::open({root.path(), "run", "a"});
  REQUIRE(!second.ok());
  CHECK(second.error().code() == ErrorCode::kUnavailable);
  CHECK(second.error().message().find((root / "run/a").string()) != std::string::npos);
  CHECK(second.error().message().find(std::to_string(::getpid())) != std::string::npos);
}

TEST_CASE("the lock goes with the process, however it ends") {
  const ScratchFolder root;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto folder = RunFolder::open({root.path(), "run", "a"});
    ::_exit(folder.ok() ? 0 : 1);  // without destructors, like a crash
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
  auto folder = RunFolder::open({root.path(), "run", "a"});
  REQUIRE(folder.ok());
  CHECK(folder.value().incarnation() == 2);
}

TEST_CASE("a damaged identity is an error that says what to do") {
  const ScratchFolder root;
  { REQUIRE(RunFolder::open({root.path(), "run", "a"}).ok()); }
  const auto path = root / "run/a/peer.json";
  for (const std::string_view text : {"", "{", "[]", "{\"peer_id\": 5, \"incarnation\": 1}",
                                      "{\"peer_id\": \"0000000000000000\", \"incarnation\": 1}",
                                      "{\"peer_id\": \"00000000000000zz\", \"incarnation\": 1}",
                                      "{\"peer_id\": \"0000000000000001\", \"incarnation\": -1}"}) {
    CAPTURE(text);
    write_file(path, text);
    auto folder = RunFolder::open({root.path(), "run", "a"});
    REQUIRE(!folder.ok());
    CHECK(folder.error().code() == ErrorCode::kCorrupt);
    CHECK(folder.error().message().find(path.string()) != std::string::npos);
  }
}

TEST_CASE("the effective configuration is kept beside the metrics") {
  const ScratchFolder root;
  auto folder = RunFolder::open({root.path(), "run", "a"});
  REQUIRE(folder.ok());
  REQUIRE(folder.value().save_config("[run]\n").ok());
  REQUIRE(folder.value().save_config("[run]\nname = \"x\"\n").ok());
  CHECK(read_file(root / "run/a/config.toml") == "[run]\nname = \"x\"\n");
}

}  // namespace starling::peer
