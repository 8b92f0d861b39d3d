// How fast one bulk lane is, against ZeroMQ alone with the same frames: DEALER to ROUTER, plain and
// with CURVE, on loopback, a thread for each side. Medians of rounds that take turns, so that other
// work on the machine hits all alike.
//
//   build/release/tests/gossip/bench_link [payload KiB] [MiB per round] [rounds]
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "gossip/link.h"
#include "gossip/link_sockets.h"
#include "gossip/wire.h"
#include "tests/gossip/net_support.h"

namespace starling::gossip {
namespace {

constexpr std::uint32_t kSlots = 8;

struct Load {
  std::size_t payload = 0;
  std::size_t frames = 0;
  double mebibytes() const { return static_cast<double>(payload * frames) / (1024.0 * 1024.0); }
};

double seconds_between(Instant first, Instant last) { return to_seconds(last - first); }

// MiB/s of payloads.
double raw(const Load& load, bool curve) {
  const Identity server = test_identity(1);
  const Identity client = test_identity(2);
  zmq::context_t context{2};
  zmq::socket_t router(context, zmq::socket_type::router);
  router.set(zmq::sockopt::rcvhwm, 4);
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::sndhwm, 4);
  dealer.set(zmq::sockopt::linger, 0);
  if (curve) {
    const CurvePair keys = curve_pair_of(server);
    const CurvePair own = curve_pair_of(client);
    router.set(zmq::sockopt::curve_server, true);
    router.set(zmq::sockopt::curve_secretkey, zmq::buffer(keys.secret_key));
    dealer.set(zmq::sockopt::curve_serverkey, zmq::buffer(keys.public_key));
    dealer.set(zmq::sockopt::curve_publickey, zmq::buffer(own.public_key));
    dealer.set(zmq::sockopt::curve_secretkey, zmq::buffer(own.secret_key));
  }
  router.bind("tcp://127.0.0.1:*");
  dealer.connect(router.get(zmq::sockopt::last_endpoint));
  // As many buffers as the link's side has slots: neither sends from a warm cache.
  const std::size_t bytes = kBulkHeadBytes + load.payload;
  const std::vector<std::byte> frames(kSlots * bytes);
  std::thread sender([&] {
    for (std::size_t i = 0; i <= load.frames; ++i) {
      const std::byte* frame = frames.data() + i % kSlots * bytes;
      zmq::message_t message(const_cast<std::byte*>(frame), bytes, nullptr);
      static_cast<void>(dealer.send(message, zmq::send_flags::none));
    }
  });
  Instant first;
  for (std::size_t i = 0; i <= load.frames; ++i) {  // one more, to begin with
    zmq::message_t route, message;
    static_cast<void>(router.recv(route));
    static_cast<void>(router.recv(message));
    if (i == 0) first = steady_now();
  }
  const double seconds = seconds_between(first, steady_now());
  sender.join();
  return load.mebibytes() / seconds;
}

double over_link(const Load& load) {
  CpuDevice device;
  const std::size_t slot = (kBulkHeadBytes + load.payload + 63) / 64 * 64;
  SlotPool pool(host_memory(device, kSlots * slot), kSlots);
  ZmqLink bert = open_link(test_identity(1));
  const PeerAddress address = bert.local_address();
  std::thread sender([&] {
    ZmqLink anna = open_link(test_identity(2));
    STARLING_ASSERT(connect(anna, address));
    std::optional<SlotLease> lease;
    for (std::size_t sent = 0; sent <= load.frames; ++sent) {
      STARLING_ASSERT(eventually([&] {
        if (!lease) lease = pool.try_acquire();
        return lease && anna.try_send_bulk(id_of(address.key), Push{}, lease, load.payload) ==
                            Sending::kSent;
      }));
    }
    STARLING_ASSERT(eventually([&] { return pool.free_count() == pool.slots(); }, 60));
    static_cast<void>(eventually([] { return false; }, 0.5));  // what is under way arrives
  });
  Instant first;
  for (std::size_t got = 0; got <= load.frames;) {
    while (auto arrival = bert.try_receive(steady_now())) {
      if (got++ == 0) first = steady_now();
    }
    if (bert.readable()) continue;
    pollfd item{bert.descriptor(), POLLIN, 0};
    ::poll(&item, 1, 100);
  }
  const double seconds = seconds_between(first, steady_now());
  sender.join();
  return load.mebibytes() / seconds;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace
}  // namespace starling::gossip

int main(int argc, char** argv) {
  using namespace starling::gossip;
  const auto argument = [&](int index, std::size_t otherwise) {
    return argc > index ? static_cast<std::size_t>(std::atoll(argv[index])) : otherwise;
  };
  const std::size_t payload = argument(1, 1024) * 1024;
  const Load load{payload, argument(2, 256) * 1024 * 1024 / payload};
  std::vector<double> plain, curve, link;
  for (std::size_t round = 0; round < argument(3, 5); ++round) {
    plain.push_back(raw(load, false));
    curve.push_back(raw(load, true));
    link.push_back(over_link(load));
  }
  std::printf("payloads of %zu KiB, %.0f MiB a round, medians of %zu rounds\n", payload / 1024,
              load.mebibytes(), link.size());
  std::printf("ZeroMQ, plain  %8.0f MiB/s\n", median(plain));
  std::printf("ZeroMQ, CURVE  %8.0f MiB/s\n", median(curve));
  std::printf("link           %8.0f MiB/s  %.0f %% of CURVE\n", median(link),
              100 * median(link) / median(curve));
  return 0;
}
