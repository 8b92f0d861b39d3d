// How fast one bulk lane is, against ZeroMQ alone with the same frames: DEALER to ROUTER, in the
// clear and with CURVE, on loopback, a thread for each side. Medians of rounds that take turns, so
// that other work on the machine hits all alike; processor time beside them, for the same reason.
//
// The link is always encrypted. What its frames cost besides, heads, digests and slots, is seen in
// the clear. Through a relay every payload is enveloped, crosses two encrypted connections and is
// opened, by three links.
//
//   build/release/tests/gossip/bench_link [payload KiB] [MiB per round] [rounds]
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "base/heap.h"
#include "gossip/net/link.h"
#include "gossip/net/link_sockets.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {
namespace {

constexpr std::uint32_t kSlots = 16;

struct Load {
  std::size_t payload = 0;
  std::size_t frames = 0;
  std::size_t slot_bytes() const { return (kBulkHeadBytes + payload + 63) / 64 * 64; }
  double mebibytes() const { return static_cast<double>(payload * frames) / (1024.0 * 1024.0); }
};

// With pages of its own.
Buffer written_memory(CpuDevice& device, std::size_t bytes) {
  Buffer memory = host_memory(device, bytes);
  std::memset(memory.data(), 0x5A, bytes);
  return memory;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto used = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return used(usage.ru_utime) + used(usage.ru_stime);
}

struct Speed {
  double mebibytes_per_second = 0;  // of payloads
  double cpu_per_gibibyte = 0;      // seconds, of both sides
};

// From the first frame's arrival to the last one's.
class Watch {
 public:
  void arrived() {
    if (arrived_++ > 0) return;
    first_ = steady_now();
    cpu_ = cpu_seconds();
  }
  std::size_t count() const { return arrived_; }
  Speed speed(const Load& load) const {
    return {load.mebibytes() / to_seconds(steady_now() - first_),
            (cpu_seconds() - cpu_) / load.mebibytes() * 1024};
  }

 private:
  std::size_t arrived_ = 0;
  Instant first_;
  double cpu_ = 0;
};

struct Way {
  bool curve = false;
  bool our_frames = false;  // heads and digests, from slots; else the bytes as they are
};

void turn_on_curve(zmq::socket_t& server, zmq::socket_t& client) {
  const CurvePair keys = curve_pair_of(test_identity(1));
  const CurvePair own = curve_pair_of(test_identity(2));
  server.set(zmq::sockopt::curve_server, true);
  server.set(zmq::sockopt::curve_secretkey, zmq::buffer(keys.secret_key));
  client.set(zmq::sockopt::curve_serverkey, zmq::buffer(keys.public_key));
  client.set(zmq::sockopt::curve_publickey, zmq::buffer(own.public_key));
  client.set(zmq::sockopt::curve_secretkey, zmq::buffer(own.secret_key));
}

zmq::message_t framed(SlotPool& pool, std::size_t bytes) {
  std::optional<SlotLease> lease;
  while (!(lease = pool.try_acquire())) std::this_thread::yield();
  encode_bulk_head(PeerId{1}, Push{}, lease->bytes().first(bytes));
  auto* frozen = new FrozenSlot(std::move(*lease), bytes);
  const auto drop = [](void*, void* held) { delete static_cast<FrozenSlot*>(held); };
  return zmq::message_t(const_cast<std::byte*>(frozen->bytes().data()), bytes, drop, frozen);
}

Speed zeromq(const Load& load, const Way& way) {
  CpuDevice device;
  // As many buffers as the link's side has slots: neither sends from a warm cache.
  Buffer memory = written_memory(device, kSlots * load.slot_bytes());
  auto* const first = static_cast<std::byte*>(memory.data());
  SlotPool pool(std::move(memory), kSlots);
  zmq::context_t context{2};
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::rcvhwm, 4);
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::sndhwm, 4);
  dealer.set(zmq::sockopt::linger, 0);
  if (way.curve) turn_on_curve(router, dealer);
  router.bind("tcp://127.0.0.1:*");
  dealer.connect(router.get(zmq::sockopt::last_endpoint));
  std::thread sender([&] {
    const std::size_t bytes = kBulkHeadBytes + load.payload;
    for (std::size_t i = 0; i <= load.frames; ++i) {
      zmq::message_t message =
          way.our_frames ? framed(pool, bytes)
                         : zmq::message_t(first + i % kSlots * load.slot_bytes(), bytes, nullptr);
      static_cast<void>(dealer.send(message, zmq::send_flags::none));
    }
  });
  Watch watch;
  while (watch.count() <= load.frames) {  // one more, to begin with
    zmq::message_t route, message;
    static_cast<void>(router.recv(route));
    static_cast<void>(router.recv(message));
    if (way.our_frames) {
      STARLING_ASSERT(decode({message.data<std::byte>(), message.size()}).ok());
    }
    watch.arrived();
  }
  const Speed speed = watch.speed(load);
  sender.join();
  dealer.close();
  router.close();
  context.close();  // before the pool: what it holds goes home
  return speed;
}

