#include "gossip/net/link_callers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/log.h"

namespace starling::gossip {
namespace {

constexpr int kWatched = ZMQ_EVENT_LISTENING | ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
// The silent may have one place in so many before others must go for them.
constexpr std::size_t kSilentPart = 4;
// When it is crowded some more are sent away, so that this is not looked for at every arrival.
constexpr std::size_t kSparePart = 16;

std::uint64_t beyond(std::uint64_t all, std::uint64_t part) { return all > part ? all - part : 0; }

}  // namespace

Callers::Callers(zmq::context_t& context, Inbox& inbox, std::size_t callers_max, CallerStats& stats)
    : context_(context), inbox_(inbox), callers_max_(callers_max), stats_(stats) {}

Callers::~Callers() {
  for (const LinkLane lane : {LinkLane::kControl, LinkLane::kBulk}) unwatch(lane);
}

void Callers::unwatch(LinkLane lane) {
  Lane& watched = lanes_[index(lane)];
  if (!watched.monitor) return;
  static_cast<void>(::zmq_socket_monitor(watched.listener, nullptr, 0));
  watched.monitor.reset();
}

// ZeroMQ's thread would stand still before a monitor that is full, so it never is. Refused attempts
// to accept are not told: when there are no descriptors it reports nothing else.
void Callers::watch(zmq::socket_t& listener, LinkLane lane) {
  Lane& watched = lanes_[index(lane)];
  const std::string address = "inproc://callers-" + std::string(door_domain(lane));
  if (::zmq_socket_monitor(listener.handle(), address.c_str(), kWatched) != 0) {
    throw zmq::error_t();
  }
  watched.listener = listener.handle();
  zmq::socket_t monitor(context_, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.set(zmq::sockopt::rcvhwm, 0);
  monitor.connect(address);
  watched.monitor =
      std::make_unique<Port>(std::move(monitor), inbox_, PortName{PortKind::kInternal, 0});
}

void Callers::read_monitors(Instant now) {
  read_monitor(now, LinkLane::kControl);
  read_monitor(now, LinkLane::kBulk);
  stats_.open = callers_.size();
  note_unfinished();
  if (total() > callers_max_) make_room();
}

std::uint64_t Callers::not_let_in() const {
  std::uint64_t count = 0;
  for (const Lane& lane : lanes_) count += beyond(lane.accepted, lane.let_in);
  return count;
}

void Callers::forget_unfinished() {
  read_monitor(Instant{}, LinkLane::kControl);
  read_monitor(Instant{}, LinkLane::kBulk);
  own_unfinished_ = not_let_in();
  stats_.unfinished = 0;
}

// An event does not tell whose handshake is through, so whoever is silent may still be at it.
void Callers::note_unfinished() {
  const std::uint64_t now = beyond(not_let_in(), own_unfinished_ + count(Standing::kSilent));
  const std::uint64_t before = stats_.unfinished;
  stats_.unfinished = std::max(before, now);
  if (std::bit_width(now) <= std::bit_width(before)) return;  // said ever more rarely
  log_warning(
      "connections ended before their handshake was through, {} so far{}{}: no peers of this "
      "version, not let in, or just a look at the port",
      now, last_silent_.empty() ? "" : ", the last from ", last_silent_);
}

// An event is a frame with its number and a value, here the descriptor, and one with the address.
// All there are, always: that a descriptor no longer means what an event said is told by the next.
void Callers::read_monitor(Instant now, LinkLane lane) {
  Port* const monitor = lanes_[index(lane)].monitor.get();
  zmq::message_t frame;
  while (monitor != nullptr && monitor->try_receive(frame)) {
    std::uint16_t event = 0;
    std::int32_t descriptor = -1;
    if (!frame.more() || frame.size() < sizeof event + sizeof descriptor) continue;
    std::memcpy(&event, frame.data(), sizeof event);
    std::memcpy(&descriptor, frame.data<char>() + sizeof event, sizeof descriptor);
    if (event == ZMQ_EVENT_LISTENING) backlog_.add(descriptor);
    if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) ++lanes_[index(lane)].let_in;
    if (event == ZMQ_EVENT_ACCEPTED) on_accepted(now, lane, descriptor);
    if (event == ZMQ_EVENT_DISCONNECTED) on_gone(lane, descriptor);
  }
}

void Callers::on_accepted(Instant now, LinkLane lane, int descriptor) {
  ++lanes_[index(lane)].accepted;
  const std::uint64_t socket = socket_number(descriptor);
  if (socket == 0) return;  // gone already
  // The lanes have a monitor each, so that one may be behind the other: what it tells of, or what
  // was known, has gone since.
  const auto old = callers_.find(descriptor);
  if (old != callers_.end() && old->second.socket == socket) return;
  if (old != callers_.end()) on_gone(old->second.lane, descriptor);
  const std::string host = peer_host(descriptor);
  const Place place = callers_.try_emplace(descriptor).first;
  Caller& caller = place->second;
  caller.lane = lane;
  caller.socket = socket;
  caller.number = ++last_number_;
  caller.host = host;
  caller.network = network_of(host);
  caller.heard = now;
  ++counts_[static_cast<std::size_t>(caller.standing)];
  if (!limit_.admit(now, host)) {
    end(place, &CallerStats::hasty, "too many from there in a short time");
  } else if (backlog_.is_shut()) {
    end(place, &CallerStats::crowded, "no descriptor is left for it");
  }
}

void Callers::on_gone(LinkLane lane, int descriptor) {
  const auto place = callers_.find(descriptor);
  if (place == callers_.end() || place->second.lane != lane) return;
  leave(place->second);
  callers_.erase(place);
}

// A frame may outlive its connection and meet another under the same descriptor; the next frame, or
// the next look at an empty lane, mends what that gets wrong.
void Callers::on_frame(Instant now, LinkLane lane, const zmq::message_t& frame,
                       const PublicKey& key) {
  const int descriptor = source_descriptor(frame);
  if (descriptor < 0) blind_ = true;
  auto place = callers_.find(descriptor);
  if (place == callers_.end()) {
    read_monitors(now);
    place = callers_.find(descriptor);
  }
  if (place == callers_.end() || place->second.ended || place->second.lane != lane) return;
  Caller& caller = place->second;
  caller.heard = now;
  caller.intake.note_frame(frame.size());
  caller.said += frame.size();
  if (caller.key != key) set_key(caller, key);
}

void Callers::look(Instant now, const StandingOf& standing_of) {
  read_monitors(now);
  stats_.crowded += backlog_.look();
  auto next = callers_.upper_bound(last_looked_);
  for (std::size_t left = std::min(kLooksMax, callers_.size()); left > 0; --left) {
    if (next == callers_.end()) next = callers_.begin();
    last_looked_ = next->first;
    look_at(now, next++, standing_of);
  }
  ++look_number_;
}

void Callers::look_at(Instant now, Place place, const StandingOf& standing_of) {
  Caller& caller = place->second;
  if (caller.ended) return;
  if (caller.key) set_standing(caller, standing_of(*caller.key));
  if (caller.standing == Standing::kUnwelcome) {
    if (!caller.last_words_until) caller.last_words_until = now + kLastWords;
    if (now >= *caller.last_words_until) {
      end(place, &CallerStats::unwelcome, "its key is not on the allow-list any more");
    }
    return;
  }
  caller.last_words_until.reset();
  // Of somebody who is about to be let in some may come before the word that lets him in. A partner
  // whom a full table forgot loses a connection so, and comes back by another.
  const bool payloads = caller.lane == LinkLane::kBulk;
  if (caller.standing == Standing::kStranger &&
      caller.said > (payloads ? kStrangerPayloadsMax : kStrangerMessagesMax)) {
    return end(place, &CallerStats::floods,
               payloads ? "it sends payloads and is no member" : "it says much and is no member");
  }
  const auto taken = bytes_taken(place->first, caller.socket);
  if (taken && is_greedy(caller, *taken)) {
    end(place, &CallerStats::greedy, "it sends what does not become messages");
  }
}

// Where all that was whole by the last look has been read since, and nothing of this one was there,
// what it had sent by then is not whole. Where its last word has been read nothing is owed.
bool Callers::is_greedy(Caller& caller, std::uint64_t taken) {
  if (blind_) return false;
  const HeldBytes bounds = held_bytes(caller.lane);
  Intake& intake = caller.intake;
  intake.look(taken, lanes_[index(caller.lane)].read_empty_in > caller.looked_in);
  caller.looked_in = look_number_;
  set_held(caller, intake.held() + intake.told_of_itself());
  const std::size_t strangers = count(Standing::kSilent) + count(Standing::kStranger);
  const bool crowded = strangers_held_ > kStrangersBytesMax;
  return intake.unfinished() > bounds.unfinished_max || intake.held() > bounds.waiting_max ||
         (crowded && caller.held >= strangers_held_ / strangers);
}

void Callers::set_standing(Caller& caller, Standing standing) {
  --counts_[static_cast<std::size_t>(caller.standing)];
  ++counts_[static_cast<std::size_t>(standing)];
  if (caller.standing != standing) caller.said = 0;
  caller.standing = standing;
  set_held(caller, caller.held);
}

// Of the silent and of strangers only: where something is held, there are some.
void Callers::set_held(Caller& caller, std::uint64_t held) {
  const bool counts =
      caller.standing == Standing::kSilent || caller.standing == Standing::kStranger;
  strangers_held_ -= caller.held;
  caller.held = counts ? held : 0;
  strangers_held_ += caller.held;
}

void Callers::set_key(Caller& caller, const PublicKey& key) {
  if (caller.key && --of_key_[*caller.key] == 0) of_key_.erase(*caller.key);
  if (!caller.key) set_standing(caller, Standing::kStranger);
  caller.key = key;
  if (++of_key_[key] > kOfKeyMax) make_room_of(key);
}

// It counts no more.
void Callers::leave(Caller& caller) {
  if (std::exchange(caller.ended, true)) return;
  if (caller.standing == Standing::kSilent) last_silent_ = caller.host;
  set_held(caller, 0);
  --counts_[static_cast<std::size_t>(caller.standing)];
  if (caller.key && --of_key_[*caller.key] == 0) of_key_.erase(*caller.key);
}

std::size_t Callers::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::size_t{0});
}

