#include "gossip/net/link_limit.h"

#include <doctest/doctest.h>

#include <string>

namespace starling::gossip {
namespace {

constexpr Instant kStart{std::chrono::hours(5)};

int admitted(HandshakeLimit& limit, Instant now, std::string_view host, int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) count += limit.admit(now, host);
  return count;
}

}  // namespace

TEST_CASE("a network has its burst and then its rate, and the next network its own") {
  HandshakeLimit limit(HandshakeLimit::kStrangers);
  CHECK(admitted(limit, kStart, "192.0.2.1", 150) == 100);
  CHECK(admitted(limit, kStart, "192.0.2.200", 50) == 0);  // the same /24
  CHECK(admitted(limit, kStart, "::ffff:192.0.2.3", 50) == 0);
  CHECK(admitted(limit, kStart, "192.0.3.1", 50) == 50);
  CHECK(admitted(limit, kStart + std::chrono::seconds(2), "192.0.2.1", 50) == 10);
  CHECK(admitted(limit, kStart + std::chrono::seconds(3600), "192.0.2.1", 150) == 100);
}

TEST_CASE("a flood from one network does not shut out the next") {
  HandshakeLimit limit(HandshakeLimit::kStrangers);
  CHECK(admitted(limit, kStart, "192.0.2.1", 10'000) == 100);
  CHECK(admitted(limit, kStart, "192.0.3.1", 50) == 50);
}

TEST_CASE("a network of IPv6 is its first 56 bits") {
  HandshakeLimit limit(HandshakeLimit::kStrangers);
  CHECK(admitted(limit, kStart, "2001:db8:0:12ff::1", 150) == 100);
  CHECK(admitted(limit, kStart, "2001:db8:0:1200::9", 10) == 0);
  CHECK(admitted(limit, kStart, "2001:db8:0:1300::9", 10) == 10);
}

TEST_CASE("this machine is held by the limit for all only") {
  HandshakeLimit limit(HandshakeLimit::kStrangers);
  CHECK(admitted(limit, kStart, "127.0.0.1", 150) == 150);
  CHECK(admitted(limit, kStart, "::1", 150) == 150);
  CHECK(admitted(limit, kStart, "::ffff:127.0.0.1", 150) == 100);
  CHECK(admitted(limit, kStart + std::chrono::seconds(1), "127.0.0.1", 500) == 200);
}

TEST_CASE("a thousand peers behind one address can all open their connections at once") {
  HandshakeLimit limit(HandshakeLimit::kCallers);
  CHECK(admitted(limit, kStart, "192.0.2.1", 2000) == 2000);
  CHECK(admitted(limit, kStart, "192.0.2.1", 10'000) == 48);
  CHECK(admitted(limit, kStart, "192.0.3.1", 2000) == 2000);
  CHECK(admitted(limit, kStart + std::chrono::seconds(20), "192.0.2.1", 2000) == 1000);
}

TEST_CASE("a flood from everywhere is bounded in memory and over when it is over") {
  HandshakeLimit limit(HandshakeLimit::kStrangers);
  Instant now = kStart;
  int count = 0;
  for (int i = 0; i < 4000; ++i) {
    now += std::chrono::milliseconds(5);
    const std::string host = std::to_string(1 + i / 200) + "." + std::to_string(i % 200) + ".0.1";
    count += limit.admit(now, host);
  }
  CHECK(count == 4000);  // each network is forgotten as soon as it is quiet
  CHECK(admitted(limit, now, "not an address", 150) == 100);  // all such are one network
}

}  // namespace starling::gossip
