// What others can do with the connections that they open to us: real sockets, hostile hands.
#include "gossip/net/link_callers.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gossip/wire/wire.h"
#include "tests/gossip/net/curve_caller.h"
#include "tests/gossip/net/link_host.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const Identity kCleoKey = test_identity(33);
const Identity kDoraKey = test_identity(44);
const PeerId kBert = kBertKey.id();

// A message of `guest` gets to `host`.
bool gets_through(Host& host, Host& guest, PeerId guest_id) {
  const int before = host.heard[guest_id];
  if (guest.link.try_send_control(kBert, ping(1)) != Sending::kSent) return false;
  return serve_until({&host, &guest}, [&] { return host.heard[guest_id] > before; });
}

CurveCaller call(const ZmqLink& link, const Identity& self, bool bulk = false) {
  const PeerAddress& address = link.local_address();
  return {bulk ? address.bulk_port : address.control_port, self, address.key};
}

// Lets `caller` in, and hears one message of it.
bool introduce(Host& host, CurveCaller& caller, const Identity& self) {
  if (!serve_until({&host}, [&] { return caller.step(); })) return false;
  const int before = host.heard[self.id()];
  if (!caller.send(text_of(encode(self.id(), ping(1))), false)) return false;
  return serve_until({&host}, [&] {
    caller.step();
    return host.heard[self.id()] > before;
  });
}

// Of somebody who only calls.
PeerAddress without_address(const Identity& identity) {
  PeerAddress address;
  address.key = identity.key();
  return address;
}

std::size_t descriptors() {
  using Files = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Files("/proc/self/fd"), Files()));
}

// As a peer does when it starts; false: this machine does not allow so many.
bool may_open(rlim_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < count) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, count);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

AllowList only(std::initializer_list<const Identity*> members) {
  AllowList list;
  for (const Identity* member : members) list.add(member->key());
  return list;
}

}  // namespace

TEST_CASE("a message that never ends is ended before it fills memory, and others are heard") {
  Host bert(kBertKey), anna(kAnnaKey);
  REQUIRE(connect(anna.link, bert.link.local_address()));
  REQUIRE(gets_through(bert, anna, kAnnaKey.id()));
  bool bulk = false;
  SUBCASE("on the control lane") {}
  SUBCASE("on the bulk lane") { bulk = true; }
  CurveCaller cleo = call(bert.link, kCleoKey, bulk);
  REQUIRE(serve_until({&bert}, [&] { return cleo.step(); }));

  constexpr double kMost = 1000;  // MiB: it would hold them all
  const std::string part(bulk ? 1 << 20 : 1 << 14, 'x');
  const double before = resident_mib();
  double peak = before;
  double sent_mib = 0;
  bool heard = true;
  while (!cleo.ended() && sent_mib < kMost && heard) {
    for (const Instant next = steady_now() + std::chrono::milliseconds(5); steady_now() < next;) {
      if (cleo.send(part, true)) sent_mib += static_cast<double>(part.size()) / (1 << 20);
      bert.serve();
    }
    heard = gets_through(bert, anna, kAnnaKey.id());
    peak = std::max(peak, resident_mib());
  }
  MESSAGE("sent " << sent_mib << " MiB, grew by " << peak - before << " MiB");
  CHECK(heard);
  CHECK(cleo.ended());
  CHECK(bert.callers().greedy == 1);
  CHECK(sent_mib < kMost);
  CHECK(peak - before < kMost / 2);  // under a sanitizer, which keeps what is freed
  CHECK(serve_until({&bert}, [&] { return bert.callers().open == 1; }));
  CHECK(gets_through(bert, anna, kAnnaKey.id()));
  CHECK(bert.link.stats().multipart == 0);  // nothing of it ever arrived
}

TEST_CASE("a caller names its connection in vain: two of one name are both heard") {
  Host bert(kBertKey);
  const PeerAddress& address = bert.link.local_address();
  const std::string name("\0\0\0\0\x01", 5);  // of the form that a ROUTER gives by itself
  CurveCaller anna(address.control_port, kAnnaKey, address.key, name);
  CurveCaller cleo(address.control_port, kCleoKey, address.key, name);
  CHECK(introduce(bert, anna, kAnnaKey));
  CHECK(introduce(bert, cleo, kCleoKey));
}