void wait_on(int descriptor, int milliseconds) {
  pollfd item{descriptor, POLLIN, 0};
  ::poll(&item, 1, milliseconds);
}

Speed over_link(const Load& load) {
  CpuDevice device;
  SlotPool pool(written_memory(device, kSlots * load.slot_bytes()), kSlots);
  ZmqLink bert = open_link(test_identity(1));
  const PeerAddress address = bert.local_address();
  std::thread sender([&] {
    ZmqLink anna = open_link(test_identity(2));
    STARLING_ASSERT(connect(anna, address));
    std::optional<SlotLease> lease;
    for (std::size_t sent = 0; sent <= load.frames;) {
      if (!lease) lease = pool.try_acquire();
      const bool gone = lease && anna.try_send_bulk(id_of(address.key), Push{}, lease,
                                                    load.payload) == Sending::kSent;
      sent += gone;
      if (gone) continue;
      wait_on(anna.descriptor(), 1);  // there is room again; slots come home without a word
      STARLING_ASSERT(!anna.try_receive(steady_now()));
    }
    STARLING_ASSERT(eventually([&] { return pool.free_count() == pool.slots(); }, 60));
    static_cast<void>(eventually([] { return false; }, 0.5));  // what is under way arrives
  });
  Watch watch;
  while (watch.count() <= load.frames) {
    if (bert.try_receive(steady_now())) {
      watch.arrived();
    } else if (!bert.readable()) {
      wait_on(bert.descriptor(), 100);
    }
  }
  const Speed speed = watch.speed(load);
  sender.join();
  return speed;
}

// As many payloads under way at once as a relay holds for one sender.
constexpr std::size_t kUnderWay = 4;
constexpr std::uint64_t kProcess = 1;

ZmqLink open_deaf(const Identity& identity) {
  LinkConfig config = link_config(identity);
  config.host.clear();
  config.process = kProcess;
  return ZmqLink::open(config).value();
}

// Opens a way to the relay and, through it, to `other`. False if the relay does not hear it.
bool join(ZmqLink& link, ZmqLink& relay, const Identity& relay_key, const Identity& other) {
  if (!connect(link, relay.local_address())) return false;
  if (link.try_send_control(relay_key.id(), Offer{}) != Sending::kSent) return false;
  if (!wait_for_arrival(relay, link) || !connect(relay, link.local_address(), false)) return false;
  const auto greet_on_both_lanes = [&] {
    link.flush(steady_now());
    STARLING_ASSERT(!relay.try_receive(steady_now()));
    return false;
  };
  static_cast<void>(eventually(greet_on_both_lanes, 0.3));
  PeerAddress address;
  address.key = other.key();
  return link.connect(steady_now(),
                      {other.id(), address, kVersions.max, false, {relay_key.id(), kProcess}});
}

