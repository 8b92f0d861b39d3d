// How fast one exchange after another is between two processes over whatever line lies between
// them: the real core, driver and link, with a mixer that takes no time. Beside it ZeroMQ alone
// with CURVE over the same line, the same frames in both directions; and what a probe's round trip
// is when the line is idle and while it is full. scripts/bench/long_link starts both sides.
//
//   bench_exchange serve HOST PORT SETTINGS...       until its standard input ends
//   bench_exchange drive HOST PORT SERVER SETTINGS...   prints one line of JSON and ends
//
// HOST: the own address. PORT: the first of six. SETTINGS: seconds, stripes, KiB of a stripe,
// window, slots.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/heap.h"
#include "gossip/net/asio_driver.h"
#include "gossip/record_seal.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/bench_probes.h"

namespace starling::gossip {
namespace {

constexpr FragmentId kFragment{0};
constexpr double kWarmUp = 5;  // seconds: TCP finds the line's rate
Buffer written_memory(CpuDevice& device, std::size_t bytes) {
  Buffer memory = host_memory(device, bytes);
  std::memset(memory.data(), 0x5A, bytes);
  return memory;
}

// --- exchanges ---

// Obeys at once, in order, without any arithmetic.
class InstantMixer final : public MixerPort {
 public:
  InstantMixer(boost::asio::io_context& io, const Settings& settings)
      : io_(io),
        payload_(settings.payload),
        pool_(written_memory(device_, settings.slots * slot_bytes(settings)), settings.slots) {}

  bool try_submit(MixerOrder& order, Bytes&) override {
    orders_.push_back(order);
    boost::asio::post(io_, [this] {
      const MixerOrder next = orders_.front();
      orders_.pop_front();
      std::visit([this](const auto& wish) { carry_out(wish); }, next);
    });
    return true;
  }

  AsioDriver* driver = nullptr;
  std::uint64_t slots_missing = 0;

 private:
  static std::size_t slot_bytes(const Settings& settings) {
    return (kBulkHeadBytes + settings.payload + 63) / 64 * 64;
  }
  template <class Answer>
  void with_slot(Answer&& answer) {
    auto slot = pool_.try_acquire();
    slots_missing += !slot;
    const Verdict verdict{slot ? RejectReason::kNone : RejectReason::kNoRoom};
    answer(std::move(slot), verdict);
  }
  void carry_out(const EncodeStripe& wish) {
    with_slot([&](auto slot, const Verdict& verdict) {
      driver->encoded(wish.ref, std::move(slot), payload_, verdict);
    });
  }
  void stage(const StripeRef& ref) {
    with_slot([&](auto slot, const Verdict& verdict) {
      driver->staged(ref, std::move(slot), payload_, verdict);
    });
  }
  void carry_out(const StageDelta& wish) { stage(wish.ref); }
  void carry_out(const ReissueDelta& wish) { stage(wish.ref); }
  void carry_out(const ApplyDelta& wish) { driver->applied(wish.ref, {}); }
  void carry_out(const ApplyStaged& wish) { driver->applied(wish.ref, {}); }
  void carry_out(const DropStaged&) {}
  void carry_out(const Compensate& wish) { driver->compensated(wish.ref); }
  void carry_out(const ForgetDelta&) {}

  boost::asio::io_context& io_;
  const std::size_t payload_;
  CpuDevice device_;
  SlotPool pool_;
  std::deque<MixerOrder> orders_;
};

// Publishes its fragment again as soon as an exchange has ended, if it is the one that drives.
class Peer final : public EventSink {
 public:
  Peer(boost::asio::io_context& io, std::uint8_t identity, const Settings& settings)
      : io_(io),
        drives_(identity == kDriver),
        identity_(test_identity(identity)),
        mixer_(io, settings),
        driver_(make_driver(identity, settings)) {
    mixer_.driver = &driver_;
  }

  void begin(const PeerAddress& seed) {
    const std::array<PeerAddress, 1> seeds{seed};
    driver_.join(seeds);
    publish();
  }
  const AsioDriver& driver() const { return driver_; }
  std::uint64_t slots_missing() const { return mixer_.slots_missing; }

  std::map<Outcome, int> ended;

