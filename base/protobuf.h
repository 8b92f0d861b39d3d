// Fields of a protocol buffer, appended to the message `out`: what formats of others that are made
// of such messages need to be written (protobuf.dev/programming-guides/encoding). A message within
// a message is written by itself first and then appended as bytes. Nothing is checked: number a
// field as its format does, from 1. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace starling::protobuf {

// Without a field: the lowest byte first, as fixed numbers of protocol buffers are written.
template <class Unsigned>
void append_fixed(Unsigned value, std::string& out) {
  for (unsigned i = 0; i < sizeof(value); ++i) out.push_back(static_cast<char>(value >> 8 * i));
}

void append_number(std::uint64_t field, std::uint64_t value, std::string& out);
void append_float(std::uint64_t field, float value, std::string& out);
void append_double(std::uint64_t field, double value, std::string& out);
void append_bytes(std::uint64_t field, std::string_view bytes, std::string& out);

}  // namespace starling::protobuf
