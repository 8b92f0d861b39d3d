// SimNetwork, the part that carries what two peers that nobody can dial say to each other: in two
// legs, by a relay between them. What a link seals is modelled by what its sealing achieves: the
// relay learns nothing of the letter, and only the process that it is for can open it.
#include "base/assert.h"
#include "gossip/sim/sim_network.h"

namespace starling::gossip {

// A core's wish: from now on `peer` sends to `to` like this.
void SimNetwork::take_path(std::uint32_t peer, std::uint32_t to, const RelayPath& path) {
  auto& paths = processes_[peer].paths;
  if (path.relay == PeerId{}) {
    paths.erase(to);
  } else {
    paths[to] = path;
  }
}

void SimNetwork::forward_for(std::uint32_t relay, const RelayFor& wish) {
  auto& holders = processes_[relay].forwards_for;
  if (wish.wanted) {
    holders.insert(wish.peer);
  } else {
    holders.erase(wish.peer);
  }
}

// The first leg of the way to its reader.
Route SimNetwork::first_leg(Route route) const {
  const auto& paths = processes_[route.from].paths;
  const auto path = paths.find(route.to);
  if (path == paths.end()) return route;
  return {route.from, static_cast<std::uint32_t>(path->second.relay.value - 1)};
}

void SimNetwork::send(Route route, const Message& message, const SimPayload* payload) {
  STARLING_ASSERT(route.to < options_.peers);
  const Route leg = first_leg(route);
  std::optional<Message> read;
  const bool readable = reads_back(route, message, read);
  const Message& said = read ? *read : message;
  if (leg.to == route.to) return ship(route, {said, payload, std::nullopt, !readable});
  if (!readable) return;
  const std::uint64_t process = processes_[route.from].paths.at(route.to).process;
  ship(leg, {said, payload, Envelope{route, process}});
}

// At a relay: the second leg, if it has promised that to one of the two and has lines to both.
void SimNetwork::forward(std::uint32_t relay, const Parcel& parcel) {
  Process& process = processes_[relay];
  const Route route = parcel.envelope->route;
  const PeerId from = sim_peer_id(route.from), to = sim_peer_id(route.to);
  if (!process.forwards_for.contains(from) && !process.forwards_for.contains(to)) return;
  process.core->on_forwarded(local_now(process), from, to);
  drain(relay, nullptr);
  if (!transport_.connected(now_, {relay, route.to})) return;
  ++stats_[SimCount::kForwarded];
  const SimPayload* payload = is_bulk(parcel.message) ? &parcel.payload : nullptr;
  ship({relay, route.to}, {parcel.message, payload, parcel.envelope});
}

// At its reader.
void SimNetwork::open(std::uint32_t relay, const Parcel& parcel) {
  Process& process = processes_[parcel.envelope->route.to];
  if (process.life != parcel.envelope->process) return;
  process.core->on_relayed(local_now(process), sim_peer_id(relay),
                           sim_peer_id(parcel.envelope->route.from), parcel.message);
}

}  // namespace starling::gossip
