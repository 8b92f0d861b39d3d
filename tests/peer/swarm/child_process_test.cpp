#include "peer/swarm/child_process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/this_thread.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

struct Seen {
  std::vector<std::string> lines;
  std::vector<ChildExit> exits;
};

ChildCommand shell(const std::string& script, const std::filesystem::path& log) {
  return {.arguments = {"/bin/sh", "-c", script}, .log = log};
}

Seen run(const ChildCommand& command) {
  UvLoop loop;
  Seen seen;
  auto child = ChildProcess::start(
      loop, command,
      {.on_line = [&](std::string_view line) { seen.lines.emplace_back(line); },
       .on_exit = [&](const ChildExit& exit) { seen.exits.push_back(exit), uv_stop(loop.get()); }});
  REQUIRE(child.ok());
  uv_run(loop.get(), UV_RUN_DEFAULT);
  return seen;
}

TEST_CASE("lines are cut wherever the pieces end") {
  LineBuffer buffer;
  std::vector<std::string> lines;
  const auto keep = [&lines](std::string_view line) { lines.emplace_back(line); };
  for (const std::string_view piece : {"on", "e\ntw", "o\n\nthree", "\n", "rest"}) {
    buffer.append(piece, keep);
  }
  CHECK(lines == std::vector<std::string>{"one", "two", "", "three"});
}

TEST_CASE("a line without end costs no memory and is dropped") {
  LineBuffer buffer;
  std::vector<std::string> lines;
  const auto keep = [&lines](std::string_view line) { lines.emplace_back(line); };
  const std::string piece(1000, 'x');
  for (int i = 0; i < 1000; ++i) buffer.append(piece, keep);
  buffer.append("\nnext\n", keep);
  CHECK(lines == std::vector<std::string>{"next"});
}

TEST_CASE("a child has the processors it was given, and its parent keeps its own") {
  const ScratchFolder folder;
  const std::vector<int> before = allowed_processors();
  REQUIRE(!before.empty());
  ChildCommand command =
      shell("grep Cpus_allowed_list /proc/self/status", folder.path() / "log.txt");
  command.processors = {before.back()};
  const Seen seen = run(command);
  REQUIRE(seen.lines.size() == 1);
  CHECK(seen.lines.front() == "Cpus_allowed_list:\t" + std::to_string(before.back()));
  CHECK(allowed_processors() == before);
}

TEST_CASE("output arrives whole and before the exit, errors go to the log") {
  const ScratchFolder folder;
  const Seen seen =
      run(shell("echo first; echo oops >&2; echo second; exit 5", folder.path() / "log.txt"));
  CHECK(seen.lines == std::vector<std::string>{"first", "second"});
  REQUIRE(seen.exits.size() == 1);
  CHECK(seen.exits[0].code == 5);
  CHECK_FALSE(seen.exits[0].clean());
  CHECK(describe(seen.exits[0]) == "exit code 5");
  CHECK(last_lines(folder.path() / "log.txt", {.lines_max = 3}) ==
        std::vector<std::string>{"oops"});
}

TEST_CASE("a log is continued, not replaced") {
  const ScratchFolder folder;
  run(shell("echo one >&2", folder.path() / "log.txt"));
  run(shell("echo two >&2", folder.path() / "log.txt"));
  CHECK(last_lines(folder.path() / "log.txt", {.lines_max = 3}) ==
        std::vector<std::string>{"one", "two"});
}

TEST_CASE("a child knows where in the log it begins, and what stands before it can be left out") {
  const ScratchFolder folder;
  const auto log = folder.path() / "log.txt";
  std::ofstream(log) << "of an earlier one\n";
  UvLoop loop;
  auto child = ChildProcess::start(loop, shell("echo mine >&2", log),
                                   {.on_line = [](std::string_view) {},
                                    .on_exit = [&](const ChildExit&) { uv_stop(loop.get()); }});
  REQUIRE(child.ok());
  const std::uint64_t begin = child.value()->log_begin();
  CHECK(begin == 18);
  uv_run(loop.get(), UV_RUN_DEFAULT);
  CHECK(last_lines(log, {.lines_max = 9, .from = begin}) == std::vector<std::string>{"mine"});
  CHECK(last_lines(log, {.lines_max = 9, .from = begin + 5}).empty());
  // Somebody has cut the log meanwhile.
  CHECK(last_lines(log, {.lines_max = 9, .from = 1000}).size() == 2);
}

TEST_CASE("a death by signal says so") {
  const ScratchFolder folder;
  const Seen seen = run(shell("kill -9 $$", folder.path() / "log.txt"));
  REQUIRE(seen.exits.size() == 1);
  CHECK(seen.exits[0].signal == SIGKILL);
  CHECK(describe(seen.exits[0]) == "killed by signal 9 (Killed)");
}

TEST_CASE("a program that does not exist is an error at once") {
  const ScratchFolder folder;
  UvLoop loop;
  auto child = ChildProcess::start(
      loop, {.arguments = {"/nowhere/starling"}, .log = folder.path() / "log.txt"}, {});
  REQUIRE_FALSE(child.ok());
  CHECK(child.error().code() == ErrorCode::kNotFound);
  CHECK(child.error().message().find("/nowhere/starling") != std::string::npos);
}

TEST_CASE("a log that cannot be opened is an error at once") {
  UvLoop loop;
  auto child = ChildProcess::start(loop, shell("true", "/nowhere/log.txt"), {});
  REQUIRE_FALSE(child.ok());
  CHECK(child.error().message().starts_with("cannot open /nowhere/log.txt: "));
}

TEST_CASE("dropping a child kills it") {
  const ScratchFolder folder;
  UvLoop loop;
  auto child = ChildProcess::start(loop, shell("sleep 60", folder.path() / "log.txt"), {});
  REQUIRE(child.ok());
  const pid_t pid = child.value()->pid();
  CHECK(::kill(pid, 0) == 0);
  child.value().reset();
  CHECK(::kill(pid, 0) != 0);
}

bool appears(const std::filesystem::path& path) {
  for (int i = 0; i < 100; ++i) {
    if (std::filesystem::exists(path)) return true;
    ::usleep(50'000);
  }
  return false;
}

TEST_CASE("a child's standard input ends with its launcher and not before") {
  const ScratchFolder folder;
  const auto up = folder.path() / "up";
  const auto orphaned = folder.path() / "orphaned";
  const pid_t launcher = ::fork();
  REQUIRE(launcher >= 0);
  if (launcher == 0) {
    UvLoop loop;
    auto child = ChildProcess::start(
        loop,
        shell("touch " + up.string() + "; read line; touch " + orphaned.string(),
              folder.path() / "log.txt"),
        {});
    for (;;) ::pause();
  }
  CHECK(appears(up));
  ::usleep(200'000);
  CHECK_FALSE(std::filesystem::exists(orphaned));
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  CHECK(appears(orphaned));
}

TEST_CASE("the end of a log is bounded in lines and bytes") {
  const ScratchFolder folder;
  const auto log = folder.path() / "log.txt";
  std::ofstream(log) << std::string(100'000, 'x') << "\nb\nc\n";
  CHECK(last_lines(log, {.lines_max = 2}) == std::vector<std::string>{"b", "c"});
  CHECK(last_lines(log, {.lines_max = 99}).front().size() <= 8192);
  CHECK(last_lines(folder.path() / "absent", {.lines_max = 2}).empty());
}

}  // namespace
}  // namespace starling::peer
