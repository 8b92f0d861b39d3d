// SimulatedExchange, the part between peers: who meets whom, and what comes of it when.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"
#include "peer/simulate/simulate_exchange.h"

namespace starling::peer {

namespace {

bool has(const std::vector<std::uint32_t>& peers, std::uint32_t peer) {
  return std::find(peers.begin(), peers.end(), peer) != peers.end();
}

}  // namespace

void SimulatedExchange::meet(std::uint32_t peer, Key key) {
  const auto [place, first] = meetings_.try_emplace(key);
  Meeting& meeting = place->second;
  const bool drawn =
      plan_.audience == Audience::kGroup || plan_.audience == Audience::kNextInRotation;
  if (first && drawn) meeting.members = draw_members(peer, key);
  const bool server = plan_.audience == Audience::kServer;
  meeting.closed = meeting.closed || server;  // nobody is waited for
  const bool late = drawn ? !has(meeting.members, peer) : meeting.closed && !server;
  if (late) {  // it came when the others had met without it
    if (meeting.takers == 0 && meeting.closed) meetings_.erase(place);
    return;
  }
  meeting.parcels[peer] = offer(peer, key.fragment);
  ++meeting.takers;
  members_[peer].waits.push_back(
      {.key = key, .due = key.step + plan_.overlap_steps, .parcel_of = peer});
  if (server) return report_to_server(peer, key);
  send_to_members(peer, key);
  look(key);
}

// Everyone who comes to it; who waits for an earlier one may have made that step already.
std::vector<std::uint32_t> SimulatedExchange::draw_members(std::uint32_t first, Key key) {
  std::vector<std::uint32_t> members;
  for (const std::uint32_t peer : swarm_.living()) {
    const bool comes = members_[peer].offered < key.step && steps(peer) <= key.step;
    if (comes || peer == first) members.push_back(peer);
  }
  if (plan_.audience != Audience::kGroup) return members;
  for (std::size_t i = members.size(); i > 1; --i) {
    std::swap(members[i - 1], members[rng_.below(i)]);
  }
  return members;
}

std::vector<std::uint32_t> SimulatedExchange::group_of(const Meeting& meeting,
                                                       std::uint32_t peer) const {
  const auto& members = meeting.members;
  const auto rank =
      static_cast<std::size_t>(std::find(members.begin(), members.end(), peer) - members.begin());
  const std::size_t first = rank / plan_.count * plan_.count;
  const std::size_t end = std::min<std::size_t>(first + plan_.count, members.size());
  std::vector<std::uint32_t> group(members.begin() + static_cast<std::ptrdiff_t>(first),
                                   members.begin() + static_cast<std::ptrdiff_t>(end));
  std::sort(group.begin(), group.end());
  return group;
}

void SimulatedExchange::send_to_members(std::uint32_t peer, Key key) {
  const Meeting& meeting = meetings_.at(key);
  if (plan_.audience == Audience::kGroup) {
    for (const std::uint32_t other : group_of(meeting, peer)) {
      if (other != peer) send_parcel({peer, other}, key);
    }
  } else if (plan_.audience == Audience::kNextInRotation && meeting.members.size() > 1) {
    const auto& members = meeting.members;
    const auto rank =
        static_cast<std::size_t>(std::find(members.begin(), members.end(), peer) - members.begin());
    const std::uint64_t round = key.step / swarm_.config().outer.rounds.steps_per_round;
    send_parcel({peer, members[optim::rotation_target(rank, members.size(), round)]}, key);
  } else if (plan_.audience == Audience::kTargets) {
    std::vector<std::uint32_t> others = swarm_.living();
    std::erase(others, peer);
    for (std::uint32_t i = 0; i < plan_.count && !others.empty(); ++i) {
      const std::size_t drawn = rng_.below(others.size());
      send_parcel({peer, others[drawn]}, key);
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(drawn));
    }
  }
}

void SimulatedExchange::send_parcel(VirtualNetwork::Route route, Key key) {
  ++meetings_.at(key).under_way;
  carry(route, bytes(key.fragment), [this, route, key] {
    const auto meeting = meetings_.find(key);
    if (meeting == meetings_.end()) return;
    --meeting->second.under_way;
    meeting->second.came[route.to].push_back(route.from);
    look(key);
  });
}

// Whether the meeting has to wait for it.
bool SimulatedExchange::expected(std::uint32_t peer, Key key, const Meeting& meeting) const {
  if (!swarm_.lives(peer) || meeting.parcels.contains(peer)) return false;
  return members_[peer].offered < key.step && steps(peer) <= key.step;
}

