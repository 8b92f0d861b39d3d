#include "base/protobuf.h"

#include <bit>

namespace starling::protobuf {

namespace {

enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_varint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void append_tag(std::uint64_t field, WireType type, std::string& out) {
  append_varint(field << 3 | type, out);
}

}  // namespace

void append_number(std::uint64_t field, std::uint64_t value, std::string& out) {
  append_tag(field, kVarint, out);
  append_varint(value, out);
}

void append_float(std::uint64_t field, float value, std::string& out) {
  append_tag(field, kFixed32, out);
  append_fixed(std::bit_cast<std::uint32_t>(value), out);
}

void append_double(std::uint64_t field, double value, std::string& out) {
  append_tag(field, kFixed64, out);
  append_fixed(std::bit_cast<std::uint64_t>(value), out);
}

void append_bytes(std::uint64_t field, std::string_view bytes, std::string& out) {
  append_tag(field, kBytes, out);
  append_varint(bytes.size(), out);
  out += bytes;
}

}  // namespace starling::protobuf
