#include "gossip/public_key.h"

#include <doctest/doctest.h>

namespace starling::gossip {
namespace {

constexpr std::string_view kKey =
    "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";

}  // namespace

TEST_CASE("a key is shown as it is read and an id is its beginning") {
  const auto key = parse_public_key(kKey);
  REQUIRE(key.has_value());
  CHECK(id_of(*key).value == 0x3d4017c3e843895a);
  CHECK(to_string(*key) == kKey);
  CHECK(to_string(id_of(*key)) == kKey.substr(0, 16));
  CHECK(to_string(PeerId{7}) == "0000000000000007");
  CHECK(id_of(stand_in_key(PeerId{7})) == PeerId{7});
}

TEST_CASE("what is no key is not read as one") {
  const std::string good = std::string(kKey);
  REQUIRE(parse_public_key(good).has_value());
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK(!parse_public_key(good.substr(0, size)).has_value());
  }
  CHECK(!parse_public_key(good + "0").has_value());
  for (const char letter : {'g', 'A', ' ', '\0'}) {
    std::string bad = good;
    bad[20] = letter;
    CHECK(!parse_public_key(bad).has_value());
  }
  std::string with_sign = good;
  with_sign[62] = 'f';
  CHECK(!parse_public_key(with_sign).has_value());
  CHECK(!parse_public_key(std::string(64, '0')).has_value());  // nobody
}

}  // namespace starling::gossip
