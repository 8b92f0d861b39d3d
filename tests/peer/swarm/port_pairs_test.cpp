#include "peer/swarm/port_pairs.h"

#include <doctest/doctest.h>

#include <set>

namespace starling::peer {

TEST_CASE("free ports are pairs, distinct, and below those of outgoing connections") {
  for (std::uint64_t salt = 0; salt < 5; ++salt) {
    CAPTURE(salt);
    auto ports = find_port_pairs(20, salt);
    REQUIRE(ports.ok());
    std::set<int> used;
    for (const std::uint16_t port : ports.value()) {
      used.insert({port, port + 1});
      CHECK(port >= 20'000);
      CHECK(port + 1 < 32'768);
    }
    CHECK(used.size() == 40);
  }
}

TEST_CASE("more pairs of ports than there are is an error") {
  auto ports = find_port_pairs(7000, 1);
  REQUIRE_FALSE(ports.ok());
  CHECK(ports.error().code() == ErrorCode::kUnavailable);
}

}  // namespace starling::peer
