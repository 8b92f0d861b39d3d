#include "gossip/net/trust.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "gossip/net/identity.h"

namespace starling::gossip {
namespace {

SwarmSecret secret_of(const std::string& text) {
  return SwarmSecret(std::as_bytes(std::span(text)));
}

}  // namespace

TEST_CASE("an allow-list has a key a line, with names, comments and blank lines") {
  const PublicKey anna = Identity::draw().key();
  const PublicKey bert = Identity::draw().key();
  const PublicKey cleo = Identity::draw().key();
  auto list = parse_allow_list("# our machines\n\n" + to_string(anna) + "\r\n  " + to_string(bert) +
                               "\tbert's tower # in the cellar\n" + to_string(anna));
  REQUIRE(list.ok());
  CHECK(list.value().size() == 2);
  CHECK(list.value().contains(anna));
  CHECK(list.value().contains(bert));
  CHECK(!list.value().contains(cleo));
  const std::map<PeerId, std::string> names = {{id_of(bert), "bert's tower"}};
  CHECK(list.value().names() == names);
  CHECK(parse_allow_list("").value().size() == 0);
}

TEST_CASE("a name in an allow-list is short, and printable") {
  const PublicKey anna = Identity::draw().key();
  auto list = parse_allow_list(to_string(anna) + " a\x1b[2J\xc3\xa9" + std::string(100, 'b'));
  REQUIRE(list.ok());
  CHECK(list.value().names().at(id_of(anna)) == "a?[2J??" + std::string(17, 'b'));
}

TEST_CASE("a bad line spoils the whole list and is named") {
  const std::string good = to_string(Identity::draw().key());
  for (const std::string& bad :
       {std::string("anna"), good.substr(1), good + "0", good + ",", std::string(64, '0'),
        std::string("\0", 1), std::string(100000, 'a')}) {
    auto list = parse_allow_list(good + "\n#\n" + bad + "\n" + good + "\n");
    REQUIRE(!list.ok());
    CHECK(list.error().code() == ErrorCode::kInvalidConfig);
    CHECK(list.error().message().find("line 3") == 0);
  }
}

TEST_CASE("a list longer than any swarm is refused") {
  std::string text;
  for (std::uint64_t id = 1; id <= AllowList::kKeysMax + 1; ++id) {
    text += to_string(stand_in_key(PeerId{id})) + "\n";
  }
  auto list = parse_allow_list(text);
  REQUIRE(!list.ok());
  CHECK(list.error().message().find("line 65537") == 0);
}

TEST_CASE("a proof holds between the two it names, in its run and for one secret") {
  const std::string text(32, 's');
  const SwarmSecret secret = secret_of(text);
  const PublicKey anna = Identity::draw().key();
  const PublicKey bert = Identity::draw().key();
  const PublicKey cleo = Identity::draw().key();
  const SecretProof proof = secret.prove({anna, bert, 5});
  CHECK(secret_of(text).holds(proof, {anna, bert, 5}));
  CHECK(!secret.holds(proof, {cleo, bert, 5}));  // said by another
  CHECK(!secret.holds(proof, {anna, cleo, 5}));  // said to another
  CHECK(!secret.holds(proof, {bert, anna, 5}));  // sent back
  CHECK(!secret.holds(proof, {anna, bert, 6}));
  CHECK(!secret.holds({}, {anna, bert, 5}));
  CHECK(!secret_of(std::string(33, 's')).holds(proof, {anna, bert, 5}));
  CHECK(!secret_of(std::string(31, 's') + "t").holds(proof, {anna, bert, 5}));
}

}  // namespace starling::gossip
