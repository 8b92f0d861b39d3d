// net_hostile_peer SEED SECONDS ADDRESS...: a member that does its worst, for chaos tests.
// net_hostile_peer key: the public key that it comes with; let it in to make it an insider.
//
// ADDRESS is the key, IPv4 address and control port of a peer, KEY@10.0.0.1:7700; its bulk port is
// the next one. It introduces itself to each as one of their run, which it learns from a refusal,
// so that it is heard as a member. Until the time is over it draws an attack and a target: garbage,
// half greetings and impossible lengths over plain TCP; and, over CURVE, frames that are random but
// valid, mutated with right and wrong checksums, truncated, extended, too large, in several parts,
// on the wrong lane, and floods of them. Prints what it did as one line of JSON, with how many
// welcomed it first, however the peers took it: whether they survived, and whether they still
// listen to it, is for its caller to see.
//
// What is said (Frames) knows nothing of how it gets there (RawLine, ZmqLine).
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "base/rng.h"
#include "gossip/net/asio_driver.h"
#include "gossip/net/identity.h"
#include "gossip/record_seal.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/random_messages.h"

namespace {

using namespace starling;
using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr int kPatienceMs = 200;  // a peer that is stopped or cut off must not hold us up
constexpr auto kGreetsAgain = std::chrono::seconds(2);    // whoever does not answer
constexpr auto kGreetsOthers = std::chrono::seconds(15);  // who did: it may have begun anew

// The same at every start.
gossip::Identity own_identity() {
  Rng rng(0xBAD);
  for (;;) {
    gossip::SeedBytes seed{};
    for (std::uint8_t& byte : seed) byte = static_cast<std::uint8_t>(rng.next());
    if (const auto identity = gossip::Identity::from_seed(seed)) return *identity;
  }
}

struct Target {
  gossip::PublicKey key;
  std::string host;
  std::uint16_t control_port = 0;
};

class Frames {
 public:
  explicit Frames(std::uint64_t seed) : rng_(seed), messages_(seed) {}

  Bytes noise(std::size_t bytes) {
    Bytes out(bytes);
    for (std::byte& byte : out) byte = static_cast<std::byte>(rng_.next());
    return out;
  }
  // What the library accepts and only the protocol can refuse.
  Bytes valid(bool bulk) {
    for (;;) {
      const auto kind = rng_.below(std::variant_size_v<gossip::Message>);
      const gossip::Message message = messages_.of_type(kind);
      const bool head = gossip::is_bulk(message);
      if (head != bulk) continue;
      const PeerId from = rng_.chance(0.7) ? own_identity().id() : messages_.peer();
      if (!head) return gossip::encode(from, message);
      Bytes frame = noise(gossip::kBulkHeadBytes + 1 + rng_.below(64 * 1024));
      gossip::encode_bulk_head(from, message, frame);
      return frame;
    }
  }
  Bytes mutated(bool bulk) {
    Bytes frame = valid(bulk);
    for (auto left = 1 + rng_.below(8); left > 0; --left) {
      frame[rng_.below(frame.size())] = static_cast<std::byte>(rng_.next());
    }
    if (rng_.chance(0.5)) gossip::seal(frame);
    return frame;
  }
  Bytes cut_short(bool bulk) {
    Bytes frame = valid(bulk);
    frame.resize(rng_.below(frame.size()));
    return frame;
  }
  Bytes extended(bool bulk) {
    Bytes frame = valid(bulk);
    const Bytes more = noise(1 + rng_.below(200));
    frame.insert(frame.end(), more.begin(), more.end());
    gossip::seal(frame);
    return frame;
  }
  Bytes oversized(bool bulk) {
    const auto most = bulk ? gossip::kBulkFrameBytesMax : gossip::kControlFrameBytesMax;
    return noise(most + 1 + rng_.below(most));
  }
  // Of a peer that cannot be dialled, in a process of its own at every start.
  Bytes hello(const gossip::RunIdentity& run) const {
    gossip::Hello hello{.self = {}, .identity = run};
    hello.self.key = gossip::record_key({self_.id(), process_}, 0);
    hello.self.address.key = self_.key();
    hello.self.signature = self_.sign(gossip::sealed_text(run.run, hello.self));
    return gossip::encode(self_.id(), hello, gossip::kGreetingVersion);
  }
  Rng& rng() { return rng_; }

