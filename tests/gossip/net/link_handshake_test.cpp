// Handshakes that come to nothing, and what a recording of a good one is worth. Whoever made them
// is counted and told.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "gossip/net/link.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"
#include "tests/gossip/net/tcp_recorder.h"

namespace starling::gossip {
namespace {

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const PeerId kAnna = kAnnaKey.id();
const PeerId kBert = kBertKey.id();

// Turns all of them until `done` holds.
template <class Done>
bool serve_until(std::initializer_list<ZmqLink*> links, Done&& done) {
  return eventually([&] {
    for (ZmqLink* link : links) {
      link->flush(steady_now());
      static_cast<void>(link->try_receive(steady_now()));
    }
    return done();
  });
}

}  // namespace

TEST_CASE("who is no peer, or is not let in, is counted, and who is let in is not") {
  LinkConfig config = link_config(kBertKey);
  config.allow.emplace();
  config.allow->add(kAnnaKey.key());
  ZmqLink bert = ZmqLink::open(config).value();
  ZmqLink anna = open_link(kAnnaKey);
  const PeerAddress address = bert.local_address();
  CHECK(bert.stats().callers.unfinished == 0);
  REQUIRE(connect(anna, address));
  const auto anna_gets_through = [&] {
    const std::uint64_t before = bert.stats().control.frames_in;
    return anna.try_send_control(kBert, ping(1)) == Sending::kSent &&
           serve_until({&anna, &bert}, [&] { return bert.stats().control.frames_in > before; });
  };
  REQUIRE(anna_gets_through());
  CHECK(bert.stats().callers.unfinished == 0);
  std::uint64_t ended = 0;
  const auto is_counted = [&] {
    ++ended;
    return serve_until({&bert}, [&] { return bert.stats().callers.unfinished == ended; });
  };
  for (const std::uint16_t port : {address.control_port, address.bulk_port}) {
    RawConnection(port).send(std::vector<std::byte>(100, std::byte{'x'}));  // another protocol
    CHECK(is_counted());
    RawConnection(port).send(std::vector<std::byte>(3, std::byte{0xff}));  // and no more
    CHECK(is_counted());
  }
  ZmqLink cleo = open_link(test_identity(33));  // is not on the list
  REQUIRE(connect(cleo, address));
  CHECK(serve_until({&bert, &cleo}, [&] { return bert.stats().callers.unfinished > ended; }));
  CHECK(anna_gets_through());
}

TEST_CASE("a plain connection without keys is not heard") {
  ZmqLink bert = open_link(kBertKey);
  const PeerAddress address = bert.local_address();
  zmq::context_t context{1};
  zmq::socket_t plain{context, zmq::socket_type::dealer};
  plain.set(zmq::sockopt::linger, 0);
  plain.connect(tcp(address, address.control_port));
  const auto frame = encode(kAnna, ping(1));
  static_cast<void>(plain.send(zmq::buffer(frame.data(), frame.size()), zmq::send_flags::dontwait));
  std::vector<Arrival> heard;
  static_cast<void>(eventually(
      [&] {
        while (auto arrival = bert.try_receive(steady_now())) heard.push_back(*std::move(arrival));
        return false;
      },
      0.3));
  CHECK(heard.empty());
  CHECK(bert.stats().control.frames_in == 0);
  CHECK(bert.stats().callers.unfinished >= 1);
}

TEST_CASE("a recorded connection says nothing when it is played again") {
  ZmqLink bert = open_link(kBertKey);
  ZmqLink anna = open_link(kAnnaKey);
  TcpRecorder recorder(bert.local_address().control_port);
  PeerAddress through = bert.local_address();
  through.control_port = recorder.port();
  REQUIRE(connect(anna, through));
  for (std::uint64_t nonce = 1; nonce <= 5; ++nonce) {
    REQUIRE(anna.try_send_control(kBert, ping(nonce)) == Sending::kSent);
  }
  std::uint64_t heard = 0;
  REQUIRE(eventually([&] {
    recorder.pump();
    anna.flush(steady_now());
    heard += bert.try_receive(steady_now()).has_value();
    return heard == 5;
  }));
  const std::vector<std::byte> capture = recorder.recorded();
  REQUIRE(capture.size() > 5 * kHeaderBytes);

  // As it was; and its messages behind the handshake of a fresh connection of the same peer.
  RawConnection replay(bert.local_address().control_port);
  replay.send(capture);
  PeerAddress again = through;
  TcpRecorder splicing(bert.local_address().control_port);
  again.control_port = splicing.port();
  ZmqLink second = open_link(kAnnaKey);
  REQUIRE(connect(second, again));
  REQUIRE(second.try_send_control(kBert, ping(6)) == Sending::kSent);
  REQUIRE(eventually([&] {
    splicing.pump();
    second.flush(steady_now());
    heard += bert.try_receive(steady_now()).has_value();
    return heard == 6;
  }));
  const std::size_t one_message = splicing.last_chunk().size();
  splicing.inject(std::span(capture).last(one_message));  // of the old connection
  splicing.inject(splicing.last_chunk());                 // the very last of this one
  std::vector<Arrival> more;
  static_cast<void>(eventually(
      [&] {
        splicing.pump();
        while (auto arrival = bert.try_receive(steady_now())) more.push_back(*std::move(arrival));
        return false;
      },
      0.5));
  CHECK(more.empty());
  CHECK(bert.stats().control.frames_in == 6);
  CHECK(bert.stats().callers.unfinished >= 1);  // of the whole replay, which is told
}

TEST_CASE("a handshake that was altered lets nobody in") {
  ZmqLink bert = open_link(kBertKey);
  ZmqLink anna = open_link(kAnnaKey);
  TcpRecorder recorder(bert.local_address().control_port);
  PeerAddress through = bert.local_address();
  through.control_port = recorder.port();
  REQUIRE(connect(anna, through));
  REQUIRE(anna.try_send_control(kBert, ping(1)) == Sending::kSent);
  REQUIRE(eventually([&] {
    recorder.pump();
    anna.flush(steady_now());
    return bert.try_receive(steady_now()).has_value();
  }));
  constexpr std::uint64_t kAltered = 150;
  for (std::uint64_t seed = 0; seed < kAltered; ++seed) {
    Rng rng(seed);
    std::vector<std::byte> bytes = recorder.recorded();
    const std::size_t place = rng.below(bytes.size());
    switch (seed % 3) {
      case 0: bytes[place] ^= std::byte{static_cast<unsigned char>(1 + rng.below(255))}; break;
      case 1: bytes.resize(place); break;
      default: bytes.insert(bytes.begin(), bytes.begin(), bytes.begin() + 64);  // greets twice
    }
    RawConnection(bert.local_address().control_port).send(bytes);
  }
  CHECK(eventually([&] {
    CHECK_FALSE(bert.try_receive(steady_now()).has_value());
    return bert.stats().callers.unfinished == kAltered;
  }));
  REQUIRE(anna.try_send_control(kBert, ping(2)) == Sending::kSent);
  CHECK(eventually([&] {
    recorder.pump();
    anna.flush(steady_now());
    return bert.try_receive(steady_now()).has_value();
  }));
  CHECK(bert.stats().callers.unfinished == kAltered);
}

TEST_CASE("a connection that never finishes its handshake holds up nobody and is ended") {
  ZmqLink bert = open_link(kBertKey);
  ZmqLink anna = open_link(kAnnaKey);
  std::vector<std::unique_ptr<RawConnection>> slow;
  const std::array<std::byte, 1> first{std::byte{0xFF}};
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<RawConnection>(bert.local_address().control_port));
    slow.back()->send(first);
  }
  REQUIRE(connect(anna, bert.local_address()));
  REQUIRE(anna.try_send_control(kBert, ping(1)) == Sending::kSent);
  CHECK(wait_for_arrival(bert, anna).has_value());
  CHECK(eventually([&] { return slow.front()->ended() && slow.back()->ended(); }, 20));
  CHECK(eventually([&] {
    static_cast<void>(bert.try_receive(steady_now()));
    return bert.stats().callers.unfinished == slow.size();
  }));
}

}  // namespace starling::gossip