TEST_CASE("what strangers tell of themselves in the handshake counts as what they hold") {
  constexpr std::size_t kCallers = 80, kNameBytes = 1'000'000;
  Host bert(kBertKey);
  const PeerAddress& address = bert.link.local_address();
  const std::string name(kNameBytes, 'n');
  std::deque<CurveCaller> callers;
  for (std::size_t i = 0; i < kCallers; ++i) {
    const Identity self = test_identity(static_cast<std::uint8_t>(100 + i));
    callers.emplace_back(address.bulk_port, self, address.key, name);
    if (!serve_until({&bert}, [&] { return callers.back().step() || callers.back().ended(); })) {
      FAIL("caller " << i << " hangs");
    }
    callers.back().send(text_of(encode(self.id(), ping(1))), false);
  }
  CHECK(serve_until({&bert}, [&] {
    for (CurveCaller& caller : callers) caller.step();
    return bert.callers().open * kNameBytes <= Callers::kStrangersBytesMax;
  }));
  CHECK(bert.callers().greedy > 0);
}

TEST_CASE("what waits for us to read it is no offence, however long") {
  constexpr std::size_t kPayloadBytes = (1 << 20) - 4096;
  CpuDevice device;
  SlotPool pool(host_memory(device, 16 * (kBulkHeadBytes + kPayloadBytes)), 16);
  Host bert(kBertKey);
  {
    Host anna(kAnnaKey);
    REQUIRE(connect(anna.link, bert.link.local_address()));
    REQUIRE(connect(bert.link, anna.link.local_address(), false));  // else a stranger pours
    int sent = 0;
    const auto send_payload = [&] {
      auto slot = pool.try_acquire();
      if (!slot) return;
      const Piece head{.snapshot = {}, .piece = 1};
      sent += anna.link.try_send_bulk(kBert, head, slot, kPayloadBytes) == Sending::kSent;
    };
    // It does not read payloads at all, and then one now and then, and then all.
    const auto run = [&](double seconds, auto&& read) {
      static_cast<void>(eventually(
          [&] {
            anna.serve();
            send_payload();
            static_cast<void>(anna.link.try_send_control(kBert, ping(1)));
            read();
            return false;
          },
          seconds));
    };
    run(1.5, [&] { bert.serve(false); });
    CHECK(sent > 8);
    CHECK(bert.link.stats().bulk.frames_in == 0);
    Instant next;
    run(1.5, [&] {
      bert.serve(false);
      if (steady_now() < next) return;
      next = steady_now() + std::chrono::milliseconds(150);
      static_cast<void>(bert.link.try_receive(steady_now()));
    });
    // Not even control, for as long as a very slow loop takes.
    run(0.5, [&] { bert.link.watch(steady_now()); });
    CHECK(serve_until({&bert, &anna}, [&] {
      if (sent < 18) send_payload();
      return sent >= 18 && bert.link.stats().bulk.frames_in == static_cast<std::uint64_t>(sent);
    }));
    CHECK(bert.callers().greedy == 0);
    // Nor is it one later, when it is no member any more.
    bert.link.disconnect(kAnnaKey.id());
    static_cast<void>(serve_until(
        {&bert, &anna}, [] { return false; }, 0.3));
    CHECK(bert.callers().floods == 0);
    CHECK(bert.callers().open == 2);
    CHECK(gets_through(bert, anna, kAnnaKey.id()));
  }
  CHECK(eventually([&] { return pool.free_count() == 16; }));
}

