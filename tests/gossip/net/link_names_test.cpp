// Lines that are dialled by a name.
#include <doctest/doctest.h>

#include <set>

#include "gossip/net/link.h"
#include "gossip/net/link_line.h"
#include "tests/gossip/net/fake_names.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

using std::chrono::seconds;

const Identity kAnnaKey = test_identity(11);
const Identity kBertKey = test_identity(22);
const Identity kCleoKey = test_identity(33);
const PeerId kBert = kBertKey.id();

ZmqLink open_with(const FakeNames& names) {
  LinkConfig config = link_config(kAnnaKey);
  config.look_up = names.look_up();
  return ZmqLink::open(config).value();
}

Result<ZmqLink> open_at(const Identity& identity, const std::string& host, std::uint16_t control,
                        std::uint16_t bulk) {
  LinkConfig config = link_config(identity);
  config.host = host;
  config.control_port = control;
  config.bulk_port = bulk;
  return ZmqLink::open(config);
}

PeerAddress named(PeerAddress address, const std::string& name) {
  REQUIRE(set_host(address, name));
  return address;
}

Hello hello_of(const ZmqLink& link) {
  return {.self = {.key = {kAnnaKey.id(), 5}, .address = link.local_address()}, .identity = {}};
}

// `link` hears from `sender`, who does what a driver does meanwhile.
bool hears(ZmqLink& link, ZmqLink& sender) {
  return eventually([&] {
    static_cast<void>(sender.flush(steady_now()));
    sender.watch(steady_now());
    static_cast<void>(sender.try_receive(steady_now()));
    return link.try_receive(steady_now()).has_value();
  });
}

// One line, whose time is the test's.
struct LineByName {
  zmq::context_t context{kIoThreads, kSocketsMax};
  Inbox inbox;
  const CurvePair keys = curve_pair_of(kAnnaKey);
  NameResolver resolver;
  const Dialler dialler{context, inbox, keys, resolver};
  Line line;
  Instant now = steady_now();

  LineByName(const FakeNames& names, const ZmqLink& bert)
      : resolver(names.look_up()), line(dialler, named(bert.local_address(), "bert.test"), 1) {}

  void follow() {
    static_cast<void>(line.read_monitors());
    line.follow_name(dialler, now);
  }
  bool is_up(ZmqLink& bert) {
    follow();
    static_cast<void>(bert.try_receive(steady_now()));  // lets us in
    static_cast<void>(line.flush());
    return line.was_up();
  }
};

}  // namespace

TEST_CASE("a peer is reached by a name, on both lanes") {
  FakeNames names;
  names.set("bert.test", {{"127.0.0.1"}, {}});
  ZmqLink anna = open_with(names);
  ZmqLink bert = open_link(kBertKey);
  REQUIRE(connect(anna, named(bert.local_address(), "bert.test"), false));  // tries both
  CHECK(eventually([&] {
    static_cast<void>(anna.flush(steady_now()));
    static_cast<void>(bert.try_receive(steady_now()));
    return bert.reached_from(steady_now()) == Reach::kThisMachine;
  }));
  REQUIRE(anna.try_send_control(kBert, ping(1)) == Sending::kSent);
  CHECK(hears(bert, anna));
}

TEST_CASE("the system's resolver is asked where nothing else is said") {
  ZmqLink anna = open_link(kAnnaKey);
  ZmqLink bert = open_link(kBertKey);
  REQUIRE(anna.greet(named(bert.local_address(), "localhost"), hello_of(anna)));
  CHECK(hears(bert, anna));
}

TEST_CASE("a name server that is silent delays neither messages over other lines nor the end") {
  FakeNames names;
  names.set("bert.test", {{"127.0.0.1"}, {}});
  ZmqLink bert = open_link(kBertKey);
  Instant closing;
  {
    ZmqLink anna = open_with(names);
    for (std::uint8_t i = 0; i < 5; ++i) {  // fewer than look-ups may be under way
      const std::string name = "silent-" + std::to_string(i) + ".test";
      names.silence(name);
      PeerAddress silent = named(bert.local_address(), name);
      silent.key = test_identity(static_cast<std::uint8_t>(100 + i)).key();
      REQUIRE(anna.greet(silent, hello_of(anna)));
    }
    static_cast<void>(anna.flush(steady_now()));
    CHECK(eventually([&] { return names.asked() == 5; }));
    const Instant start = steady_now();
    REQUIRE(connect(anna, named(bert.local_address(), "bert.test")));  // a name, too
    REQUIRE(anna.try_send_control(kBert, ping(0)) == Sending::kSent);
    CHECK(hears(bert, anna));
    for (std::uint64_t i = 1; i <= 100; ++i) {
      REQUIRE(anna.try_send_control(kBert, ping(i)) == Sending::kSent);
      CHECK(hears(bert, anna));
    }
    CHECK(steady_now() - start < seconds(15));  // of the 20 for which the server is silent
    closing = steady_now();
  }
  CHECK(steady_now() - closing < seconds(15));
}

