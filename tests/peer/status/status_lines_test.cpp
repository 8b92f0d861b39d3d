#include "peer/status/status_lines.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

namespace starling::peer {
namespace {

struct Pipe {
  Pipe() {
    REQUIRE(::pipe(ends.data()) == 0);
    REQUIRE(::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(::fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 4096);
  }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void read_all() {
    std::array<char, 1024> some{};
    for (ssize_t got; (got = ::read(ends[0], some.data(), some.size())) > 0;) {
      come.append(some.data(), static_cast<std::size_t>(got));
    }
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> found;
    for (std::size_t at = 0, end; (end = come.find('\n', at)) != std::string::npos; at = end + 1) {
      found.push_back(come.substr(at, end - at));
    }
    return found;
  }

  std::array<int, 2> ends{};
  std::string come;
};

std::string line_of(int number, std::size_t length) {
  const std::string name = std::to_string(number);
  return name + std::string(length - name.size(), '.');
}

}  // namespace

TEST_CASE("a reader that stopped is not waited for, and has whole lines when it goes on") {
  constexpr int kLines = 200;
  for (const std::size_t length : {std::size_t{100}, std::size_t{3000}, std::size_t{20'000}}) {
    CAPTURE(length);
    Pipe pipe;
    StatusLines lines(pipe.ends[1]);
    for (int i = 0; i < kLines; ++i) lines.tell(line_of(i, length));
    // It reads again: what was under way is ended, then comes the newest.
    for (int i = 0; i < 20; ++i) {
      pipe.read_all();
      lines.tell(line_of(kLines + i, length));
    }
    pipe.read_all();
    const auto come = pipe.lines();
    REQUIRE(come.size() > 2);
    CHECK(come.size() < kLines);
    int last = -1;
    for (const std::string& line : come) {
      CHECK(line.size() == length);
      const int number = std::stoi(line);
      CHECK(number > last);
      last = number;
    }
    CHECK(last > kLines);
  }
}

TEST_CASE(
    "the last line comes to a reader that goes on soon, and is not waited for in vain for long") {
  constexpr std::size_t kLength = 10'000;
  Pipe pipe;
  StatusLines lines(pipe.ends[1]);
  for (int i = 0; i < 10; ++i) lines.tell(line_of(i, kLength));
  const pid_t reader = ::fork();
  if (reader == 0) {
    for (int i = 0; i < 300; ++i) {
      pipe.read_all();
      if (pipe.lines().size() == 2) ::_exit(pipe.lines()[1] == line_of(9, kLength) ? 0 : 1);
      ::usleep(10'000);
    }
    ::_exit(2);
  }
  lines.finish();
  int status = -1;
  REQUIRE(::waitpid(reader, &status, 0) == reader);
  CHECK(status == 0);
  for (int i = 0; i < 10; ++i) lines.tell(line_of(i, kLength));
  lines.finish();  // nobody reads: it comes back
}

TEST_CASE("a reader that is gone costs nothing") {
  ::signal(SIGPIPE, SIG_IGN);  // as a peer does
  Pipe pipe;
  ::close(pipe.ends[0]);
  pipe.ends[0] = ::open("/dev/null", O_RDONLY);
  StatusLines lines(pipe.ends[1]);
  for (int i = 0; i < 3; ++i) lines.tell("nobody reads this");
  CHECK(pipe.lines().empty());
}

}  // namespace starling::peer