TEST_CASE("a key that is taken off the list loses its connections, and the others keep theirs") {
  LinkConfig config = link_config(kBertKey);
  config.allow = only({&kAnnaKey, &kCleoKey});
  Host bert(config), anna(kAnnaKey);
  CurveCaller second = call(bert.link, kAnnaKey);
  CurveCaller cleo = call(bert.link, kCleoKey);
  REQUIRE(introduce(bert, second, kAnnaKey));
  REQUIRE(introduce(bert, cleo, kCleoKey));
  REQUIRE(connect(anna.link, bert.link.local_address()));
  REQUIRE(gets_through(bert, anna, kAnnaKey.id()));
  REQUIRE(connect(bert.link, without_address(kAnnaKey)));
  CHECK(bert.callers().open == 3);

  bert.link.set_allow_list(only({&kCleoKey}));
  CHECK(serve_until({&bert, &anna}, [&] { return second.ended(); }));
  CHECK(serve_until({&bert, &anna}, [&] { return bert.callers().open == 1; }));
  CHECK(bert.callers().unwelcome == 2);
  CHECK(anna.heard[kBert] == 1);  // the reason
  CHECK(introduce(bert, cleo, kCleoKey));
  // What came back is turned away at the door, and does not come in for a moment each time.
  CHECK(serve_until({&bert, &anna}, [&] {
    return anna.link.try_send_control(kBert, ping(9)) == Sending::kFailed;
  }));
  CHECK(bert.callers().unwelcome == 2);
}

TEST_CASE("one key has so many connections, and the longest silent make room") {
  Host bert(kBertKey);
  std::vector<CurveCaller> callers;
  for (std::size_t i = 0; i < Callers::kOfKeyMax + 5; ++i) {
    callers.push_back(call(bert.link, kCleoKey));
    REQUIRE(introduce(bert, callers.back(), kCleoKey));
  }
  CHECK(serve_until({&bert}, [&] { return bert.callers().open == Callers::kOfKeyMax; }));
  CHECK(bert.callers().crowded == 5);
  for (std::size_t i = 0; i < callers.size(); ++i) CHECK(callers[i].ended() == (i < 5));
}

TEST_CASE("two thousand hostile connections neither shut anybody out nor use up descriptors") {
  constexpr std::size_t kHostile = 2000;
  constexpr std::size_t kCallersMax = 128;
  if (!may_open(2 * kHostile + 1000)) {
    MESSAGE("skipped: fewer than 5000 descriptors");
    return;
  }
  LinkConfig config = link_config(kBertKey);
  config.callers_max = kCallersMax;
  Host bert(config), anna(kAnnaKey);
  REQUIRE(connect(anna.link, bert.link.local_address()));
  REQUIRE(gets_through(bert, anna, kAnnaKey.id()));
  REQUIRE(connect(bert.link, without_address(kAnnaKey)));
  const std::size_t before = descriptors();
  {
    std::vector<std::unique_ptr<RawConnection>> silent;
    std::vector<CurveCaller> strangers;
    std::set<std::uint64_t> open;
    while (silent.size() < kHostile) {
      for (int i = 0; i < 20; ++i) {
        const PeerAddress& address = bert.link.local_address();
        silent.push_back(
            std::make_unique<RawConnection>(i % 2 == 0 ? address.control_port : address.bulk_port));
      }
      if (strangers.size() < 200) {
        // As many keys as it likes, and each says something.
        strangers.push_back(call(
            bert.link, test_identity(static_cast<std::uint8_t>(100 + strangers.size() % 100))));
      }
      for (CurveCaller& stranger : strangers) stranger.step();
      bert.serve();
      anna.serve();
      open.insert(bert.callers().open);
    }
    CHECK(gets_through(bert, anna, kAnnaKey.id()));
    Host dora(kDoraKey);
    REQUIRE(connect(dora.link, bert.link.local_address()));
    CHECK(gets_through(bert, dora, kDoraKey.id()));
    REQUIRE(serve_until({&bert}, [&] { return bert.callers().open <= kCallersMax; }));
    const std::size_t own = silent.size() + strangers.size();
    CHECK(descriptors() - before - own < kCallersMax + 50);
    CHECK(bert.callers().crowded > kHostile - kCallersMax);
    MESSAGE("open at most " << *open.rbegin() << " of " << kCallersMax);
    CHECK(gets_through(bert, anna, kAnnaKey.id()));
  }
  CHECK(serve_until({&bert, &anna}, [&] { return bert.callers().open == 1; }));
  CHECK(eventually([&] { return descriptors() <= before; }));
  CHECK(bert.callers().greedy == 0);
}

