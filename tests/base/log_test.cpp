#include "base/log.h"

#include <doctest/doctest.h>

#include <vector>

namespace starling {

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
