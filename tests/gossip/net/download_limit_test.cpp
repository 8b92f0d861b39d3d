// The download limit over real connections, against partners that send payloads as fast as TCP
// takes them: how much is read, from whom, and what ZeroMQ and TCP have taken beyond it.
#include <doctest/doctest.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "gossip/net/link_tcp.h"
#include "tests/gossip/net/driver_peer.h"

namespace starling::gossip {
namespace {

constexpr std::size_t kStripe = 64 * 1024;
constexpr std::size_t kPiece = kPieceBytes;  // of a state

// A member without a core, which never stops to send.
class Pourer {
 public:
  Pourer(std::uint8_t number, std::size_t payload_bytes)
      : identity_(test_identity(number)), payload_bytes_(payload_bytes) {}

  void join(const PeerAddress& address) {
    const RunIdentity run{.run = 1, .model = 1, .layout = 1};
    PeerRecord self{.key = record_key({id(), 1}, 0), .address = link_.local_address()};
    self.signature = IdentitySeal(identity_).sign(sealed_text(run.run, self));
    REQUIRE(link_.greet(address, Hello{self, run}, {}));
    REQUIRE(connect(link_, address));
    target_ = id_of(address.key);
  }
  void be_called_by(ZmqLink& caller) {
    target_ = id_of(caller.local_address().key);
    const PeerAddress here = link_.local_address();
    PeerRecord self{.key = record_key({target_, 1}, 0), .address = caller.local_address()};
    REQUIRE(caller.greet(here, Hello{self, {}}, {}));
    REQUIRE(connect(caller, here, false));  // on both lanes
    REQUIRE(eventually([&] {
      caller.flush(steady_now());
      static_cast<void>(link_.try_receive(steady_now()));
      return link_.was_reached_by(target_);
    }));
    REQUIRE(connect(link_, caller.local_address()));
  }
  PeerId id() const { return identity_.id(); }
  PeerAddress address() const { return link_.local_address(); }
  void flush() { link_.flush(steady_now()); }
  void say() { static_cast<void>(link_.try_send_control(target_, Ping{})); }
  // Answers for its life, and pours what there is room for.
  void turn() {
    link_.flush(steady_now());
    while (const auto arrival = link_.try_receive(steady_now())) {
      const auto* asked = std::get_if<Ping>(&arrival->message);
      if (asked == nullptr) continue;
      Pong pong;
      pong.nonce = asked->nonce;
      static_cast<void>(link_.try_send_control(target_, pong));
    }
    // Nobody has asked for them, so they are read and dropped.
    for (auto slot = pool_.try_acquire(); slot; slot = pool_.try_acquire()) {
      const Message piece = Piece{1, 1};
      if (link_.try_send_bulk(target_, piece, slot, payload_bytes_) != Sending::kSent) return;
    }
  }

 private:
  static constexpr std::size_t kSlots = 8;
  Identity identity_;
  const std::size_t payload_bytes_;
  CpuDevice device_;
  SlotPool pool_{host_memory(device_, kSlots*(kBulkHeadBytes + kPiece)), kSlots};
  ZmqLink link_ = open_link(identity_);
  PeerId target_;
};

// One with a limit, and those that pour upon it.
struct Flood {
  Flood(std::size_t pourers, std::size_t payload_bytes, double limit)
      : anna({.id = 1, .limits = {.download_bytes_per_second = limit}}) {
    for (std::size_t i = 0; i < pourers; ++i) pour_too(payload_bytes);
  }
  void pour_too(std::size_t payload_bytes) {
    const auto number = static_cast<std::uint8_t>(2 + all.size());
    all.push_back(std::make_unique<Pourer>(number, payload_bytes));
    all.back()->join(anna.address());
  }
  void turn() {
    anna.turn();
    for (const auto& pourer : all) pourer->turn();
  }
  template <class Done>
  bool run_until(Done&& done, double seconds = 30) {
    return eventually([&] { return turn(), done(); }, seconds);
  }
  double read() const {
    const LinkStats& link = anna.driver().link_stats();
    return static_cast<double>(link.control.bytes_in + link.bulk.bytes_in);
  }
  double read_of(const Pourer& pourer) const {
    return static_cast<double>(anna.driver().traffic_with(pourer.id()).bytes_in);
  }

