#include "peer/swarm/port_pairs.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/peer/resource_limit.h"

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

TEST_CASE("more pairs of ports than there are is an error, and takes none") {
  auto ports = find_port_pairs(6001, 1);
  REQUIRE_FALSE(ports.ok());
  CHECK(ports.error().code() == ErrorCode::kUnavailable);
  CHECK(ports.error().message().find("more than the 6000") != std::string::npos);
}

TEST_CASE("a search that runs out of descriptors is an error, and lets go of what it held") {
  {
    const starling::testing::ResourceLimit limit(RLIMIT_NOFILE, 16);
    auto ports = find_port_pairs(20, 1);
    REQUIRE_FALSE(ports.ok());
    CHECK(ports.error().code() == ErrorCode::kUnavailable);
  }
  CHECK(find_port_pairs(20, 1).ok());
}

}  // namespace starling::peer
