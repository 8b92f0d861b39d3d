#include "gossip/net/link_rate.h"

#include <doctest/doctest.h>

namespace starling::gossip {

TEST_CASE("a machine carries payloads to itself, in the clear and enciphered") {
  for (const Cipher cipher : {Cipher::kNone, Cipher::kCurve}) {
    auto rate = loopback_rate(cipher, std::chrono::milliseconds(50));
    REQUIRE(rate.ok());
    CHECK(rate.value() > 0);
  }
}

}  // namespace starling::gossip