 private:
  const gossip::Identity self_ = own_identity();
  const std::uint64_t process_ = starling::gossip::time_of_day_now();
  Rng rng_;
  gossip::RandomMessages messages_;
};

// Plain TCP, dialled without waiting. Everything may fail: the other side is free to hang up.
class RawLine {
 public:
  RawLine(const Target& target, bool bulk)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(target.control_port + bulk));
    ::inet_pton(AF_INET, target.host.c_str(), &address.sin_addr);
    (void)::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  ~RawLine() { ::close(socket_); }
  RawLine(RawLine&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  RawLine& operator=(RawLine&&) = delete;

  void await() const {
    pollfd up{socket_, POLLOUT, 0};
    ::poll(&up, 1, kPatienceMs);
  }
  void send(const Bytes& bytes) {
    await();
    (void)::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

 private:
  int socket_;
};

// ZeroMQ, as a peer would speak it.
class ZmqLine {
 public:
  ZmqLine(zmq::context_t& context, const Target& target, bool bulk)
      : socket_(context, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, kPatienceMs);
    socket_.set(zmq::sockopt::sndtimeo, kPatienceMs);
    const gossip::Identity self = own_identity();
    const auto server = gossip::curve_key_of(target.key);
    if (server) socket_.set(zmq::sockopt::curve_serverkey, view(*server));
    socket_.set(zmq::sockopt::curve_publickey, view(self.curve_public()));
    socket_.set(zmq::sockopt::curve_secretkey, view(self.curve_secret()));
    socket_.connect("tcp://" + target.host + ":" + std::to_string(target.control_port + bulk));
  }

  // False if it was not taken: the peer is away, or does not read.
  bool send(const Bytes& frame, bool more = false) {
    const auto flags = more ? zmq::send_flags::sndmore : zmq::send_flags::none;
    return socket_.send(zmq::buffer(frame.data(), frame.size()), flags).has_value();
  }
  // The next message, if one is here.
  std::optional<gossip::Message> hear() {
    zmq::message_t heard;
    if (!socket_.recv(heard, zmq::recv_flags::dontwait)) return std::nullopt;
    auto frame = gossip::decode({heard.data<std::byte>(), heard.size()});
    if (!frame.ok()) return gossip::Message{};
    return frame.value().message;
  }

 private:
  static std::string view(const gossip::CurveKey& key) { return {key.begin(), key.end()}; }

  zmq::socket_t socket_;
};

// Our lines to one peer, kept: a line that is closed at once, over a slow link, says nothing. On
// that of control it is told, as in decent greetings, that we are of its run.
class Victim {
 public:
  Victim(zmq::context_t& context, const Target& target)
      : control_(context, target, false), bulk_(context, target, true) {}

  // Says and hears what it can without waiting. `run`: theirs, as soon as any of them has told.
  void introduce(const Frames& frames, gossip::RunIdentity& run) {
    while (const auto heard = control_.hear()) {
      if (const auto* refuse = std::get_if<gossip::Refuse>(&*heard)) {
        if (run != refuse->identity) said_ = {};
        run = refuse->identity;
      }
      welcome_ = welcome_ || std::holds_alternative<gossip::Welcome>(*heard);
    }
    if (Clock::now() - said_ < (welcome_ ? kGreetsOthers : kGreetsAgain)) return;
    said_ = Clock::now();
    control_.send(frames.hello(run));
  }
  bool welcome() const { return welcome_; }
  ZmqLine& line(bool bulk) { return bulk ? bulk_ : control_; }

 private:
  ZmqLine control_, bulk_;
  Clock::time_point said_{};
  bool welcome_ = false;
};

class HostilePeer {
 public:
  HostilePeer(std::uint64_t seed, std::vector<Target> targets)
      : frames_(seed), targets_(std::move(targets)) {
    for (const Target& target : targets_) victims_.emplace_back(context_, target);
  }

  void attack_once() {
    for (Victim& victim : victims_) victim.introduce(frames_, run_);
    const std::size_t whom = frames_.rng().below(targets_.size());
    const bool bulk = frames_.rng().chance(0.5);
    frames_.rng().chance(0.4) ? attack_raw(targets_[whom], bulk)
                              : attack_zmq(victims_[whom].line(bulk), bulk);
  }

  std::string report() {
    done_["welcome"] = static_cast<std::uint64_t>(std::count_if(
        victims_.begin(), victims_.end(), [](const Victim& victim) { return victim.welcome(); }));
    std::string text;
    for (const auto& [what, times] : done_) {
      text += (text.empty() ? "{\"" : ", \"") + what + "\": " + std::to_string(times);
    }
    return text + "}";
  }

