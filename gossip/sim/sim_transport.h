// SimTransport: decides what becomes of every message between simulated peers.
//
// Modelled on ZeroMQ over TCP: one connection per ordered pair, re-established by itself; breaking
// it loses what is under way, now and then without anybody noticing; whatever is said meanwhile
// fails or waits. Payloads queue for their sender's uplink. Order holds within a lane unless
// reordering is on. It moves nothing: it answers when a message arrives, if at all.
//
// A peer behind a NAT cannot be dialled. What is for it goes back over the connection that it
// opened, as long as the NAT has not forgotten it; then the next message is lost in either
// direction, and it takes a message of its own to open another one. Thread: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/rng.h"
#include "gossip/sim/sim_options.h"

namespace starling::gossip {

struct Route {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

// What is decided when a message leaves.
struct Shipment {
  std::array<Instant, 2> arrivals;
  std::uint32_t copies = 0;  // 0: lost
  std::uint32_t epoch = 0;   // of the connection
  bool lasting = false;      // survives the connection, waits for a peer that is down
  bool overtakes = false;    // arrives before an earlier one of its lane
};

class SimTransport {
 public:
  SimTransport(const SimOptions& options, Rng rng);

  // --- connections ---
  void connect(Route route);
  void disconnect(Route route);
  void disconnect_all(std::uint32_t peer);  // a new process has opened nothing yet
  bool connected(Instant now, Route route) const;
  void break_connection(Instant now, Route route);
  void drop_all(std::uint32_t peer);  // its process died

  // --- NAT ---
  bool behind_nat(std::uint32_t peer) const {
    return !nat_idle_.empty() && nat_idle_[peer] > Duration{};
  }
  void rebind(Instant now, std::uint32_t peer);  // its NAT changes its addresses

  // A peer's links hold everything back until then; nothing is lost.
  void clog(std::uint32_t peer, Instant until);

  // --- partitions ---
  // Either replaces the one before. `cut`: nothing gets from one to the other.
  void partition();  // of a random shape
  void partition(const std::function<bool(Route)>& cut);
  void mend();
  bool blocked(Route route) const { return blocked_[at(route)]; }

  // --- messages ---
  Shipment ship(Instant now, Route route, bool bulk);
  bool arrives(Route route, const Shipment& shipment) const;

  void calm();  // all faults off, everything reachable

 private:
  struct Connection {
    bool open = false;
    std::uint32_t epoch = 0;
    Instant down_until;
    std::array<Instant, 2> last_arrival;  // per lane
    bool mapped = false;                  // dialled through a NAT, which remembers it
    Instant mapped_until;                 // until then
  };
  std::size_t at(Route route) const { return std::size_t{route.from} * peers_ + route.to; }
  Instant draw_arrival(Instant now, Route route, bool bulk);
  bool passes_nat(Instant now, Route route);

  const std::uint32_t peers_;
  const Duration latency_;
  SimFaults faults_;
  Rng rng_;
  std::vector<Connection> connections_;  // (from, to)
  std::vector<double> distance_;         // (from, to): factor on the latency
  std::vector<bool> blocked_;            // (from, to)
  std::vector<double> slowness_;         // of each peer's uplink: factor on the time of a payload
  std::vector<Instant> uplink_free_;
  std::vector<Instant> clogged_until_;
  std::vector<Duration> nat_idle_;  // its NAT forgets after; zero: it can be dialled
};

}  // namespace starling::gossip
