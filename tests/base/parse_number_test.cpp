#include "base/parse_number.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string_view>

namespace starling {

TEST_CASE("a text that is a number as a whole is that number") {
  CHECK(parse_number<int>("-17") == -17);
  CHECK(parse_number<int>("007") == 7);
  CHECK(parse_number<std::uint16_t>("65535") == 65535);
  CHECK(parse_number<double>("2.5") == 2.5);
  CHECK(parse_number<double>("-1e3") == -1000);
  CHECK(parse_number<int>(std::string_view("1234").substr(1, 2)) == 23);
  CHECK(std::isnan(parse_number<double>("nan").value()));
}

TEST_CASE("a text that is more or less than a number is none") {
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "1.0", "-", "0x10", "1e3"}) {
    CAPTURE(text);
    CHECK(!parse_number<int>(text));
  }
  for (const char* text : {"", " 1", "1 ", "+1", "1x", ".", "1e", "1,5"}) {
    CAPTURE(text);
    CHECK(!parse_number<double>(text));
  }
  CHECK(!parse_number<int>(std::string_view("1\0", 2)));
}

TEST_CASE("a number that its type cannot hold is none") {
  CHECK(!parse_number<std::uint16_t>("65536"));
  CHECK(!parse_number<std::uint16_t>("-1"));
  CHECK(!parse_number<std::int8_t>("-129"));
  CHECK(!parse_number<double>("1e999"));
}

}  // namespace starling