// The first to go is the last.
std::vector<Callers::Place> Callers::expendable(Standing standing) {
  std::map<std::string_view, std::size_t> neighbours;
  std::vector<Place> found;
  for (auto place = callers_.begin(); place != callers_.end(); ++place) {
    if (place->second.ended || place->second.standing != standing) continue;
    found.push_back(place);
    ++neighbours[place->second.network];
  }
  const auto goes = [&](Place place) {
    const Caller& caller = place->second;
    const bool silent = standing == Standing::kSilent;
    const Instant heard = standing == Standing::kMember ? caller.heard : Instant{};
    return std::tuple(silent ? neighbours[caller.network] : 0, -heard.time_since_epoch(),
                      beyond(UINT64_MAX, caller.number));
  };
  std::sort(found.begin(), found.end(), [&](Place a, Place b) { return goes(a) < goes(b); });
  return found;
}

void Callers::make_room() {
  auto silent = expendable(Standing::kSilent);
  auto strangers = expendable(Standing::kStranger);
  auto members = expendable(Standing::kMember);
  const std::size_t silent_max = callers_max_ / kSilentPart;
  const std::size_t wanted = callers_max_ - callers_max_ / kSparePart;
  while (total() > wanted) {
    const bool many_silent = silent.size() > silent_max;
    auto& from = !many_silent && !strangers.empty() ? strangers
                 : !silent.empty()                  ? silent
                                                    : members;
    if (from.empty()) return;
    end(from.back(), &CallerStats::crowded, "there are too many in all");
    from.pop_back();
  }
}