 private:
  static Bytes bytes_of(const std::vector<int>& values) {
    Bytes out;
    for (const int value : values) out.push_back(static_cast<std::byte>(value));
    return out;
  }
  // The greeting of ZMTP 3.1 with the CURVE mechanism (rfc.zeromq.org/spec/37): behind one of
  // another mechanism nothing would be read.
  static Bytes greeting() {
    Bytes out = bytes_of({0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, 1, 'C', 'U', 'R', 'V', 'E'});
    out.resize(64);
    return out;
  }

  void attack_raw(const Target& target, bool bulk) {
    Rng& rng = frames_.rng();
    switch (rng.below(5)) {
      case 0: {
        RawLine line(target, bulk);
        line.send(frames_.noise(1 + rng.below(5000)));
        ++done_["raw noise"];
        break;
      }
      case 1: {  // stays open to the end, with a greeting that never ends
        if (held_.size() >= 200) held_.clear();
        held_.emplace_back(target, bulk);
        Bytes half = greeting();
        half.resize(rng.below(half.size()));
        held_.back().send(half);
        ++done_["half greeting"];
        break;
      }
      case 2: {  // a frame of 2^62 bytes is announced
        RawLine line(target, bulk);
        line.send(greeting());
        line.send(bytes_of({0x02, 0x40, 0, 0, 0, 0, 0, 0, 0}));
        line.send(frames_.noise(100));
        ++done_["impossible length"];
        break;
      }
      case 3: {
        RawLine line(target, bulk);
        line.send(greeting());
        line.send(frames_.noise(1 + rng.below(500)));
        ++done_["noise for a handshake"];
        break;
      }
      default: {
        std::vector<RawLine> flood;
        for (int i = 0; i < 32; ++i) flood.emplace_back(target, bulk);
        for (const RawLine& line : flood) line.await();
        done_["connection"] += 32;
      }
    }
  }

  void attack_zmq(ZmqLine& line, bool bulk) {
    Rng& rng = frames_.rng();
    const auto kind = rng.below(8);
    const auto times = kind == 7 ? 2000 : 1 + rng.below(20);
    for (std::uint64_t i = 0; i < times; ++i) {
      bool taken = false;
      switch (kind) {
        case 0: taken = count("valid frame", line.send(frames_.valid(bulk))); break;
        case 1: taken = count("mutated frame", line.send(frames_.mutated(bulk))); break;
        case 2: taken = count("truncated frame", line.send(frames_.cut_short(bulk))); break;
        case 3: taken = count("extended frame", line.send(frames_.extended(bulk))); break;
        case 4: taken = count("oversized frame", line.send(frames_.oversized(bulk))); break;
        case 5: taken = count("wrong lane", line.send(frames_.valid(!bulk))); break;
        case 6:
          taken = line.send(frames_.valid(bulk), true) && line.send(frames_.valid(bulk));
          count("multipart message", taken);
          break;
        default: taken = count("flooded frame", line.send(frames_.valid(false)));
      }
      if (!taken) return;  // nobody reads
    }
  }

  bool count(const char* what, bool taken) {
    if (taken) ++done_[what];
    return taken;
  }

  Frames frames_;
  std::vector<Target> targets_;
  std::vector<RawLine> held_;
  std::map<std::string, std::uint64_t> done_;
  zmq::context_t context_;
  gossip::RunIdentity run_;  // nobody's, until they have told
  std::vector<Victim> victims_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "key") {
    std::printf("%s\n", gossip::to_string(own_identity().key()).c_str());
    return 0;
  }
  std::vector<Target> targets;
  for (int i = 3; i < argc; ++i) {
    const std::string address = argv[i];
    const auto colon = address.rfind(':');
    const auto at = address.find('@');
    if (colon == std::string::npos || at == std::string::npos) break;
    const auto key = gossip::parse_public_key(address.substr(0, at));
    if (!key) break;
    const auto port = std::strtoul(address.c_str() + colon + 1, nullptr, 10);
    targets.push_back(
        {*key, address.substr(at + 1, colon - at - 1), static_cast<std::uint16_t>(port)});
  }
  if (targets.empty()) {
    std::fputs("usage: net_hostile_peer SEED SECONDS KEY@IP:PORT...\n", stderr);
    return 2;
  }
  const auto end = Clock::now() + std::chrono::duration<double>(std::strtod(argv[2], nullptr));
  HostilePeer peer(std::strtoull(argv[1], nullptr, 10), std::move(targets));
  while (Clock::now() < end) {
    peer.attack_once();
    ::poll(nullptr, 0, 20);  // it has two processors to share with those it attacks
  }
  std::printf("%s\n", peer.report().c_str());
  return 0;
}
