// Who is named for a frame that was dropped, and for what.
#include <doctest/doctest.h>

#include "gossip/message_meter.h"
#include "gossip/net/envelope.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const PeerId kAnna = kAnnaKey.id();
const PeerId kBert = kBertKey.id();

}  // namespace

TEST_CASE(
    "who sends what is too large, in parts or in another's name is named, as often as he does") {
  ZmqLink bert = open_link(kBertKey);
  const PeerAddress address = bert.local_address();
  BareSender control(address, address.control_port, kAnnaKey);
  const std::vector<std::byte> good = encode(kAnna, ping(1));
  control.send(std::vector<std::byte>(kControlFrameBytesMax + 1));
  control.send(good, zmq::send_flags::sndmore);
  control.send(good);
  control.send(encode(kBert, ping(2)));
  CHECK(eventually([&] {
    CHECK(!bert.try_receive(steady_now()).has_value());
    return bert.stats().forged == 1;
  }));
  CHECK(bert.take_bad_frames() == std::vector<BadFrame>{{kAnna, RejectReason::kOversized},
                                                        {kAnna, RejectReason::kSeveralParts},
                                                        {kAnna, RejectReason::kOthersName}});
  CHECK(bert.stats().oversized == 1);
  CHECK(bert.stats().multipart == 1);
  // All of their bytes were read, and count against the owner's limits.
  CHECK(bert.stats().control.frames_in == 3);
  CHECK(bert.stats().control.bytes_in ==
        kControlFrameBytesMax + 1 + 2 * good.size() + encode(kBert, ping(2)).size());
}

TEST_CASE("what was on its way to another life of this peer is told from damage and from lies") {
  LinkConfig older = link_config(kBertKey);
  older.run.versions = {1, kVersions.max - 1};
  auto bert = ZmqLink::open(older);
  REQUIRE(bert.ok());
  const PeerAddress address = bert.value().local_address();
  BareSender control(address, address.control_port, kAnnaKey);
  std::vector<std::byte> damaged = encode(kAnna, ping(2), 1);
  damaged.back() ^= std::byte{1};
  control.send(encode(kAnna, ping(1), kVersions.max));
  control.send(damaged);
  control.send({});
  CHECK(eventually([&] {
    CHECK(!bert.value().try_receive(steady_now()).has_value());
    return bert.value().stats().control.frames_in == 3;
  }));
  CHECK(bert.value().take_bad_frames() == std::vector<BadFrame>{
                                              {kAnna, RejectReason::kOtherVersion},
                                              {kAnna, RejectReason::kDamaged},
                                              {kAnna, RejectReason::kMalformed},
                                          });
  const LinkStats& stats = bert.value().stats();
  CHECK(stats.other_version == 1);
  CHECK(stats.damaged == 1);
  CHECK(stats.malformed == 1);
}

TEST_CASE(
    "who greets at the port of weights has mistyped a seed, and is not to blame for a while") {
  ZmqLink bert = open_link(kBertKey);
  const PeerAddress address = bert.local_address();
  BareSender sender(address, address.bulk_port, kAnnaKey);
  Hello hello{.self = {.key = {kAnna, 5}, .address = address}, .identity = {}};
  hello.self.address.key = kAnnaKey.key();
  const auto dropped = [&](std::uint64_t count) {
    return eventually([&] {
      CHECK(!bert.try_receive(steady_now()).has_value());
      return bert.stats().malformed == count;
    });
  };
  for (int i = 0; i < 20; ++i) sender.send(encode(kAnna, hello));
  CHECK(dropped(20));
  CHECK(bert.take_bad_frames().empty());
  sender.send(encode(kAnna, ping(1)));
  CHECK(dropped(21));
  CHECK(bert.take_bad_frames() == std::vector<BadFrame>{{kAnna, RejectReason::kMalformed}});

  // Who is connected has no reason to go on with it.
  PeerAddress anna = address;
  anna.key = kAnnaKey.key();
  REQUIRE(connect(bert, anna));
  for (int i = 0; i < 20; ++i) sender.send(encode(kAnna, hello));
  CHECK(dropped(41));
  CHECK(bert.take_bad_frames().size() == 16);
}

TEST_CASE(
    "frames that ask for nothing are let pass, and many payloads of one member are too many") {
  ZmqLink bert = open_link(kBertKey);
  const PeerAddress address = bert.local_address();
  PeerAddress anna = address;
  anna.key = kAnnaKey.key();
  REQUIRE(connect(bert, anna));
  constexpr auto kBorne = static_cast<std::uint64_t>(MessageMeter::kTalk.at_once);
  BareSender sender(address, address.bulk_port, kAnnaKey);
  const auto send_all = [&](const std::vector<std::byte>& frame) {
    const std::uint64_t before = bert.stats().bulk.frames_in;
    for (std::uint64_t i = 0; i < kBorne + 100; ++i) sender.send(frame);
    REQUIRE(eventually([&] {
      CHECK(!bert.try_receive(steady_now()).has_value());
      return bert.stats().bulk.frames_in == before + kBorne + 100;
    }));
  };
  send_all(encode(kAnna, BulkHello{}));  // a sound peer sends one with each exchange
  CHECK(bert.take_bad_frames().empty());

  Sealer sealer(kAnnaKey, 1);
  const auto frame = encode(kAnna, ping(1));
  std::vector<std::byte> envelope(frame.size() + kEnvelopeBytes);
  REQUIRE(sealer.seal({test_identity(33).key(), 1}, true, frame, envelope));
  send_all(envelope);
  CHECK(bert.stats().relayed.unasked == kBorne + 100);
  const auto named = bert.take_bad_frames();
  CHECK(named.size() >= 10);  // some more were borne while they came
  for (const BadFrame& one : named) CHECK(one == BadFrame{kAnna, RejectReason::kTooMany});
}

TEST_CASE("an envelope that its own sender brings is nothing that a sound peer sends") {
  ZmqLink bert = open_link(kBertKey);
  const PeerAddress address = bert.local_address();
  Sealer sealer(kAnnaKey, 1);
  const auto frame = encode(kAnna, ping(1));
  std::vector<std::byte> envelope(frame.size() + kEnvelopeBytes);
  REQUIRE(sealer.seal({kBertKey.key(), 1}, false, frame, envelope));
  BareSender sender(address, address.control_port, kAnnaKey);
  sender.send(envelope);
  CHECK(eventually([&] {
    CHECK(!bert.try_receive(steady_now()).has_value());
    return bert.stats().malformed == 1;
  }));
  CHECK(bert.take_bad_frames() == std::vector<BadFrame>{{kAnna, RejectReason::kMalformed}});
}

}  // namespace starling::gossip