void Callers::make_room_of(const PublicKey& key) {
  Place oldest = callers_.end();
  for (auto place = callers_.begin(); place != callers_.end(); ++place) {
    if (place->second.ended || place->second.key != key) continue;
    if (oldest == callers_.end() || place->second.heard < oldest->second.heard) oldest = place;
  }
  if (oldest != callers_.end()) {
    end(oldest, &CallerStats::crowded, "there are too many of one key");
  }
}

void Callers::note_reach(Instant now, const PublicKey& self, CallersReach& reach) const {
  for (const auto& [descriptor, caller] : callers_) {
    if (!caller.ended && caller.key && caller.key != self)
      reach.note(now, caller.lane, caller.host);
  }
}

void Callers::end_self_named(const zmq::message_t& frame) {
  const auto place = callers_.find(source_descriptor(frame));
  if (place == callers_.end() || place->second.ended) return;
  end(place, &CallerStats::greedy, "it names its connection itself");
}

void Callers::end_bulk_of(PeerId peer) {
  end_all_of(peer, true, &CallerStats::idle_readers, "it does not read what it is sent");
}

void Callers::end_flood_of(PeerId peer) {
  end_all_of(peer, false, &CallerStats::floods, "it says far too much");
}

void Callers::end_all_of(PeerId peer, bool bulk_alone, Counter counter, std::string_view why) {
  for (auto place = callers_.begin(); place != callers_.end(); ++place) {
    const Caller& caller = place->second;
    const bool its_own = caller.key && id_of(*caller.key) == peer;
    const bool meant = !bulk_alone || caller.lane == LinkLane::kBulk;
    if (!caller.ended && its_own && meant) end(place, counter, why);
  }
}

// Said aloud ever more rarely, as all that others can bring about.
void Callers::end(Place place, Counter counter, std::string_view why) {
  Caller& caller = place->second;
  leave(caller);
  ender_.end(place->first, caller.socket);
  const std::uint64_t times = ++(stats_.*counter);
  if (!is_worth_a_line(times)) return;
  log_warning("ended a connection that {} had made: {} ({} so far)",
              caller.key ? to_string(*caller.key) : caller.host, why, times);
}

}  // namespace starling::gossip