  void on_exchange_ended(const ExchangeEnded& event) override {
    ++ended[event.outcome];
    if (drives_) boost::asio::post(io_, [this] { publish(); });
  }
  void on_peer_changed(const PeerChanged&) override {
    if (drives_) boost::asio::post(io_, [this] { publish(); });
  }
  void on_refused(const Refused&) override {}
  void on_join_event(const JoinEvent&) override {}
  void on_join_ended(const JoinEnded&) override {}
  void on_rejected(const Rejected&) override {}
  void on_muted(const Muted&) override {}
  void on_swarm_changed(const SwarmChanged&) override {}
  void on_relay_changed(const RelayChanged&) override {}
  void on_tokens_clipped(const TokensClipped&) override {}
  void on_footing_changed(const FootingChanged&) override {}

 private:
  void publish() { driver_.publish(kFragment, {.cold = true, .clip_radius = 0}); }

  AsioDriver make_driver(std::uint8_t identity, const Settings& settings) {
    const LinkConfig link_setup = listening(identity, settings, 0);
    auto link = ZmqLink::open(link_setup).value();
    GossipConfig config;
    config.window = settings.window;
    CoreIdentity self{.self = {.key = {link_setup.identity.id(), 1},
                               .address = link.local_address(),
                               .dialable = true},
                      .seal = &seal_,
                      .run = link_setup.run,
                      .stripes = {settings.stripes},
                      .seed = identity};
    return AsioDriver(io_, Core(config, self, {}, steady_now()), std::move(link), mixer_, *this);
  }