Speed through_relay(const Load& load) {
  CpuDevice device;
  const Identity anna_key = test_identity(1), bert_key = test_identity(2);
  const Identity relay_key = test_identity(3);
  ZmqLink relay = open_link(relay_key);
  ZmqLink bert = open_deaf(bert_key), anna = open_deaf(anna_key);
  STARLING_ASSERT(join(anna, relay, relay_key, bert_key));
  STARLING_ASSERT(join(bert, relay, relay_key, anna_key));
  relay.relay_for(bert_key.id(), true);
  std::atomic<std::size_t> arrived = 0;
  std::thread forwarder([&] {
    while (arrived <= load.frames) {
      wait_on(relay.descriptor(), 1);
      STARLING_ASSERT(!relay.try_receive(steady_now()));
      relay.flush(steady_now());
      const RelayStats stats = relay.stats().relayed;
      STARLING_ASSERT(stats.over_rate == 0 && stats.lost == 0);
    }
  });
  std::thread sender([&] {
    SlotPool pool(written_memory(device, load.slot_bytes()), 1);
    std::optional<SlotLease> lease = pool.try_acquire();
    for (std::size_t sent = 0; arrived <= load.frames;) {
      if (!lease) lease = pool.try_acquire();
      const bool due = lease && sent <= load.frames && sent < arrived + kUnderWay;
      const bool gone =
          due && anna.try_send_bulk(bert_key.id(), Push{}, lease, load.payload) == Sending::kSent;
      sent += gone;
      if (gone) continue;
      wait_on(anna.descriptor(), 1);  // whether there is room, or something has arrived
      anna.flush(steady_now());
      STARLING_ASSERT(!anna.try_receive(steady_now()));
    }
  });
  Watch watch;
  while (watch.count() <= load.frames) {
    if (bert.try_receive(steady_now())) {
      watch.arrived();
      arrived = watch.count();
    } else if (!bert.readable()) {
      wait_on(bert.descriptor(), 10);
    }
  }
  const Speed speed = watch.speed(load);
  sender.join();
  forwarder.join();
  return speed;
}

Speed median(const std::vector<Speed>& speeds) {
  const auto middle = [&](auto part) {
    std::vector<double> values;
    for (const Speed& speed : speeds) values.push_back(speed.*part);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  return {middle(&Speed::mebibytes_per_second), middle(&Speed::cpu_per_gibibyte)};
}

void print(const char* name, const Speed& speed) {
  std::printf("%-22s %8.0f MiB/s %7.2f processor seconds per GiB", name, speed.mebibytes_per_second,
              speed.cpu_per_gibibyte);
}

void print(const char* name, const Speed& speed, const Speed& of) {
  print(name, speed);
  std::printf("  %.0f %% of ZeroMQ's speed\n",
              100 * speed.mebibytes_per_second / of.mebibytes_per_second);
}

}  // namespace
}  // namespace starling::gossip

int main(int argc, char** argv) {
  using namespace starling::gossip;
  starling::keep_freed_memory();  // as the program does
  const auto argument = [&](int index, std::size_t otherwise) {
    return argc > index ? static_cast<std::size_t>(std::atoll(argv[index])) : otherwise;
  };
  const std::size_t payload = argument(1, 1024) * 1024;
  const Load load{payload, argument(2, 256) * 1024 * 1024 / payload};
  std::vector<Speed> clear, clear_frames, curve, link, relayed;
  for (std::size_t round = 0; round < argument(3, 5); ++round) {
    clear.push_back(zeromq(load, {}));
    clear_frames.push_back(zeromq(load, {.our_frames = true}));
    curve.push_back(zeromq(load, {.curve = true}));
    link.push_back(over_link(load));
    relayed.push_back(through_relay(load));
  }
  std::printf("payloads of %zu KiB, %.0f MiB a round, medians of %zu rounds\n", payload / 1024,
              load.mebibytes(), link.size());
  print("ZeroMQ in the clear", median(clear));
  std::puts("");
  print("frames in the clear", median(clear_frames), median(clear));
  print("ZeroMQ with CURVE", median(curve));
  std::puts("");
  print("link (with CURVE)", median(link), median(curve));
  print("link through a relay", median(relayed), median(curve));
  return 0;
}