  mutable DriverPeer anna;
  std::vector<std::unique_ptr<Pourer>> all;
};

// Of the connections to one port of this machine.
struct Taken {
  double by_zmq = 0;     // bytes read from the sockets
  double by_kernel = 0;  // and what has come besides
};
Taken taken_at(std::uint16_t port) {
  Taken sum;
  for_connections_at(port, [&sum](int descriptor) {
    const auto taken = bytes_taken(descriptor, socket_number(descriptor));
    int unread = 0;
    if (!taken || ::ioctl(descriptor, FIONREAD, &unread) != 0) return;
    sum.by_zmq += static_cast<double>(*taken);
    sum.by_kernel += unread;
  });
  return sum;
}

}  // namespace

TEST_CASE("partners that all send at once get the download limit, exactly and in equal parts") {
  std::size_t payload = 0;
  double limit = 0;
  SUBCASE("stripes") {
    payload = kStripe;
    limit = 2e6;
  }
  SUBCASE("pieces of a state") {
    payload = kPiece;
    limit = 16e6;
  }
  constexpr std::size_t kPourers = 3;
  constexpr double kPayloads = 20;  // of each
  const Instant start = steady_now();
  Flood flood(kPourers, payload, limit);
  const auto frame = static_cast<double>(payload + kBulkHeadBytes);
  const auto all_read = [&](double payloads) {
    return std::all_of(flood.all.begin(), flood.all.end(), [&](const auto& pourer) {
      return flood.read_of(*pourer) > payloads * frame;
    });
  };
  REQUIRE(flood.run_until([&] { return all_read(1); }));
  const double before = flood.read();
  std::vector<double> shares;
  for (const auto& pourer : flood.all) shares.push_back(-flood.read_of(*pourer));
  REQUIRE(flood.run_until([&] { return flood.read() >= before + kPourers * kPayloads * frame; }));
  // The burst and the last frame went for nothing.
  const double seconds = to_seconds(steady_now() - start);
  CHECK(flood.read() <= limit * (seconds + 0.05) + frame);
  for (std::size_t i = 0; i < kPourers; ++i) {
    CHECK(shares[i] + flood.read_of(*flood.all[i]) >= 0.8 * kPayloads * frame);
  }
}

TEST_CASE("whoever has called and whoever was called get the same share of what is read") {
  constexpr std::size_t kCallers = 3, kCalled = 2, kPayloads = 20;  // of each
  ZmqLink anna = open_link(test_identity(1));
  std::vector<std::unique_ptr<Pourer>> all;
  for (std::uint8_t i = 0; i < kCallers + kCalled; ++i) {
    all.push_back(std::make_unique<Pourer>(i + 2, kStripe));
    if (i < kCallers) {
      all.back()->join(anna.local_address());
      REQUIRE(eventually([&] {
        all.back()->flush();
        return anna.try_receive(steady_now()).has_value();
      }));
      REQUIRE(connect(anna, all.back()->address()));
    } else {
      all.back()->be_called_by(anna);
    }
  }
  std::map<PeerId, std::size_t> read;
  const auto read_payloads = [&](std::size_t count) {
    read.clear();
    return eventually([&, next = steady_now()]() mutable {
      anna.flush(steady_now());
      for (const auto& pourer : all) pourer->turn();
      if (steady_now() < next) return false;
      next = steady_now() + std::chrono::milliseconds(20);  // for more to come of each
      for (const auto& pourer : all) pourer->say();         // which comes before payloads
      while (const auto arrival = anna.try_receive(steady_now())) {
        if (!is_bulk(arrival->message)) continue;
        ++read[arrival->from];
        break;
      }
      std::size_t sum = 0;
      for (const auto& [peer, payloads] : read) sum += payloads;
      return sum == count;
    });
  };
  REQUIRE(eventually([&] { return read_payloads(all.size()), read.size() == all.size(); }));
  REQUIRE(read_payloads(kPayloads * all.size()));
  for (const auto& pourer : all) {
    CHECK(read[pourer->id()] >= kPayloads * 3 / 4);
    CHECK(read[pourer->id()] <= kPayloads * 5 / 4);
  }
}

TEST_CASE("whoever begins to send beside one that never stops is heard soon") {
  constexpr double kFrame = kStripe + kBulkHeadBytes;
  Flood flood(1, kStripe, 1e6);
  REQUIRE(flood.run_until([&] { return flood.read() > 20 * kFrame; }));
  flood.pour_too(kStripe);
  const double before = flood.read_of(*flood.all[0]);
  REQUIRE(flood.run_until([&] { return flood.read_of(*flood.all[1]) > kFrame; }));
  CHECK(flood.read_of(*flood.all[0]) - before <= 25 * kFrame);
}

// As over a line of that speed, so that whoever sends it measures the limit.
TEST_CASE("a payload is heard when the download limit has had room for all of it") {
  constexpr double kLimit = 4e6;
  Flood flood(1, kPiece, kLimit);
  const auto refused = [&] { return flood.anna.driver().core().stats().messages_refused; };
  const std::uint64_t before = refused();
  std::optional<Instant> read;
  REQUIRE(flood.run_until([&, turned = steady_now()]() mutable {
    if (!read && flood.read() > kPiece) read = turned;
    turned = steady_now();
    return refused() > before;
  }));
  REQUIRE(read);
  CHECK(to_seconds(steady_now() - *read) >= kPiece / kLimit - 0.05);
}

TEST_CASE("what buffers take beyond the download limit they take once") {
  constexpr std::size_t kPourers = 2;
  constexpr double kFrame = kPiece + kBulkHeadBytes;
  Flood flood(kPourers, kPiece, 4e6);
  const std::uint16_t port = flood.anna.address().bulk_port;
  const auto ahead = [&] {
    const Taken taken = taken_at(port);
    return taken.by_zmq + taken.by_kernel - flood.read();
  };
  // They fill first.
  double before = 0;
  Instant looked = steady_now();
  REQUIRE(flood.run_until([&] {
    if (steady_now() - looked < std::chrono::seconds(1)) return false;
    looked = steady_now();
    return ahead() > kFrame && ahead() <= std::exchange(before, ahead()) + kFrame;
  }));
  const double full = ahead();
  const double read = flood.read();
  REQUIRE(flood.run_until([&] { return flood.read() >= read + 3 * kPourers * kFrame; }));
  MESSAGE("ahead by " << full << " bytes, then by " << ahead() << ", of which "
                      << taken_at(port).by_kernel << " in the kernel");
  // A frame's arrival on each connection may fall to either side of both looks; without a limit
  // tens would come.
  CHECK(ahead() <= full + 2 * kPourers * kFrame);
  const auto held = static_cast<double>(held_bytes(LinkLane::kBulk).waiting_max);
  CHECK(taken_at(port).by_zmq - flood.read() <= kPourers * held);
}

TEST_CASE("one call reads one payload, though it is bad, so that a limit is looked at in between") {
  ZmqLink anna = open_link(test_identity(1));
  BareSender stranger(anna.local_address(), anna.local_address().bulk_port, test_identity(9));
  const std::vector<std::byte> garbage(1000, std::byte{5});
  constexpr std::uint64_t kFrames = 4;  // as many as wait in ZeroMQ
  for (std::uint64_t i = 0; i < kFrames; ++i) stranger.send(garbage);
  const auto frames = [&] { return anna.stats().bulk.frames_in; };
  std::uint64_t most = 0;
  Instant next = steady_now();
  CHECK(eventually([&] {
    if (steady_now() < next) return false;
    next = steady_now() + std::chrono::milliseconds(20);  // for all of them to come
    const std::uint64_t before = frames();
    CHECK_FALSE(anna.try_receive(steady_now()));
    most = std::max(most, frames() - before);
    return frames() == kFrames;
  }));
  CHECK(most == 1);
  CHECK(anna.stats().damaged + anna.stats().malformed == kFrames);
}

TEST_CASE("small messages, however many, cost those who wait for the download limit two seconds") {
  constexpr double kLimit = 1e5;
  Flood flood(1, 1000, kLimit);
  const auto bulk = [&] { return flood.anna.driver().link_stats().bulk.frames_in; };
  const auto control = [&] { return flood.anna.driver().link_stats().control.bytes_in; };
  REQUIRE(flood.run_until([&] { return bulk() > 10; }));
  const PeerAddress address = flood.anna.address();
  BareSender stranger(address, address.control_port, test_identity(99));
  const std::uint64_t before = control();
  const std::vector<std::byte> garbage(10'000, std::byte{5});
  Instant next{};
  REQUIRE(flood.run_until([&] {  // 20 s of the limit; again, as a stranger's line may be ended
    const Instant moment = steady_now();
    if (moment >= next) {
      next = moment + std::chrono::milliseconds(500);
      for (int i = 0; i < 200; ++i) stranger.send(garbage);
    }
    return control() >= before + 2'000'000;
  }));
  const Instant start = steady_now();
  const std::uint64_t read = bulk();
  REQUIRE(flood.run_until([&] { return bulk() > read + 2; }));
  CHECK(to_seconds(steady_now() - start) < 5);
}

}  // namespace starling::gossip