  boost::asio::io_context& io_;
  const bool drives_;
  const Identity identity_;
  const IdentitySeal seal_{identity_};
  InstantMixer mixer_;
  AsioDriver driver_;
};

// --- ZeroMQ alone ---

constexpr int kRawDepth = 16;  // frames that may be queued, each way

zmq::socket_t raw_socket(zmq::context_t& context, bool server) {
  zmq::socket_t socket(context, server ? zmq::socket_type::router : zmq::socket_type::dealer);
  const CurvePair keys = curve_pair_of(test_identity(kServer));
  const CurvePair own = curve_pair_of(test_identity(kDriver));
  if (server) {
    socket.set(zmq::sockopt::curve_server, true);
    socket.set(zmq::sockopt::curve_secretkey, zmq::buffer(keys.secret_key));
  } else {
    socket.set(zmq::sockopt::curve_serverkey, zmq::buffer(keys.public_key));
    socket.set(zmq::sockopt::curve_publickey, zmq::buffer(own.public_key));
    socket.set(zmq::sockopt::curve_secretkey, zmq::buffer(own.secret_key));
  }
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::rcvtimeo, 100);
  socket.set(zmq::sockopt::sndhwm, kRawDepth);
  socket.set(zmq::sockopt::rcvhwm, kRawDepth);
  if (server) socket.set(zmq::sockopt::router_mandatory, true);
  return socket;
}

std::string raw_endpoint(const std::string& host, std::uint16_t port) {
  return "tcp://" + host + ":" + std::to_string(port + 4);
}

zmq::message_t frame_of(std::vector<std::byte>& bytes) {
  return zmq::message_t(bytes.data(), bytes.size(), nullptr);  // without a copy
}

// Sends as fast as the line takes it, from the first frame of its other end until that is gone.
void send_frames(const Settings& settings, const std::atomic<bool>& ended) {
  std::vector<std::byte> bytes(settings.payload);
  zmq::context_t context{1};
  zmq::socket_t router = raw_socket(context, true);
  router.bind(raw_endpoint(settings.host, settings.port));
  zmq::message_t client, frame;
  while (!ended && !router.recv(client)) continue;
  try {
    while (!ended) {
      bool any = router.recv(frame, zmq::recv_flags::dontwait).has_value();
      zmq::message_t route(client.data(), client.size());
      if (router.send(route, zmq::send_flags::sndmore | zmq::send_flags::dontwait)) {
        any = router.send(frame_of(bytes), zmq::send_flags::dontwait).has_value() || any;
      }
      if (!any) wait(0.001);
    }
  } catch (const zmq::error_t&) {  // the client has ended
  }
}

// Bytes per second that come while as much goes.
double raw_rate(const Settings& settings, const std::string& server) {
  std::vector<std::byte> bytes(settings.payload);
  zmq::context_t context{1};
  zmq::socket_t dealer = raw_socket(context, false);
  dealer.connect(raw_endpoint(server, settings.port));
  const Instant begin = steady_now() + from_seconds(kWarmUp);
  const Instant end = begin + from_seconds(settings.seconds);
  std::size_t got = 0;
  while (steady_now() < end) {
    zmq::message_t frame;
    bool any = dealer.send(frame_of(bytes), zmq::send_flags::dontwait).has_value();
    if (dealer.recv(frame, zmq::recv_flags::dontwait)) {
      if (steady_now() >= begin) got += frame.size();
      any = true;
    }
    if (!any) wait(0.001);
  }
  return static_cast<double>(got) / settings.seconds;
}

// --- the two sides ---

int serve(const Settings& settings) {
  std::atomic<bool> ended = false;
  std::thread probes([&] { echo_probes(settings, ended); });
  std::thread frames([&] { send_frames(settings, ended); });
  boost::asio::io_context io;
  Peer peer(io, kServer, settings);
  std::thread input([&] {
    for (char ignored = 0; ::read(STDIN_FILENO, &ignored, 1) > 0;) {
    }
    io.stop();
  });
  io.run();
  ended = true;
  for (std::thread* thread : {&probes, &frames, &input}) thread->join();
  return 0;
}

double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return -1;
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

// The rate of stripes that were applied, between the end of the warm-up and the end.
struct Measured {
  double bytes_per_second = 0;
  std::uint64_t slots_missing = 0, fenced = 0, dropped = 0;
  int completed = 0, others = 0;
};

Measured exchange_back_to_back(const Settings& settings, const PeerAddress& server) {
  boost::asio::io_context io;
  Peer peer(io, kDriver, settings);
  peer.begin(server);
  const auto run_for = [&](double seconds) { io.run_for(from_seconds(seconds)); };
  run_for(kWarmUp);
  const std::uint64_t before = peer.driver().core().stats().stripes_applied;
  const Instant begin = steady_now();
  run_for(settings.seconds);
  const CoreStats stats = peer.driver().core().stats();
  Measured measured;
  measured.bytes_per_second =
      static_cast<double>((stats.stripes_applied - before) * settings.payload) /
      to_seconds(steady_now() - begin);
  measured.slots_missing = peer.slots_missing();
  measured.fenced = stats.attempts_fenced;
  measured.dropped = peer.driver().stats().frames_dropped;
  for (const auto& [outcome, count] : peer.ended) {
    (outcome == Outcome::kCompleted ? measured.completed : measured.others) += count;
  }
  return measured;
}

int drive(const Settings& settings, const std::string& server) {
  const double raw = raw_rate(settings, server);
  wait(1);
  Prober prober(settings, address_of(kProbes + kServer, server, settings.port + 2));
  prober.round_trips(0.5);
  const std::vector<double> idle = prober.round_trips(3);
  std::vector<double> busy;
  std::thread probes([&] {
    wait(kWarmUp);
    busy = prober.round_trips(settings.seconds);
  });
  const Measured measured =
      exchange_back_to_back(settings, address_of(kServer, server, settings.port));
  probes.join();
  std::printf(
      "{\"raw\": %.0f, \"exchange\": %.0f, \"completed\": %d, \"others\": %d, "
      "\"slots_missing\": %llu, \"fenced\": %llu, \"dropped\": %llu, \"idle_ms\": [%.1f, %.1f], "
      "\"busy_ms\": [%.1f, %.1f], \"probes\": %zu}\n",
      raw, measured.bytes_per_second, measured.completed, measured.others,
      static_cast<unsigned long long>(measured.slots_missing),
      static_cast<unsigned long long>(measured.fenced),
      static_cast<unsigned long long>(measured.dropped), quantile(idle, 0.5), quantile(idle, 0.99),
      quantile(busy, 0.5), quantile(busy, 0.99), busy.size());
  return 0;
}

}  // namespace
}  // namespace starling::gossip

int main(int argc, char** argv) {
  using namespace starling::gossip;
  starling::keep_freed_memory();  // as the program does
  const std::string role = argc > 3 ? argv[1] : "";
  const int first = role == "drive" ? 5 : 4;
  if ((role != "drive" && role != "serve") || argc != first + 5) {
    std::fputs("see the top of tests/gossip/net/bench_exchange.cpp\n", stderr);
    return 2;
  }
  const auto number = [&](int index) { return std::strtoul(argv[index], nullptr, 10); };
  const Settings settings{.host = argv[2],
                          .port = static_cast<std::uint16_t>(number(3)),
                          .seconds = std::atof(argv[first]),
                          .stripes = static_cast<std::uint32_t>(number(first + 1)),
                          .payload = number(first + 2) * 1024,
                          .window = static_cast<std::uint16_t>(number(first + 3)),
                          .slots = static_cast<std::uint32_t>(number(first + 4))};
  return role == "drive" ? drive(settings, argv[4]) : serve(settings);
}
