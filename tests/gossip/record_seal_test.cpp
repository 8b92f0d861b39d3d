#include "gossip/record_seal.h"

#include <doctest/doctest.h>

#include <set>

#include "gossip/net/identity.h"

namespace starling::gossip {
namespace {

PeerRecord record_of(const Identity& identity) {
  PeerRecord record;
  record.key = record_key({identity.id(), 3}, 1);
  record.address.key = identity.key();
  REQUIRE(set_host(record.address, "host.example"));
  record.address.control_port = 7000;
  record.address.bulk_port = 7001;
  return record;
}

}  // namespace

TEST_CASE("every part of a record that its subject speaks for is under its signature") {
  const Identity identity = Identity::draw();
  const IdentitySeal seal(identity);
  const PeerRecord record = record_of(identity);
  std::set<std::vector<std::byte>> texts{sealed_text(1, record), sealed_text(2, record)};
  const auto add = [&](auto&& change) {
    PeerRecord changed = record;
    change(changed);
    texts.insert(sealed_text(1, changed));
  };
  add([](PeerRecord& r) { ++r.key.incarnation; });
  add([](PeerRecord& r) { ++r.address.control_port; });
  add([](PeerRecord& r) { ++r.address.bulk_port; });
  add([](PeerRecord& r) { std::swap(r.address.control_port, r.address.bulk_port); });
  add([](PeerRecord& r) { REQUIRE(set_host(r.address, "host.exampl")); });
  add([](PeerRecord& r) { r.dialable = false; });
  add([](PeerRecord& r) { r.health = Health::kLeft; });
  add([](PeerRecord& r) { r.forwards = true; });
  add([](PeerRecord& r) { REQUIRE(r.relays.try_push(PeerId{5})); });
  add([](PeerRecord& r) { r.address.key = Identity::draw().key(); });
  add([](PeerRecord& r) { REQUIRE(r.extension.try_push(0)); });
  add([](PeerRecord& r) { REQUIRE(r.extension.try_push(1)); });
  CHECK(texts.size() == 14);

  const Signature signature = seal.sign(sealed_text(1, record));
  for (const auto& text : texts) {
    CHECK(seal.verify(identity.key(), text, signature) == (text == sealed_text(1, record)));
  }
  CHECK_FALSE(seal.verify(Identity::draw().key(), sealed_text(1, record), signature));
}

TEST_CASE("what others say of a peer is not under its signature") {
  const PeerRecord record = record_of(Identity::draw());
  PeerRecord rumor = record;
  rumor.health = Health::kSuspect;
  rumor.accuser = PeerId{4};
  rumor.age_s = 9;
  CHECK(sealed_text(1, rumor) == sealed_text(1, record));
}

TEST_CASE("a stand-in differs for every subject and text") {
  const std::vector<std::byte> text(20, std::byte{1});
  const std::vector<std::byte> longer(21, std::byte{1});
  const StandInSeal seal(PeerId{7});
  const Signature signature = seal.sign(text);
  CHECK(seal.verify(stand_in_key(PeerId{7}), text, signature));
  CHECK_FALSE(seal.verify(stand_in_key(PeerId{8}), text, signature));
  CHECK_FALSE(seal.verify(stand_in_key(PeerId{7}), longer, signature));
}

}  // namespace starling::gossip
