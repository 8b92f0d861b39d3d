// One frame of every type as it was when its version of the wire was young. A peer of an older
// program is out there: what it is sent must keep its bytes for good.
//
// goldens/frames.txt has a line "TYPE VERSION HEX" with a whole frame of the newest version, and a
// line "TYPE VERSION =DIGEST" with the XXH3 of the same message in each older one. A line is never
// changed: a new type or version gets new ones, which the last test here prints (it is skipped
// unless asked for: gossip_wire_tests -ns -tc="*golden lines*").
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "base/hash.h"
#include "tests/gossip/random_messages.h"
#include "tests/gossip/wire/canonical_frame.h"

namespace starling::gossip {
namespace {

using Bytes = std::vector<std::byte>;
using Place = std::pair<std::size_t, int>;  // type and version

constexpr std::size_t kTypes = std::variant_size_v<Message>;
constexpr std::size_t kBytesWanted = 700;  // enough for an entry or two in every list

std::string hex_of(const Bytes& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4U];
    text += "0123456789abcdef"[static_cast<unsigned>(byte) & 15U];
  }
  return text;
}

Bytes bytes_of(const std::string& hex) {
  Bytes bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(at, 2), nullptr, 16)));
  }
  return bytes;
}

std::string digest_of(const Bytes& frame) {
  char text[18];
  std::snprintf(text, sizeof text, "=%016llx", static_cast<unsigned long long>(digest(frame)));
  return text;
}

Bytes frame_in(const Frame& frame, std::uint8_t version) {
  Frame other = frame;
  other.version = version;
  return encoded_again(other);
}

std::map<Place, std::string> read_goldens() {
  std::map<Place, std::string> goldens;
  std::ifstream file(STARLING_FRAMES);
  REQUIRE(file.good());
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Place place;
    std::string golden;
    REQUIRE((words >> place.first >> place.second >> golden));
    REQUIRE(goldens.emplace(place, golden).second);
  }
  return goldens;
}

}  // namespace

TEST_CASE("every message has the bytes that it had when its version was young") {
  const auto goldens = read_goldens();
  CHECK(goldens.size() == kTypes * kVersions.max);
  for (std::size_t type = 1; type <= kTypes; ++type) {
    Bytes newest;  // with bytes of its own
    for (int version = kVersions.max; version >= kVersions.min; --version) {
      CAPTURE(type);
      CAPTURE(version);
      const auto found = goldens.find({type, version});
      REQUIRE(found != goldens.end());
      const bool whole = found->second.front() != '=';
      if (whole) newest = bytes_of(found->second);
      auto frame = decode(newest);
      REQUIRE(frame.ok());
      CHECK(frame.value().message.index() + 1 == type);
      const Bytes now = frame_in(frame.value(), static_cast<std::uint8_t>(version));
      CHECK((whole ? hex_of(now) : digest_of(now)) == found->second);
    }
  }
}

TEST_CASE("golden lines of all that the program can say" * doctest::skip()) {
  for (std::size_t type = 0; type < kTypes; ++type) {
    Bytes frame;
    const auto far_off = [](const Bytes& bytes) {
      const std::size_t size = bytes.size();
      return size < kBytesWanted ? kBytesWanted - size : size - kBytesWanted;
    };
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const Bytes payload{std::byte{1}, std::byte{2}, std::byte{3}};
      const Message message = RandomMessages(seed).of_type(type);
      const Frame drawn{
          PeerId{seed + 7}, kVersions.max, message,
          is_bulk(message) ? std::span<const std::byte>(payload) : std::span<const std::byte>()};
      const Bytes bytes = encoded_again(drawn);
      if (frame.empty() || far_off(bytes) < far_off(frame)) frame = bytes;
    }
    auto decoded = decode(frame);
    REQUIRE(decoded.ok());
    std::printf("%zu %d %s\n", type + 1, int{kVersions.max}, hex_of(frame).c_str());
    for (int version = kVersions.max - 1; version >= kVersions.min; --version) {
      const Bytes older = frame_in(decoded.value(), static_cast<std::uint8_t>(version));
      std::printf("%zu %d %s\n", type + 1, version, digest_of(older).c_str());
    }
  }
}

}  // namespace starling::gossip
