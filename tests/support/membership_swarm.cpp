#include "tests/support/membership_swarm.h"

#include <algorithm>

#include "base/assert.h"
#include "gossip/wire/wire.h"

namespace starling::gossip {
namespace {

constexpr int kRoundTripsToDial = 3;
constexpr Duration kProgressEvery = std::chrono::seconds(5);
constexpr Duration kNapLeast = std::chrono::milliseconds(10);
// Of running, before what came meanwhile is read: other threads must decipher it first.
constexpr Duration kReadsAfter = std::chrono::milliseconds(50);
constexpr std::string_view kMessageNames[] = {
    "Hello",      "Welcome",      "Refuse",     "Ping",          "Pong",         "Leave",
    "Offer",      "Accept",       "Decline",    "Commit",        "Committed",    "Abandoned",
    "Abort",      "Query",        "Resend",     "Finish",        "Push",         "Delta",
    "Parts",      "StateRequest", "StateOffer", "StateDeclined", "PieceRequest", "Piece",
    "BulkHello",  "PingRequest",  "PingAnswer", "Digest",        "Records",      "RelayAsk",
    "RelayGrant", "RelayDecline"};
static_assert(std::size(kMessageNames) == std::variant_size_v<Message>);

std::uint32_t index_of(PeerId id) { return static_cast<std::uint32_t>(id.value - 1); }
std::uint32_t index_of(const PeerAddress& address) { return index_of(id_of(address.key)); }

}  // namespace

std::string_view message_name(std::size_t index) { return kMessageNames[index]; }

MembershipSwarm::MembershipSwarm(const MembershipOptions& options)
    : reaches([](std::uint32_t, std::uint32_t) { return true; }),
      options_(options),
      rng_(options.seed),
      processes_(options.peers) {
  for (std::uint32_t peer = 0; peer < options.peers; ++peer) {
    const double when = peer < options.seed_peers ? 0 : rng_.unit();
    push(from_seconds(when * to_seconds(options.joins_within)) + now_, Kind::kStart, peer);
  }
}

PeerAddress MembershipSwarm::address_of(std::uint32_t peer) {
  PeerAddress address;
  STARLING_ASSERT(set_host(address, "198.51.100." + std::to_string(100 + peer % 100)));
  address.control_port = 1000;
  address.bulk_port = 1001;
  address.key = stand_in_key(PeerId{peer + 1ULL});
  return address;
}

void MembershipSwarm::push(Instant at, Kind kind, std::uint32_t peer, std::uint32_t detail) {
  queue_.push({at, sequence_++, kind, peer, detail});
}

void MembershipSwarm::reset() {
  counts_ = {};
  for (Process& process : processes_) process.traffic = {};
}

void MembershipSwarm::run_for(Duration duration) {
  const Instant end = now_ + duration;
  while (!queue_.empty() && queue_.top().at <= end) {
    const Event event = queue_.top();
    queue_.pop();
    now_ = event.at;
    handle(event);
  }
  now_ = end;
}

void MembershipSwarm::handle(const Event& event) {
  Process& process = processes_[event.peer];
  if (event.kind == Kind::kWake) {
    wake(event.peer);
  } else if (event.kind == Kind::kSleep) {
    process.asleep = true;
    push(now_ + rng_.exponential(process.starved->asleep, kNapLeast), Kind::kWake, event.peer);
  } else if (process.asleep) {
    process.waiting.push_back(event);
  } else if (event.kind == Kind::kDeliver && now_ < process.reads_at) {
    push(process.reads_at, event.kind, event.peer, event.detail);
  } else {
    run(event);
  }
}

void MembershipSwarm::wake(std::uint32_t peer) {
  Process& process = processes_[peer];
  process.asleep = false;
  process.reads_at = now_ + kReadsAfter;
  push(now_ + rng_.exponential(process.starved->awake, kNapLeast), Kind::kSleep, peer);
  const auto due = [&] { return process.core ? process.core->next_deadline() : std::nullopt; };
  while (process.starved->unnoticed && due() && *due() < now_) {
    process.core->on_deadline(*due());
    drain(peer);
  }
  for (const Event& late : std::exchange(process.waiting, {})) {
    const Instant at = late.kind == Kind::kDeliver ? process.reads_at : now_;
    push(at, late.kind, late.peer, late.detail);
  }
}

void MembershipSwarm::run(const Event& event) {
  Process& process = processes_[event.peer];
  if (event.kind == Kind::kStart) return start(event.peer);
  if (event.kind == Kind::kDeliver) {
    const Parcel& parcel = *parcels_[event.detail];
    if (process.core) {
      ++process.traffic.messages_in;
      process.traffic.bytes_in += parcel.bytes;
      process.core->on_message(now_, PeerId{parcel.from + 1ULL}, parcel.message);
      drain(event.peer);
    }
    free_parcels_.push_back(event.detail);
    return;
  }
  if (!process.core) return;
  if (event.kind == Kind::kProgress) {
    process.tokens += options_.tokens_per_second * to_seconds(kProgressEvery);
    process.core->on_progress(now_, static_cast<std::uint64_t>(process.tokens),
                              static_cast<float>(options_.tokens_per_second));
    push(now_ + kProgressEvery, Kind::kProgress, event.peer);
  } else if (event.detail == process.ticket) {
    process.armed.reset();
    process.core->on_deadline(now_);
    drain(event.peer);
  }
}

void MembershipSwarm::start(std::uint32_t peer) {
  Process& process = processes_[peer];
  ++process.life;
  ++process.ticket;
  process.armed.reset();
  process.lines.clear();
  process.tokens = 0;
  CoreIdentity identity;
  identity.self.key = {PeerId{peer + 1ULL}, process.life};
  identity.self.address = address_of(peer);
  process.seal = std::make_unique<StandInSeal>(PeerId{peer + 1ULL});
  identity.seal = process.seal.get();
  identity.run = {.run = 1, .model = 2, .layout = 3};
  identity.stripes = {1};
  identity.seed = rng_.next();
  process.core = std::make_unique<Core>(options_.config, identity, RestoredState{}, now_);
  std::vector<PeerAddress> seeds;
  for (std::uint32_t seed = 0; seed < options_.seed_peers; ++seed) {
    if (seed != peer) seeds.push_back(address_of(seed));
  }
  process.core->on_join(now_, seeds);
  drain(peer);
  if (options_.tokens_per_second > 0 && process.life == 1) {
    push(now_ + from_seconds(rng_.unit() * to_seconds(kProgressEvery)), Kind::kProgress, peer);
  }
}

void MembershipSwarm::crash(std::uint32_t peer) {
  processes_[peer].core.reset();
  notices_[peer] = {now_, now_, now_, 0};
}

void MembershipSwarm::restart(std::uint32_t peer) { start(peer); }

void MembershipSwarm::leave(std::uint32_t peer) {
  processes_[peer].core->on_leave(now_);
  drain(peer);
  processes_[peer].core.reset();
}

void MembershipSwarm::starve(std::uint32_t peer, const Starvation& starvation) {
  processes_[peer].starved = starvation;
  push(now_ + rng_.exponential(starvation.awake, kNapLeast), Kind::kSleep, peer);
}

// --- a driver ---

void MembershipSwarm::drain(std::uint32_t peer) {
  Process& process = processes_[peer];
  while (const auto action = process.core->poll_action()) act(peer, *action);
  const auto due = process.core->next_deadline();
  if (due == process.armed) return;
  // A core takes a deadline long past for a pause of its own. It must never set itself one.
  STARLING_ASSERT(!due || *due >= now_ || process.starved);
  process.armed = due;
  ++process.ticket;
  if (due) push(std::max(*due, now_), Kind::kDeadline, peer, process.ticket);
}

void MembershipSwarm::act(std::uint32_t peer, const Action& action) {
  Process& process = processes_[peer];
  const auto dialled = [&](std::uint32_t to) {
    return now_ + kRoundTripsToDial * (distance(peer, to) + distance(to, peer));
  };
  if (const auto* wish = std::get_if<Send>(&action)) {
    const std::uint32_t to = index_of(wish->to);
    if (const auto line = process.lines.find(to); line != process.lines.end()) {
      send({peer, to}, wish->message, line->second);
    }
  } else if (const auto* reply = std::get_if<Reply>(&action)) {
    const auto& theirs = processes_[index_of(reply->to)].lines;
    if (const auto line = theirs.find(peer); line != theirs.end()) {
      send({peer, index_of(reply->to)}, reply->message, line->second);
    }
  } else if (const auto* connect = std::get_if<Connect>(&action)) {
    const std::uint32_t to = index_of(connect->address);
    const bool reached = processes_[to].lines.count(peer) != 0;  // its line serves both
    const bool fresh = process.lines.emplace(to, reached ? now_ : dialled(to)).second;
    if (fresh && !reached) ++counts_.dials;
  } else if (const auto* gone = std::get_if<Disconnect>(&action)) {
    process.lines.erase(index_of(gone->peer));
  } else if (const auto* greet = std::get_if<Greet>(&action)) {
    const std::uint32_t to = index_of(greet->address);
    const bool fresh = process.lines.emplace(to, dialled(to)).second;
    send({peer, to}, greet->hello, process.lines.at(to));
    if (fresh) process.lines.erase(to);
  } else if (const auto* changed = std::get_if<PeerChanged>(&action)) {
    note(*changed);
  } else if (const auto* swarm = std::get_if<SwarmChanged>(&action)) {
    counts_.changes.push_back(*swarm);
  }
}

Duration MembershipSwarm::distance(std::uint32_t from, std::uint32_t to) const {
  const std::uint64_t low = std::min(from, to);
  const std::uint64_t high = std::max(from, to);
  Rng pair(mix64(low << 32 | high) ^ options_.seed);
  return from_seconds(to_seconds(options_.latency) * (0.25 + 1.5 * pair.unit()));
}

void MembershipSwarm::send(Way way, const Message& message, Instant line_up) {
  const auto [from, to] = way;
  const double bytes = weigh(from, message);
  note_accusations(from, message);
  if (to >= options_.peers || !reaches(from, to) || rng_.chance(options_.loss)) return;
  if (free_parcels_.empty()) {
    free_parcels_.push_back(static_cast<std::uint32_t>(parcels_.size()));
    parcels_.push_back(std::make_unique<Parcel>());
  }
  const std::uint32_t parcel = free_parcels_.back();
  free_parcels_.pop_back();
  parcels_[parcel]->from = from;
  parcels_[parcel]->bytes = bytes;
  parcels_[parcel]->message = message;
  push(std::max(now_, line_up) + distance(from, to), Kind::kDeliver, to, parcel);
}

double MembershipSwarm::weigh(std::uint32_t from, const Message& message) {
  const auto bytes = static_cast<double>(encode(PeerId{from + 1ULL}, message).size());
  ++counts_.messages;
  counts_.bytes += bytes;
  counts_.bytes_of[message.index()] += bytes;
  MembershipTraffic& traffic = processes_[from].traffic;
  ++traffic.messages_out;
  traffic.bytes_out += bytes;
  return bytes;
}

void MembershipSwarm::note(const PeerChanged& event) {
  const std::uint32_t subject = index_of(event.record.key.id);
  const Process& process = processes_[subject];
  const Health health = event.record.health;
  const bool runs = process.core && process_of(event.record).incarnation == process.life;
  if (health == Health::kSuspect && runs) ++counts_.false_suspicions;
  if (health != Health::kDead) return;
  if (runs) {
    ++counts_.false_deaths;
    ++counts_.false_deaths_of[subject];
    return;
  }
  const auto found = notices_.find(subject);
  if (found == notices_.end()) return;
  Notice& notice = found->second;
  if (notice.observers++ == 0) notice.first = now_;
  notice.last = now_;
}

void MembershipSwarm::note_accusations(std::uint32_t from, const Message& message) {
  const auto look = [&](const auto& records) {
    for (const PeerRecord& record : records) {
      if (record.health != Health::kSuspect || record.accuser != PeerId{from + 1ULL}) continue;
      const std::uint32_t subject = index_of(record.key.id);
      const Process& process = processes_[subject];
      const bool runs = process.core && process_of(record).incarnation == process.life;
      if (!runs || !accused_.emplace(from, subject, record.key.incarnation).second) continue;
      ++counts_.accusations[{from, subject}];
    }
  };
  if (const auto* ping = std::get_if<Ping>(&message)) look(ping->records);
  if (const auto* pong = std::get_if<Pong>(&message)) look(pong->records);
  if (const auto* told = std::get_if<Records>(&message)) look(told->records);
}

bool MembershipSwarm::views_agree() const {
  const auto running_peers = std::count_if(processes_.begin(), processes_.end(),
                                           [](const Process& p) { return p.core != nullptr; });
  for (const Process& process : processes_) {
    if (!process.core) continue;
    std::int64_t alive = 0;
    for (const PeerRecord& record : process.core->peers()) {
      if (record.health != Health::kAlive) continue;
      const Process& other = processes_[index_of(record.key.id)];
      if (!other.core || process_of(record).incarnation != other.life) return false;
      ++alive;
    }
    if (alive != running_peers - 1) return false;
  }
  return true;
}

std::vector<std::uint32_t> MembershipSwarm::known_by() const {
  std::vector<std::uint32_t> count(options_.peers, 0);
  for (const Process& process : processes_) {
    if (!process.core) continue;
    for (const PeerRecord& record : process.core->peers()) {
      if (record.health == Health::kAlive) ++count[index_of(record.key.id)];
    }
  }
  return count;
}

}  // namespace starling::gossip