TEST_CASE("who connects again and again without end is turned away before a handshake") {
  Host bert(kBertKey);
  const auto burst = static_cast<int>(HandshakeLimit::kCallers.all.burst);
  const Instant now = steady_now();  // however slow this machine is
  std::deque<RawConnection> open;
  for (int i = 0; i < burst + 1000; ++i) {
    open.emplace_back(bert.link.local_address().control_port);
    if (i % 10 != 0) continue;
    static_cast<void>(bert.link.try_receive(now));
    while (open.size() > 100) open.pop_front();
  }
  open.clear();
  CHECK(serve_until({&bert}, [&] { return bert.callers().open == 0; }));
  CHECK(bert.callers().hasty > 0);
  // There is room again at once, if not for all.
  Host anna(kAnnaKey);
  REQUIRE(connect(anna.link, bert.link.local_address()));
  CHECK(serve_until({&bert, &anna}, [&] {
    return anna.link.try_send_control(kBert, ping(1)) == Sending::kSent &&
           bert.heard[kAnnaKey.id()] > 0;
  }));
}

TEST_CASE("strangers together keep only so much") {
  Host bert(kBertKey);
  // Each holds less than would be too much for one: a frame that it began and does not end.
  constexpr std::size_t kCallers = 120;
  const std::string part((1 << 20) - 100, 'x');
  std::vector<CurveCaller> callers;
  for (std::size_t i = 0; i < kCallers; ++i) {
    const auto number = static_cast<std::uint8_t>(100 + i);
    callers.push_back(call(bert.link, test_identity(number), true));
    REQUIRE(serve_until({&bert}, [&] { return callers.back().step(); }));
    REQUIRE(callers.back().send(part, true));
  }
  std::size_t ended = 0;
  CHECK(serve_until({&bert}, [&] {
    ended = 0;
    for (CurveCaller& caller : callers) ended += caller.ended();
    return ended >= kCallers - (Callers::kStrangersBytesMax >> 20) - 2;
  }));
  CHECK(ended < kCallers);
  CHECK(bert.callers().greedy == ended);
}

TEST_CASE("what strangers kept is forgotten when the list turns them all away at once") {
  constexpr std::size_t kLarge = 63, kSmall = 6;
  LinkConfig config = link_config(kBertKey);
  config.allow = only({&kAnnaKey});
  for (std::size_t i = 0; i < kLarge + kSmall; ++i) {
    config.allow->add(test_identity(static_cast<std::uint8_t>(100 + i)).key());
  }
  Host bert(config);
  CurveCaller anna = call(bert.link, kAnnaKey);
  REQUIRE(introduce(bert, anna, kAnnaKey));
  REQUIRE(connect(bert.link, without_address(kAnnaKey)));
  bert.link.watch(steady_now());
  const RisingDescriptors in_order;  // in which they are looked at, beginning behind Anna
  std::vector<CurveCaller> callers;
  for (std::size_t i = 0; i < kLarge + kSmall; ++i) {
    const Identity identity = test_identity(static_cast<std::uint8_t>(100 + i));
    callers.push_back(call(bert.link, identity, true));
    CurveCaller& caller = callers.back();
    REQUIRE(serve_until({&bert}, [&] { return caller.step(); }));
    const std::uint64_t before = bert.link.stats().bulk.frames_in;
    REQUIRE(caller.send(text_of(encode(identity.id(), BulkHello{})), false));
    REQUIRE(serve_until({&bert}, [&] {
      caller.step();
      return bert.link.stats().bulk.frames_in > before;
    }));
  }
  Instant now = bert.watch_at;
  const auto look = [&] { bert.link.watch(now += ZmqLink::kWatchEvery); };
  look();
  look();
  // Together a little more than they may, and who brings it beyond has less than the mean of them.
  for (std::size_t i = 0; i < callers.size(); ++i) {
    const std::size_t bytes = i < kLarge ? (1 << 20) - 100 : 1 << 19;
    REQUIRE(callers[i].send(std::string(bytes, 'x'), true));
  }
  static_cast<void>(eventually(
      [&] {
        for (CurveCaller& caller : callers) caller.step();
        return false;
      },
      1));
  look();
  CHECK(bert.callers().greedy == 0);
  bert.link.set_allow_list(only({&kAnnaKey}));
  for (int i = 0; i < 5; ++i) look();
  CHECK(bert.callers().greedy == 0);
  CHECK(bert.callers().unwelcome == kLarge + kSmall);
  CHECK(introduce(bert, anna, kAnnaKey));
}

}  // namespace starling::gossip
