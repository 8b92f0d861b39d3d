#include "gossip/sim/sim_transport.h"

#include <algorithm>
#include <cmath>

namespace starling::gossip {
namespace {

// Keepalive probes that find nobody end a connection after this.
constexpr Duration kDeadLineNoticed = std::chrono::seconds(40);

Duration scaled(Duration duration, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

SimTransport::SimTransport(const SimOptions& options, Rng rng)
    : peers_(options.peers),
      latency_(options.latency),
      faults_(options.faults),
      rng_(rng),
      connections_(std::size_t{peers_} * peers_),
      blocked_(std::size_t{peers_} * peers_, false),
      uplink_free_(peers_),
      clogged_until_(peers_) {
  distance_.reserve(connections_.size());
  for (std::size_t i = 0; i < connections_.size(); ++i)
    distance_.push_back(0.25 + 1.5 * rng_.unit());
  for (std::uint32_t peer = 0; peer < peers_; ++peer)
    slowness_.push_back(std::pow(faults_.uplink_spread, 2 * rng_.unit() - 1));
  if (faults_.nat <= 0) return;
  nat_idle_.resize(peers_);
  for (std::uint32_t peer = options.seed_peers; peer < peers_; ++peer) {
    if (rng_.chance(faults_.nat)) nat_idle_[peer] = from_seconds(30 + 270 * rng_.unit());
  }
}

void SimTransport::connect(Route route) { connections_[at(route)].open = true; }

void SimTransport::disconnect(Route route) {
  connections_[at(route)].open = false;
  connections_[at(route)].mapped = false;
  ++connections_[at(route)].epoch;
}

void SimTransport::disconnect_all(std::uint32_t peer) {
  for (std::uint32_t other = 0; other < peers_; ++other) {
    connections_[at({peer, other})].open = false;
    connections_[at({peer, other})].mapped = false;
  }
}

bool SimTransport::connected(Instant now, Route route) const {
  const Connection& connection = connections_[at(route)];
  if (!connection.open || connection.down_until > now) return false;
  if (!behind_nat(route.to)) return true;
  const Connection& theirs = connections_[at({route.to, route.from})];
  return theirs.mapped && now - theirs.mapped_until < kDeadLineNoticed;
}

// Whether a NAT lets the message through; it also keeps, or opens, the way for later ones.
bool SimTransport::passes_nat(Instant now, Route route) {
  const bool from_nat = behind_nat(route.from);
  if (behind_nat(route.to)) {
    Connection& theirs = connections_[at({route.to, route.from})];
    if (from_nat || !theirs.mapped || theirs.mapped_until < now) return false;
    theirs.mapped_until = now + nat_idle_[route.to];
    return true;
  }
  if (!from_nat) return true;
  Connection& own = connections_[at(route)];
  const bool forgotten = own.mapped && own.mapped_until < now;
  own.mapped = true;
  own.mapped_until = now + nat_idle_[route.from];
  if (!forgotten) return true;
  ++own.epoch;
  ++connections_[at({route.to, route.from})].epoch;
  return false;
}

void SimTransport::rebind(Instant now, std::uint32_t peer) {
  for (std::uint32_t other = 0; other < peers_; ++other) {
    Connection& own = connections_[at({peer, other})];
    if (own.mapped) own.mapped_until = std::min(own.mapped_until, now - Duration(1));
  }
}

void SimTransport::break_connection(Instant now, Route route) {
  Connection& connection = connections_[at(route)];
  ++connection.epoch;
  // Half of the breaks are noticed: sending fails until the library has reconnected.
  if (rng_.chance(0.5)) connection.down_until = now + rng_.exponential(std::chrono::seconds(3), {});
}

void SimTransport::drop_all(std::uint32_t peer) {
  for (std::uint32_t other = 0; other < peers_; ++other) {
    ++connections_[at({other, peer})].epoch;
    connections_[at({peer, other})].mapped = false;
    // What it had sent may still be in somebody's receive buffer.
    if (rng_.chance(0.5)) ++connections_[at({peer, other})].epoch;
  }
}

void SimTransport::partition() {
  enum class Shape { kHalves, kOneAlone, kOneWay, kRandomPairs };
  const auto shape = static_cast<Shape>(rng_.below(4));
  const auto alone = static_cast<std::uint32_t>(rng_.below(peers_));
  std::vector<bool> side(peers_);
  for (std::uint32_t peer = 0; peer < peers_; ++peer) side[peer] = rng_.chance(0.5);
  partition([&](Route route) {
    switch (shape) {
      case Shape::kHalves: return bool(side[route.from] != side[route.to]);
      case Shape::kOneAlone: return (route.from == alone) != (route.to == alone);
      case Shape::kOneWay: return side[route.from] && !side[route.to];
      case Shape::kRandomPairs: return rng_.chance(0.3);
    }
    return false;
  });
}

void SimTransport::partition(const std::function<bool(Route)>& cut) {
  for (std::uint32_t from = 0; from < peers_; ++from) {
    for (std::uint32_t to = 0; to < peers_; ++to) blocked_[at({from, to})] = cut({from, to});
  }
}

void SimTransport::clog(std::uint32_t peer, Instant until) { clogged_until_[peer] = until; }

void SimTransport::mend() { std::fill(blocked_.begin(), blocked_.end(), false); }

Instant SimTransport::draw_arrival(Instant now, Route route, bool bulk) {
  Instant leaves = now;
  if (bulk) {
    Instant& free = uplink_free_[route.from];
    leaves = free = std::max(free, now) + scaled(faults_.bulk_time, slowness_[route.from]);
  }
  Duration delay = scaled(latency_, distance_[at(route)] * (0.5 + rng_.unit()));
  if (faults_.delay_spike > 0 && rng_.chance(faults_.delay_spike)) {
    // Heavy tail: the inverse of a uniform number, bounded.
    delay = std::min(scaled(std::chrono::milliseconds(500), 1.0 / (1.0 - rng_.unit())),
                     faults_.spike_max);
  }
  Instant& last = connections_[at(route)].last_arrival[bulk ? 1 : 0];
  const Instant clogged = std::max(clogged_until_[route.from], clogged_until_[route.to]);
  Instant arrival = std::max(leaves, clogged) + delay;
  if (!faults_.reordering) arrival = std::max(arrival, last);
  last = std::max(arrival, last);
  return arrival;
}

Shipment SimTransport::ship(Instant now, Route route, bool bulk) {
  Shipment shipment;
  if (!nat_idle_.empty() && !passes_nat(now, route)) return shipment;
  shipment.epoch = connections_[at(route)].epoch;
  if (faults_.loss > 0 && rng_.chance(faults_.loss)) return shipment;
  shipment.lasting = faults_.lasting > 0 && rng_.chance(faults_.lasting);
  const Instant before = connections_[at(route)].last_arrival[bulk ? 1 : 0];
  shipment.arrivals[shipment.copies++] = draw_arrival(now, route, bulk);
  shipment.overtakes = shipment.arrivals[0] < before;
  if (faults_.duplication > 0 && rng_.chance(faults_.duplication)) {
    // A copy comes soon after, or as a ghost from long ago.
    const Duration mean =
        rng_.chance(0.5) ? Duration(latency_) : Duration(std::chrono::seconds(10));
    shipment.arrivals[shipment.copies++] = shipment.arrivals[0] + rng_.exponential(mean, {});
  }
  return shipment;
}

bool SimTransport::arrives(Route route, const Shipment& shipment) const {
  return shipment.lasting || shipment.epoch == connections_[at(route)].epoch;
}

void SimTransport::calm() {
  mend();
  faults_ = SimFaults{};
  std::fill(uplink_free_.begin(), uplink_free_.end(), Instant{});
  std::fill(clogged_until_.begin(), clogged_until_.end(), Instant{});
  for (Connection& connection : connections_) {
    connection.down_until = Instant{};
    connection.last_arrival = {};
  }
}

}  // namespace starling::gossip
