// MembershipSwarm: many real cores without trainers, mixers and payloads, in virtual time: for
// questions of membership at sizes that the whole simulator (SimNetwork) does not reach.
//
// Memory and work grow with the number of peers, not of pairs. Messages between two peers keep
// their order, are lost one by one, and wait for their line: opening one takes three round trips.
// A starved peer runs only now and then; its messages and timers wait for it. As in a process, the
// timers are sooner: before it reads it has to run for a while. The run is a function of the
// options. Thread: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "gossip/core.h"

namespace starling::gossip {

struct MembershipOptions {
  std::uint64_t seed = 1;
  std::uint32_t peers = 64;
  std::uint32_t seed_peers = 4;                      // addresses that everybody knows
  double loss = 0;                                   // of every message
  Duration latency = std::chrono::milliseconds(50);  // mean of one way; different for every pair
  Duration joins_within = std::chrono::seconds(10);  // all peers start in this time
  double tokens_per_second = 1000;                   // of every peer
  GossipConfig config;
};

// What happened since start or reset().
struct MembershipCounts {
  std::uint64_t messages = 0;
  double bytes = 0;                    // of frames sent
  std::uint64_t dials = 0;             // to those who had no line here either
  std::uint64_t false_suspicions = 0;  // (observer, subject): the subject runs
  std::uint64_t false_deaths = 0;
  std::map<std::uint32_t, std::uint64_t> false_deaths_of;  // by subject
  // (accuser, subject): how often the one told others that it doubts the other itself, which runs;
  // once for each suspicion.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> accusations;
  std::vector<SwarmChanged> changes;
  std::array<double, std::variant_size_v<Message>> bytes_of{};  // by type of message
};
// The same of one peer.
struct MembershipTraffic {
  std::uint64_t messages_out = 0, messages_in = 0;
  double bytes_out = 0, bytes_in = 0;
};
// The type's name; `index` as std::variant has it.
std::string_view message_name(std::size_t index);

// On average it runs `awake`, then does not run for `asleep`.
struct Starvation {
  Duration awake{}, asleep{};
  // It does not find out: what was due is done as of then, one after the other, before it reads.
  // So would judge who takes all time that passes for others' silence.
  bool unnoticed = false;
};

class MembershipSwarm {
 public:
  explicit MembershipSwarm(const MembershipOptions& options);

  void run_for(Duration duration);
  void crash(std::uint32_t peer);
  void restart(std::uint32_t peer);
  void leave(std::uint32_t peer);
  // From now on it sleeps and wakes.
  void starve(std::uint32_t peer, const Starvation& starvation);
  // False: messages do not get from one to the other.
  std::function<bool(std::uint32_t from, std::uint32_t to)> reaches;

  Instant now() const { return now_; }
  const Core& core(std::uint32_t peer) const { return *processes_[peer].core; }
  bool running(std::uint32_t peer) const { return processes_[peer].core != nullptr; }
  std::uint32_t size() const { return options_.peers; }
  const MembershipCounts& counts() const { return counts_; }
  const MembershipTraffic& traffic(std::uint32_t peer) const { return processes_[peer].traffic; }
  void reset();
  // Of this crashed peer: when the first and when the last one noticed, and how many did.
  struct Notice {
    Instant crashed_at, first, last;
    std::uint32_t observers = 0;
  };
  const Notice& notice(std::uint32_t peer) { return notices_[peer]; }
  // Every running peer knows exactly the running peers as alive.
  bool views_agree() const;
  // How many tables each running peer is in, as alive.
  std::vector<std::uint32_t> known_by() const;

 private:
  enum class Kind : std::uint8_t { kDeliver, kDeadline, kStart, kProgress, kSleep, kWake };
  struct Event {
    Instant at;
    std::uint64_t sequence = 0;
    Kind kind{};
    std::uint32_t peer = 0;
    std::uint32_t detail = 0;  // parcel, or the ticket of a timer
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };
  struct Process {
    std::unique_ptr<StandInSeal> seal;
    std::unique_ptr<Core> core;
    std::uint32_t life = 0;
    std::uint32_t ticket = 0;
    std::optional<Instant> armed;
    double tokens = 0;
    bool asleep = false;
    std::optional<Starvation> starved;
    std::vector<Event> waiting;                        // while asleep
    Instant reads_at;                                  // not before; it has just woken
    std::unordered_map<std::uint32_t, Instant> lines;  // when they are up
    MembershipTraffic traffic;
  };
  struct Parcel {
    std::uint32_t from = 0;
    double bytes = 0;
    Message message;
  };

  void push(Instant at, Kind kind, std::uint32_t peer, std::uint32_t detail = 0);
  void handle(const Event& event);
  void wake(std::uint32_t peer);
  void run(const Event& event);
  void start(std::uint32_t peer);
  void drain(std::uint32_t peer);
  void act(std::uint32_t peer, const Action& action);
  struct Way {
    std::uint32_t from = 0, to = 0;
  };
  void send(Way way, const Message& message, Instant line_up);
  double weigh(std::uint32_t from, const Message& message);  // bytes; counts them as sent
  void note(const PeerChanged& event);
  void note_accusations(std::uint32_t from, const Message& message);
  Duration distance(std::uint32_t from, std::uint32_t to) const;
  static PeerAddress address_of(std::uint32_t peer);

  const MembershipOptions options_;
  Rng rng_;
  Instant now_{};
  std::uint64_t sequence_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::vector<Process> processes_;
  std::vector<std::unique_ptr<Parcel>> parcels_;
  std::vector<std::uint32_t> free_parcels_;
  MembershipCounts counts_;
  std::map<std::uint32_t, Notice> notices_;
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>> accused_;  // and incarnation
};

}  // namespace starling::gossip