// Something has come, or somebody is gone.
void SimulatedExchange::look(Key key) {
  const auto place = meetings_.find(key);
  if (place == meetings_.end()) return;
  Meeting& meeting = place->second;
  const bool drawn =
      plan_.audience == Audience::kGroup || plan_.audience == Audience::kNextInRotation;
  if (!meeting.closed && plan_.audience != Audience::kServer) {
    const std::vector<std::uint32_t> all = drawn ? meeting.members : swarm_.living();
    const bool waiting = std::any_of(
        all.begin(), all.end(), [&](std::uint32_t peer) { return expected(peer, key, meeting); });
    if (!waiting) close(key);
  }
  if (plan_.audience == Audience::kTargets && meeting.closed && meeting.under_way == 0) {
    finish_targets(key);
  }
  if (drawn) {
    const std::vector<std::uint32_t> members = meeting.members;
    for (const std::uint32_t peer : members) look_for(peer, key);
  }
  if (const auto left = meetings_.find(key); left != meetings_.end()) {
    if (left->second.takers == 0 && left->second.closed) meetings_.erase(left);
  }
}

void SimulatedExchange::close(Key key) {
  meetings_.at(key).closed = true;
  if (plan_.audience == Audience::kEveryone) sum_up(key);
}

void SimulatedExchange::sum_up(Key key) {
  const auto place = meetings_.find(key);
  if (place == meetings_.end()) return;
  Meeting& meeting = place->second;
  if (meeting.takers == 0) return;
  std::vector<std::uint32_t> peers;
  for (const auto& [peer, parcel] : meeting.parcels) {
    if (swarm_.lives(peer)) peers.push_back(peer);
  }
  // Where all who offered are gone, a newcomer that waits has what they offered.
  std::vector<const optim::Parcel*> parcels;
  for (const auto& [peer, parcel] : meeting.parcels) {
    if (peers.empty() || swarm_.lives(peer)) parcels.push_back(&parcel);
  }
  const auto takes = swarm_.network().sum_up(peers, bytes(key.fragment));
  if (!takes) {
    return arrives(swarm_.now() + kTryAgain, [this, key] { sum_up(key); });
  }
  exchange_->combine(parcels, meeting.shared);
  arrives(swarm_.now() + *takes, [this, key] {
    for (const std::uint32_t peer : swarm_.living()) {
      const auto there = meetings_.find(key);  // the last taker ends it
      if (there == meetings_.end()) return;
      hand_over(peer, key, there->second.shared);
    }
  });
}

// The round is over for all at once.
void SimulatedExchange::finish_targets(Key key) {
  Meeting& meeting = meetings_.at(key);
  if (!meeting.results.empty()) return;
  for (const auto& [peer, own] : meeting.parcels) {
    std::vector<std::uint32_t> from = meeting.came[peer];
    from.push_back(peer);
    std::sort(from.begin(), from.end());
    std::vector<const optim::Parcel*> parcels;
    for (const std::uint32_t other : from) parcels.push_back(&meeting.parcels.at(other));
    exchange_->combine(parcels, meeting.results[peer]);
  }
  for (const std::uint32_t peer : swarm_.living()) {
    const auto there = meetings_.find(key);
    if (there == meetings_.end()) return;
    for (const Wait& wait : std::vector<Wait>(members_[peer].waits)) {
      if (wait.key == key) hand_over(peer, key, there->second.results.at(wait.parcel_of));
    }
  }
}

