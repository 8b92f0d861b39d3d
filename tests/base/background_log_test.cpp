#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/log.h"

namespace starling {
namespace {

// A pipe in the place of standard error, of which nobody reads until asked to.
class StoppedTerminal {
 public:
  StoppedTerminal() : before_(::dup(STDERR_FILENO)) {
    REQUIRE(::pipe(ends_.data()) == 0);
    REQUIRE(::fcntl(ends_[0], F_SETPIPE_SZ, 4096) >= 0);
    REQUIRE(::dup2(ends_[1], STDERR_FILENO) >= 0);
  }
  ~StoppedTerminal() {
    CHECK(::dup2(before_, STDERR_FILENO) >= 0);
    for (const int end : {ends_[0], ends_[1], before_}) ::close(end);
  }
  StoppedTerminal(const StoppedTerminal&) = delete;
  StoppedTerminal& operator=(const StoppedTerminal&) = delete;

  // What is said until these words are.
  std::string read_until(std::string_view words) {
    std::string text;
    while (text.find(words) == std::string::npos) {
      pollfd waits{ends_[0], POLLIN, 0};
      REQUIRE(::poll(&waits, 1, 20'000) == 1);
      std::array<char, 4096> some{};
      const ssize_t count = ::read(ends_[0], some.data(), some.size());
      REQUIRE(count > 0);
      text.append(some.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int before_;
  std::array<int, 2> ends_{};
};

}  // namespace

TEST_CASE("nobody waits for a terminal that stands still, and it hears what it missed") {
  const auto before = spdlog::default_logger();
  StoppedTerminal terminal;
  {
    const BackgroundLog log("bert", LogLevel::kInfo);
    log_info("line 0.");
    CHECK(terminal.read_until("line 0.").find("[bert]") != std::string::npos);
    for (std::size_t i = 1; i <= 2 * BackgroundLog::kLinesKept; ++i) log_info("line {}.", i);
    const std::string text =
        terminal.read_until("line " + std::to_string(2 * BackgroundLog::kLinesKept) + ".");
    const std::size_t lost = text.find(" lines are lost: the output stood still");
    REQUIRE(lost != std::string::npos);
    // All of the newest are there.
    const std::size_t first = BackgroundLog::kLinesKept + 1;
    CHECK(text.find("line " + std::to_string(first) + ".", lost) != std::string::npos);
    log_info("the end");
  }
  CHECK(terminal.read_until("the end").find("[bert] the end") != std::string::npos);
  spdlog::set_default_logger(before);
}

TEST_CASE("a log whose terminal stands still ends all the same") {
  const auto before = spdlog::default_logger();
  StoppedTerminal terminal;
  {
    const BackgroundLog log("cleo", LogLevel::kInfo, std::chrono::milliseconds(50));
    for (int i = 1; i <= 200; ++i) log_info("line {}.", i);
  }
  spdlog::set_default_logger(before);
  CHECK(!terminal.read_until("line 200.").empty());  // which sets its thread free
}

}  // namespace starling
