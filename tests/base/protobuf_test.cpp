#include "base/protobuf.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace starling::protobuf {

namespace {

// All of a literal, zeros too.
template <std::size_t kSize>
std::string bytes_of(const char (&text)[kSize]) {
  return {text, kSize - 1};
}

}  // namespace

TEST_CASE("fields are written as the encoding guide of protocol buffers writes them") {
  std::string number, bytes, message;
  append_number(1, 150, number);
  CHECK(number == "\x08\x96\x01");
  append_bytes(2, "testing", bytes);
  CHECK(bytes == "\x12\x07testing");
  append_bytes(3, number, message);
  CHECK(message == "\x1a\x03\x08\x96\x01");
}

TEST_CASE("floats are four bytes and doubles eight, the lowest first") {
  std::string single, twice;
  append_float(2, -1.5F, single);
  CHECK(single == bytes_of("\x15\0\0\xc0\xbf"));
  append_double(1, -1.5, twice);
  CHECK(twice == bytes_of("\x09\0\0\0\0\0\0\xf8\xbf"));
}

TEST_CASE("numbers of every length are written, and fields are appended to what is there") {
  std::string out = "x";
  append_number(1, 0, out);
  append_number(15, 127, out);
  append_number(16, 128, out);  // the tag has two bytes from here on
  CHECK(out == bytes_of("x\x08\0\x78\x7f\x80\x01\x80\x01"));
  std::string longest;
  append_number(1, std::numeric_limits<std::uint64_t>::max(), longest);
  CHECK(longest == "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  std::string empty;
  append_bytes(1, "", empty);
  CHECK(empty == bytes_of("\x0a\0"));
}

}  // namespace starling::protobuf
