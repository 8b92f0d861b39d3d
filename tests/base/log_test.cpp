#include "base/log.h"

#include <doctest/doctest.h>

#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace starling {

namespace {

// spdlog asks once what the terminal is: before the first test starts a log.
const bool kColorful = ::setenv("TERM", "xterm", 1) == 0;

// One line of a log whose standard error is a terminal.
std::string line_on_a_terminal() {
  int theirs = -1, ours = -1;
  REQUIRE(::openpty(&theirs, &ours, nullptr, nullptr, nullptr) == 0);
  const auto logger = spdlog::default_logger();
  const int before = ::dup(STDERR_FILENO);
  REQUIRE(::dup2(ours, STDERR_FILENO) >= 0);
  start_log("anna", LogLevel::kInfo);
  log_info("hello");
  std::string line;  // which is written in pieces
  pollfd waits{theirs, POLLIN, 0};
  while (line.find('\n') == std::string::npos && ::poll(&waits, 1, 20'000) == 1) {
    std::array<char, 256> some{};
    const ssize_t count = ::read(theirs, some.data(), some.size());
    if (count <= 0) break;
    line.append(some.data(), static_cast<std::size_t>(count));
  }
  REQUIRE(::dup2(before, STDERR_FILENO) >= 0);
  spdlog::set_default_logger(logger);
  for (const int end : {theirs, ours, before}) ::close(end);
  REQUIRE(line.find('\n') != std::string::npos);
  return line;
}

}  // namespace

TEST_CASE("a terminal gets colors, unless NO_COLOR says that its reader wants none") {
  REQUIRE(kColorful);
  constexpr const char* kEscape = "\x1b[";
  ::unsetenv("NO_COLOR");
  CHECK(line_on_a_terminal().find(kEscape) != std::string::npos);
  ::setenv("NO_COLOR", "", 1);  // which counts as unset
  CHECK(line_on_a_terminal().find(kEscape) != std::string::npos);
  ::setenv("NO_COLOR", "1", 1);
  const std::string plain = line_on_a_terminal();
  CHECK(plain.find("hello") != std::string::npos);
  CHECK(plain.find(kEscape) == std::string::npos);
  ::unsetenv("NO_COLOR");
}

TEST_CASE("what happens again and again is told ever more rarely") {
  std::vector<std::uint64_t> told;
  for (std::uint64_t count = 1; count <= 20; ++count) {
    if (is_worth_a_line(count)) told.push_back(count);
  }
  CHECK(told == std::vector<std::uint64_t>{1, 2, 4, 8, 16});
}

TEST_CASE("a log has its peer's name and leaves out what is below its level") {
  const auto before = spdlog::default_logger();
  start_log("anna", LogLevel::kError);
  CHECK(spdlog::default_logger()->name() == "anna");
  CHECK_FALSE(spdlog::default_logger()->should_log(spdlog::level::warn));
  CHECK(spdlog::default_logger()->should_log(spdlog::level::err));
  spdlog::set_default_logger(before);
}

}  // namespace starling
