#include "peer/io/terminal_keys.h"

#include <doctest/doctest.h>

#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

namespace starling::peer {
namespace {

// A process whose terminal is ours to type on: it shows "ready", then does `work` and ends by what
// that gives.
class Typist {
 public:
  explicit Typist(const std::function<int(TerminalKeys&)>& work) {
    process_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      int outcome = 0;
      {
        TerminalKeys keys(STDIN_FILENO);
        if (::write(STDOUT_FILENO, "ready", 5) == 5) outcome = work(keys);
      }
      ::_exit(outcome);
    }
    std::string shown(5, '\0');
    REQUIRE(::read(terminal_, shown.data(), shown.size()) == 5);
    REQUIRE(shown == "ready");
  }
  ~Typist() { ::close(terminal_); }
  Typist(const Typist&) = delete;
  Typist& operator=(const Typist&) = delete;

  void type(char key) const { REQUIRE(::write(terminal_, &key, 1) == 1); }
  void send(int signal) const { REQUIRE(::kill(process_, signal) == 0); }
  bool waits_for_lines() const {
    termios mode{};
    REQUIRE(::tcgetattr(terminal_, &mode) == 0);
    return (mode.c_lflag & ICANON) != 0 && (mode.c_lflag & ECHO) != 0;
  }
  int wait() const {
    int status = 0;
    REQUIRE(::waitpid(process_, &status, 0) == process_);
    return status;
  }

 private:
  int terminal_ = -1;
  pid_t process_ = -1;
};

constexpr auto kLong = std::chrono::seconds(20);

}  // namespace

TEST_CASE("a key is there without a line's end, and the terminal is as it was afterwards") {
  const Typist typist([](TerminalKeys& keys) { return keys.next_within(kLong) == 'q' ? 7 : 1; });
  CHECK_FALSE(typist.waits_for_lines());
  typist.type('q');
  const int status = typist.wait();
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(typist.waits_for_lines());
}

TEST_CASE("a signal that ends the process leaves the terminal as it was") {
  for (const int signal : {SIGINT, SIGTERM}) {
    CAPTURE(signal);
    const Typist typist([](TerminalKeys& keys) { return keys.next_within(kLong) ? 1 : 2; });
    CHECK_FALSE(typist.waits_for_lines());
    typist.send(signal);
    const int status = typist.wait();
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
    CHECK(typist.waits_for_lines());
  }
}

TEST_CASE("what is no terminal has no keys") {
  TerminalKeys keys(-1);
  CHECK_FALSE(keys.next_within(std::chrono::milliseconds(1)).has_value());
}

}  // namespace starling::peer
