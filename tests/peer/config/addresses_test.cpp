#include "peer/config/addresses.h"

#include <doctest/doctest.h>

#include "tests/peer/config/config_texts.h"

namespace starling::peer {

TEST_CASE("a seed is read as it is logged") {
  const std::string text = seed("[::1]:2");
  auto address = parse_seed(text);
  REQUIRE(address.ok());
  CHECK(to_seed(address.value()) == text);
  CHECK(gossip::id_of(address.value().key) == PeerId{1});
  for (const std::string bad : {"a:1", "@a:1", "0123@a:1"}) CHECK(!parse_seed(bad).ok());
  CHECK(!parse_seed(text + "x").ok());
  CHECK(!parse_seed(text.substr(1)).ok());
  CHECK(!parse_seed(std::string(64, '0') + "@a:1").ok());
}

TEST_CASE("addresses are a host and a port, with brackets around IPv6") {
  auto plain = parse_address("example.org:7700", 0);
  REQUIRE(plain.ok());
  CHECK(gossip::host(plain.value()) == "example.org");
  CHECK(plain.value().control_port == 7700);
  CHECK(plain.value().bulk_port == 7701);
  auto literal = parse_address("[::1]:5", 9);
  REQUIRE(literal.ok());
  CHECK(gossip::host(literal.value()) == "::1");
  CHECK(literal.value().bulk_port == 9);
  auto any = parse_address("127.0.0.1:0", 0);
  REQUIRE(any.ok());
  CHECK(any.value().bulk_port == 0);
  for (const std::string_view text :
       {"", ":1", "a", "a:", "a:x", "a:1x", "a:65536", "a:65535", "a:-1", "::1:5", "[]:5", "-:5",
        "*:5", "[a:b]:5", "[::1%]:5", "a b:5"}) {
    CAPTURE(text);
    CHECK(!parse_address(text, 0).ok());
  }
}

}  // namespace starling::peer
