#include "peer/files/run_folder.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::read_file;
using starling::testing::write_file;

static_assert(!std::is_copy_constructible_v<RunFolder>);

TEST_CASE("a peer has a higher incarnation at every start, and at least the time") {
  const ScratchFolder root;
  std::uint64_t last = static_cast<std::uint64_t>(::time(nullptr)) * 256 - 1;
  CHECK(seconds_between(last, last + 128) == 0.5);
  for (int start = 1; start <= 3; ++start) {
    auto folder = RunFolder::open({root.path(), "run", "a"});
    REQUIRE(folder.ok());
    CHECK(folder.value().incarnation() > last);
    last = folder.value().incarnation();
    CHECK(folder.value().path() == root / "run/a");
    CHECK(std::filesystem::is_directory(folder.value().checkpoints()));
  }
  // A clock that was set back does not bring a former life's number back.
  write_file(root / "run/a/peer.json", "{\"incarnation\": 700000000000}");
  CHECK(RunFolder::open({root.path(), "run", "a"}).value().incarnation() == 700000000001);
}

TEST_CASE("a clock that is a lifetime ahead does not use up the numbers of all starts to come") {
  CHECK(next_incarnation(7, 1000) == 1000);
  CHECK(next_incarnation(1000, 7) == 1001);
  CHECK(next_incarnation(1000, std::uint64_t{1} << 40) == 1001);
  CHECK(next_incarnation(1000, UINT64_MAX) == 1001);
}

TEST_CASE("a visit's number is above the last start's, and the next one's above it") {
  constexpr std::uint64_t kHour = 3600 * 256;
  REQUIRE(seconds_between(0, kHour) == 3600);
  const std::uint64_t time = incarnation_now();
  // Before the first start, and after one: in between the clock may be set back.
  CHECK(visit_incarnation(0, time, false) < next_incarnation(0, time - kHour));
  CHECK(visit_incarnation(0, time + 256, false) > visit_incarnation(0, time, false));
  const std::uint64_t last = time - kHour;
  const std::uint64_t visit = visit_incarnation(last, time, false);
  CHECK(visit > last);
  CHECK(visit_incarnation(last, time + 256, false) > visit);
  CHECK(next_incarnation(last, time - kHour / 2) > visit);
  CHECK(visit_incarnation(last, last - 1, false) > last);
  // One that is right is not set back, and a number behind one that a lost folder had would be old.
  CHECK(visit_incarnation(0, time, true) == time);
  CHECK(visit_incarnation(time, time, true) == time + 1);
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

TEST_CASE("two peers do not share a folder of checkpoints, wherever it is") {
  const ScratchFolder root;
  auto a = RunFolder::open({root.path(), "run", "a"});
  auto b = RunFolder::open({root.path(), "run", "b"});
  REQUIRE((a.ok() && b.ok()));
  REQUIRE(a.value().lock_checkpoints(root / "shared").ok());
  Status second = b.value().lock_checkpoints(root / "shared");
  REQUIRE(!second.ok());
  CHECK(second.error().code() == ErrorCode::kUnavailable);
  CHECK(second.error().message().find("checkpoint.folder") != std::string::npos);
  // Nor the one that another has by default; its own folder is its own.
  REQUIRE(a.value().lock_checkpoints(a.value().checkpoints()).ok());
  CHECK(!b.value().lock_checkpoints(a.value().checkpoints()).ok());
  CHECK(b.value().lock_checkpoints(b.value().path()).ok());
}

TEST_CASE("a key that another peer of the run uses is found in use until that one ends") {
  const ScratchFolder root;
  auto b = RunFolder::open({root.path(), "run", "b"});
  REQUIRE(b.ok());
  {
    auto a = RunFolder::open({root.path(), "run", "a"});
    REQUIRE(a.ok());
    CHECK(a.value().claim_key(root / "key", "run").ok());  // there is none
    write_file(root / "key", "anything");
    CHECK(a.value().claim_key(root / "key", "run").ok());
    CHECK(b.value().claim_key(root / "key", "other run").ok());
    Status second = b.value().claim_key(root / "key", "run");
    REQUIRE(!second.ok());
    CHECK(second.error().code() == ErrorCode::kUnavailable);
    CHECK(second.error().message().find("trust.key") != std::string::npos);
  }
  CHECK(b.value().claim_key(root / "key", "run").ok());
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
}

TEST_CASE("a damaged incarnation is an error that says what to do") {
  const ScratchFolder root;
  { REQUIRE(RunFolder::open({root.path(), "run", "a"}).ok()); }
  const auto path = root / "run/a/peer.json";
  for (const std::string_view text :
       {"", "{", "[]", "{}", "{\"incarnation\": -1}", "{\"incarnation\": \"1\"}",
        "{\"incarnation\": 1099511627775}", "{\"incarnation\": 1099511627776}"}) {
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
  REQUIRE(folder.value().note_start("[run]\n", false).ok());
  REQUIRE(folder.value().note_start("[run]\nname = \"x\"\n", false).ok());
  CHECK(read_file(root / "run/a/config.toml") == "[run]\nname = \"x\"\n");
}

TEST_CASE("what an earlier training has told is set aside, and again") {
  const ScratchFolder root;
  auto folder = RunFolder::open({root.path(), "run", "a"});
  REQUIRE(folder.ok());
  const std::filesystem::path figures = folder.value().event_file().parent_path();
  CHECK(folder.value().note_start("a = 1", true).ok());  // there is nothing
  CHECK(!std::filesystem::exists(figures.string() + ".old"));
  for (const std::string old : {".old", ".old2", ".old3"}) {
    write_file(folder.value().metrics(), old);
    write_file(folder.value().event_file(), old);
    CHECK(folder.value().note_start("a = 1", false).ok());
    CHECK(std::filesystem::exists(folder.value().metrics()));
    REQUIRE(folder.value().note_start("a = 2", true).ok());
    CHECK(!std::filesystem::exists(folder.value().metrics()));
    CHECK(std::filesystem::exists(folder.value().metrics().string() + old));
    CHECK(std::filesystem::exists(figures.string() + old));
    CHECK(std::filesystem::is_empty(figures));
  }
  CHECK(starling::testing::read_file(folder.value().path() / "config.toml") == "a = 2");
}

}  // namespace starling::peer
