// What the two sides of bench_exchange share, and its probes: a link of their own between the same
// machines, over which somebody asks twenty times a second and somebody answers.
#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "gossip/net/link.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {

struct Settings {
  std::string host;
  std::uint16_t port = 0;  // driver: two, probe: two, raw: one
  double seconds = 10;
  std::uint32_t stripes = 64;
  std::size_t payload = 256 * 1024;
  std::uint16_t window = 4;
  std::uint32_t slots = 32;
};

inline constexpr std::uint8_t kServer = 1, kDriver = 2;
inline constexpr std::uint8_t kProbes = 10;  // of the identities of probes

inline void wait(double seconds) {
  static_cast<void>(eventually([] { return false; }, seconds));
}

inline PeerAddress address_of(std::uint8_t identity, const std::string& host, std::uint16_t port) {
  PeerAddress address{
      {}, port, static_cast<std::uint16_t>(port + 1), test_identity(identity).key()};
  STARLING_ASSERT(set_host(address, host));
  return address;
}

inline LinkConfig listening(std::uint8_t identity, const Settings& settings, std::uint16_t offset) {
  LinkConfig config = link_config(test_identity(identity));
  config.host = settings.host;
  config.control_port = static_cast<std::uint16_t>(settings.port + offset);
  config.bulk_port = static_cast<std::uint16_t>(config.control_port + 1);
  config.run = {.run = 1, .model = 1, .layout = 1};
  return config;
}

inline void echo_probes(const Settings& settings, const std::atomic<bool>& ended) {
  ZmqLink link = ZmqLink::open(listening(kProbes + kServer, settings, 2)).value();
  while (!ended) {
    pollfd item{link.descriptor(), POLLIN, 0};
    ::poll(&item, 1, 100);
    while (const auto arrival = link.try_receive(steady_now())) {
      const auto* const ping = std::get_if<Ping>(&arrival->message);
      if (ping == nullptr) continue;
      const PeerAddress back{{}, 0, 0, test_identity(kProbes + kDriver).key()};
      static_cast<void>(connect(link, back, false));
      Pong pong;
      pong.nonce = ping->nonce;
      static_cast<void>(link.try_send_control(arrival->from, pong));
    }
  }
}

class Prober {
 public:
  Prober(const Settings& settings, const PeerAddress& echo)
      : echo_(echo), link_(ZmqLink::open(link_of(settings)).value()) {
    STARLING_ASSERT(connect(link_, echo_));
  }

  // Asks twenty times a second; milliseconds, in order of size.
  std::vector<double> round_trips(double seconds) {
    std::map<std::uint64_t, Instant> asked;
    std::vector<double> milliseconds;
    const Instant end = steady_now() + from_seconds(seconds);
    for (Instant next = steady_now(); steady_now() < end || !asked.empty();) {
      if (steady_now() > end + std::chrono::seconds(5)) break;  // lost with a connection
      if (steady_now() >= next && steady_now() < end) {
        const bool sent =
            link_.try_send_control(id_of(echo_.key), ping(++nonce_)) == Sending::kSent;
        if (sent) asked[nonce_] = steady_now();
        next += std::chrono::milliseconds(50);
      }
      link_.flush(steady_now());
      pollfd item{link_.descriptor(), POLLIN, 0};
      ::poll(&item, 1, 1);
      while (const auto arrival = link_.try_receive(steady_now())) {
        const auto* const pong = std::get_if<Pong>(&arrival->message);
        const auto found = pong == nullptr ? asked.end() : asked.find(pong->nonce);
        if (found == asked.end()) continue;
        milliseconds.push_back(1e3 * to_seconds(steady_now() - found->second));
        asked.erase(found);
      }
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    return milliseconds;
  }

 private:
  static LinkConfig link_of(const Settings& settings) {
    LinkConfig config = listening(kProbes + kDriver, settings, 2);
    config.host.clear();
    return config;
  }
  const PeerAddress echo_;
  ZmqLink link_;
  std::uint64_t nonce_ = 0;
};

}  // namespace starling::gossip