TEST_CASE("an address that has changed is found after the line went down") {
  FakeNames names;
  names.set("bert.test", {{"127.0.0.1"}, {}});
  ZmqLink anna = open_with(names);
  PeerAddress address;
  {
    ZmqLink bert = open_link(kBertKey);
    address = bert.local_address();
    REQUIRE(connect(anna, named(address, "bert.test")));
    REQUIRE(anna.try_send_control(kBert, ping(1)) == Sending::kSent);
    REQUIRE(hears(bert, anna));
    anna.watch(steady_now());
  }
  auto bert = open_at(kBertKey, "127.0.0.2", address.control_port, address.bulk_port);
  REQUIRE(bert.ok());
  names.set("bert.test", {{"127.0.0.2"}, {}});
  // Nobody tells the link to connect once more.
  CHECK(eventually([&] {
    anna.watch(steady_now());
    static_cast<void>(anna.try_receive(steady_now()));
    CHECK(!bert.value().try_receive(steady_now()).has_value());  // lets her in
    return anna.try_send_control(kBert, ping(2)) == Sending::kSent;
  }));
  CHECK(hears(bert.value(), anna));
}

TEST_CASE("a peer is found at the one of several addresses where it is") {
  FakeNames names;
  ZmqLink reserve = open_link(kCleoKey);  // another's port, who is not Bert
  const PeerAddress cleo = reserve.local_address();
  auto bert = open_at(kBertKey, "127.0.0.2", cleo.control_port, cleo.bulk_port);
  REQUIRE(bert.ok());
  const PeerAddress address = named(bert.value().local_address(), "bert.test");
  for (const char* wrong : {"127.0.0.3", "127.0.0.1"}) {  // nobody answers; somebody else does
    CAPTURE(wrong);
    names.set("bert.test", {{wrong, "127.0.0.2"}, {}});
    ZmqLink anna = open_with(names);
    Instant greet_again = steady_now();
    CHECK(eventually([&] {
      if (steady_now() >= greet_again) {  // as the core does
        static_cast<void>(anna.greet(address, hello_of(anna)));
        greet_again = steady_now() + std::chrono::milliseconds(500);
      }
      anna.watch(steady_now());
      static_cast<void>(anna.flush(steady_now()));
      static_cast<void>(anna.try_receive(steady_now()));
      static_cast<void>(reserve.try_receive(steady_now()));
      return bert.value().try_receive(steady_now()).has_value();
    }));
  }
}

TEST_CASE("an address that takes a call and says nothing is given up for another") {
  FakeNames names;
  const Listener nobody;  // at 127.0.0.1
  auto bert = open_at(kBertKey, "127.0.0.2", nobody.port(), 0);
  REQUIRE(bert.ok());
  names.set("bert.test", {{"127.0.0.1", "127.0.0.2"}, {}});
  LineByName by(names, bert.value());
  by.line.open_bulk(by.dialler);
  CHECK(!eventually([&] { return by.is_up(bert.value()); }, 1));
  by.now += seconds(10);
  CHECK(eventually([&] { return by.is_up(bert.value()); }));
  CHECK(eventually([&] { return by.is_up(bert.value()) && by.line.writable_bulk() != nullptr; }));
}

TEST_CASE("of addresses that refuse another is dialled twice a second at most") {
  FakeNames names;
  auto bert = open_at(kBertKey, "127.0.0.2", 0, 0);
  REQUIRE(bert.ok());
  names.set("bert.test", {{"127.0.0.3", "127.0.0.2"}, {}});
  LineByName by(names, bert.value());
  CHECK(!eventually([&] { return by.is_up(bert.value()); }, 0.5));
  by.now += std::chrono::milliseconds(500);
  CHECK(eventually([&] { return by.is_up(bert.value()); }));
}

TEST_CASE("a name that does not resolve is told of once, and found when it does") {
  FakeNames names;
  ZmqLink bert = open_link(kBertKey);
  LineByName by(names, bert);
  for (std::size_t looked = 1; looked <= 3; ++looked) {
    CHECK(eventually([&] { return by.follow(), names.asked() == looked; }));
    CHECK(eventually([&] { return by.follow(), by.resolver.at_work() == 0; }));
    by.now += NameResolver::kPauseMax;
  }
  CHECK(by.resolver.problems_told() == 1);
  CHECK(!by.line.was_up());
  names.set("bert.test", {{"127.0.0.1"}, {}});
  CHECK(eventually([&] { return by.is_up(bert); }));
}

}  // namespace starling::gossip