// Of a group, or in the rotation: whether all is there that this peer waits for.
void SimulatedExchange::look_for(std::uint32_t peer, Key key) {
  const auto place = meetings_.find(key);
  if (place == meetings_.end()) return;
  Meeting& meeting = place->second;
  if (!meeting.parcels.contains(peer) || meeting.results.contains(peer)) return;
  const std::vector<std::uint32_t>& came = meeting.came[peer];
  std::vector<const optim::Parcel*> parcels;
  const auto missing = [&](std::uint32_t other) {
    return swarm_.lives(other) && !has(came, other);
  };
  if (plan_.audience == Audience::kGroup) {
    for (const std::uint32_t other : group_of(meeting, peer)) {
      if (other != peer && missing(other)) return;
      if (other == peer || has(came, other)) parcels.push_back(&meeting.parcels.at(other));
    }
  } else {
    const auto& members = meeting.members;
    const std::uint64_t round = key.step / swarm_.config().outer.rounds.steps_per_round;
    if (members.size() == 1) parcels.push_back(&meeting.parcels.at(peer));  // back to itself
    for (std::size_t rank = 0; rank < members.size() && members.size() > 1; ++rank) {
      if (members[optim::rotation_target(rank, members.size(), round)] != peer) continue;
      if (missing(members[rank])) return;
      if (has(came, members[rank])) parcels.push_back(&meeting.parcels.at(members[rank]));
    }
  }
  optim::Parcel& result = meeting.results[peer];
  if (parcels.empty()) {  // nothing came, and nothing will: of weight 0
    result = meeting.parcels.at(peer);
    std::fill(result.values.begin(), result.values.end(), 0.0F);
    result.weight = 0;
  } else {
    exchange_->combine(parcels, result);
  }
  for (const std::uint32_t taker : swarm_.living()) {  // and who took the meeting over from it
    for (const Wait& wait : std::vector<Wait>(members_[taker].waits)) {
      if (wait.key == key && wait.parcel_of == peer) hand_over(taker, key, result);
    }
    if (!meetings_.contains(key)) return;
  }
}

void SimulatedExchange::hand_over(std::uint32_t peer, Key key, const optim::Parcel& result) {
  Member& member = members_[peer];
  for (Wait& wait : member.waits) {
    if (wait.key == key) wait.result = &result;
  }
  if (member.blocked || finishing_) go_on(peer);
}

// --- without a meeting ---

void SimulatedExchange::ask(std::uint32_t peer, FragmentId fragment) {
  Member& member = members_[peer];
  if (member.asks[fragment.value] > 0 || (plan_.two_halves && peer % 2 == 1)) return;
  std::vector<std::uint32_t> others = swarm_.living();
  std::erase_if(others, [&](std::uint32_t other) {
    return other == peer || (plan_.two_halves && other % 2 == 0);
  });
  if (others.empty()) return;
  const VirtualNetwork::Route route{peer, others[rng_.below(others.size())]};
  ++member.asks[fragment.value];
  // A std::function copies what it owns: a parcel under way is kept here.
  const std::uint32_t place = keep(offer(peer, fragment));
  carry(route, bytes(fragment), [this, route, fragment, place] { answer(route, fragment, place); });
}

void SimulatedExchange::answer(VirtualNetwork::Route route, FragmentId fragment,
                               std::uint32_t offered) {
  const auto [from, to] = route;
  if (!swarm_.lives(to) || !swarm_.lives(from)) {
    if (swarm_.lives(from)) {
      --members_[from].asks[fragment.value];
      ++members_[from].counts.failed;
    }
    return release(offered);
  }
  optim::ExchangeState state_there = state(to, fragment);
  optim::Parcel answered;
  exchange_->answer(state_there, answered);
  members_[to].mass[fragment.value] = state_there.mass;
  optim::Parcel combined;
  const std::array<const optim::Parcel*, 2> both{&kept_[offered], &answered};
  exchange_->combine(both, combined);
  take(to, fragment, answered, combined);
  const std::uint32_t back = keep(std::move(combined));
  carry({to, from}, bytes(fragment), [this, from = from, fragment, offered, back] {
    if (swarm_.lives(from)) {
      --members_[from].asks[fragment.value];
      take(from, fragment, kept_[offered], kept_[back]);
    }
    release(offered);
    release(back);
  });
}

void SimulatedExchange::report_to_server(std::uint32_t peer, Key key) {
  carry({peer, server_}, bytes(key.fragment), [this, peer, key] {
    const auto place = meetings_.find(key);
    if (place == meetings_.end() || !swarm_.lives(peer)) return;
    optim::DelayedNesterovServer& server = servers_[key.fragment.value];
    server.receive(place->second.parcels.at(peer).values);
    optim::Parcel& reply = place->second.results[peer];
    reply.values.assign(server.weights().begin(), server.weights().end());
    carry({server_, peer}, bytes(key.fragment), [this, peer, key] {
      const auto there = meetings_.find(key);
      if (there == meetings_.end() || !swarm_.lives(peer)) return;
      hand_over(peer, key, there->second.results.at(peer));
    });
  });
}

std::uint32_t SimulatedExchange::keep(optim::Parcel parcel) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(kept_.size()));
    kept_.emplace_back();
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  kept_[place] = std::move(parcel);
  return place;
}

void SimulatedExchange::release(std::uint32_t place) { free_.push_back(place); }

}  // namespace starling::peer
