#include "peer/status/event_file.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace starling::peer {

namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

constexpr double kTime = 1'600'000'000.5;

}  // namespace

// The vectors of RFC 3720, appendix B.4.
TEST_CASE("the CRC is Castagnoli's") {
  std::string rising;
  for (char i = 0; i < 32; ++i) rising.push_back(i);
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  CHECK(crc32c(rising) == 0x46DD794E);
  CHECK(crc32c(std::string(rising.rbegin(), rising.rend())) == 0x113FDB5C);
}

// From a few lines of Python with a CRC of their own. The first twelve bytes are those that every
// event file begins with.
TEST_CASE("a file begins with its version and the step of its first figures") {
  CHECK(hex(event_file_head({.unix_seconds = kTime, .step = 300})) ==
        "1800000000000000a37f4b22090000200084d7d7411a0d627261696e2e4576656e743a32e202d05d"
        "100000000000000095fbfe18090000200084d7d74110ac023a0208017d9e2f18");
}

TEST_CASE("a line of the metrics becomes one event of its step") {
  CHECK(hex(event_of_metrics({{"step", 300}, {"loss", 2.5}, {"rejected", {{"late", 1}}}}, kTime)) ==
        "1b000000000000001a0d9e13090000200084d7d74110ac022a0d0a0b0a046c6f737315000020407"
        "40ca480");
}

TEST_CASE("figures have the tags under which they are grouped") {
  const std::string event = event_of_metrics({{"step", 1},
                                              {"validation_loss", 2},
                                              {"tokens_per_second", 3},
                                              {"disagreement", 4},
                                              {"bytes_out", 5}},
                                             kTime);
  for (const char* tag : {"\x0fvalidation_loss", "\x1cthroughput/tokens_per_second",
                          "\x15"
                          "exchange/disagreement",
                          "\x12"
                          "exchange/bytes_out"}) {
    CAPTURE(tag);
    CHECK(event.find(tag) != std::string::npos);
  }
  CHECK(event.find("\x04loss") == std::string::npos);
}

TEST_CASE("a loss that is no number is told as such") {
  const std::string event =
      event_of_metrics({{"step", 1}, {"loss", std::numeric_limits<double>::quiet_NaN()}}, kTime);
  CHECK(hex(event).find("6c6f7373150000c07f") != std::string::npos);
}

}  // namespace starling::peer
