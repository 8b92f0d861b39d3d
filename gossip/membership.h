// Membership: who is in the swarm. Greets seeds and peers learnt by rumor, answers greetings of the
// same run and refuses others; probes one peer after the other, itself and through others; doubts
// those that stay silent, gives up those whose suspicion nobody denies in time, and denies rumors
// of its own death. Compares views with a random peer now and then, and reports when the swarm
// splits.
//
// The full view up to peers_max peers, a changing sample beyond (PeerTable). Lines are opened for
// what is sent and closed when idle. What it says per second is bounded whatever the swarm's size.
// The rules are listed in README.md. Thread: one owner.
#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "gossip/core_context.h"
#include "gossip/greeting_limit.h"
#include "gossip/local_health.h"
#include "gossip/probes.h"
#include "gossip/swarm_watch.h"
#include "gossip/timer_set.h"

namespace starling::gossip {

class Membership {
 public:
  // A refusing or refused address is left alone for this long.
  static constexpr Duration kRefusedFor = std::chrono::minutes(10);
  // The same if it was about trust: somebody may be editing the allow-list right now.
  static constexpr Duration kDistrustedFor = std::chrono::seconds(30);
  // One peer that nobody could dial is tried again this often: its operator may have opened a port.
  static constexpr Duration kDialTestEvery = std::chrono::seconds(60);
  // So often is somebody greeted on trial whom nobody says to be dialable.
  static constexpr Duration kTrialEvery = std::chrono::seconds(5);
  // Claims do not follow every distant peer that goes and comes back.
  static constexpr Duration kFarthestKept = std::chrono::minutes(30);
  static constexpr std::size_t kSeedsMax = 64;
  static constexpr Duration kLookAtTokensEvery = std::chrono::seconds(60);
  static constexpr Duration kOrphanedAfter = std::chrono::minutes(5);

  Membership(CoreContext& context, const CoreIdentity& identity, Instant now);

  void on_join(Instant now, std::span<const PeerAddress> seeds);
  void on_hello(Instant now, PeerId from, const Hello& hello);
  void on_welcome(Instant now, PeerId from, const Welcome& welcome);
  void on_refuse(Instant now, PeerId from, const Refuse& refuse);
  void on_ping(Instant now, PeerId from, const Ping& ping);
  void on_strange_ping(PeerId from, const Ping& ping);  // of one that is not admitted
  void on_pong(Instant now, PeerId from, const Pong& pong);
  void on_ping_request(Instant now, PeerId from, const PingRequest& request);
  void on_ping_answer(Instant now, PeerId from, const PingAnswer& answer);
  void on_digest(Instant now, PeerId from, const Digest& digest);
  void on_records(Instant now, PeerId from, const Records& message);
  // Of one whom nothing else is believed.
  void on_strange_records(Instant now, PeerId from, const Records& message);
  void on_leave(Instant now, PeerId from, const Leave& leave);
  void on_send_failed(Instant now, PeerId to);
  void on_refused(Instant now, PeerId id, const Refused& event);
  void on_reached(Instant now, Reach from);
  void on_members();  // whoever does not count is nobody any more
  // Tells everybody who forwards to this peer; now, or in a later call if that was said just now.
  void announce(Instant now, const BoundedList<PeerId, kRelaysMax>& relays);
  void on_deadline(Instant now);
  void leave();
  // This process did not run for a while: others' silence begins later by `by`.
  void on_pause(Duration by);
  // It ran later than it should have, perhaps again and again: probes and suspicions begin later.
  void on_late(Duration by);

  // A sign of life that is not looked at any further.
  void note_heard(Instant now, PeerId from);
  // True if `from` may speak of anything but greetings; its message then counts as life.
  bool admit(Instant now, PeerId from);
  Instant next_deadline() const;
  const PeerRecord& self() const { return self_; }
  // Peers whose exchanges are over (dead, left, restarted), and peers that can be reached again;
  // emptied by the call.
  std::vector<PeerId> take_lost();
  std::vector<PeerId> take_found();
  // Closes lines that were idle for long, or the idlest of too many; never one that `is_used`.
  template <class IsUsed>
  void close_lines(Instant now, IsUsed&& is_used);

  // This peer included; an estimate where the view is a sample.
  double swarm_size() const;
  std::uint32_t health_score() const { return health_.score(); }  // 0: healthy
  bool split() const { return watch_.split(); }
  void assert_invariants() const;

 private:
  static constexpr Duration kIdle = std::chrono::minutes(2);
  static constexpr std::size_t kClippedMax = 1024;
  // Nobody can open a line to one that cannot be dialled: others rely on its own a little shorter.
  static constexpr Duration kOwnLineUsed = kOwnLineKept + std::chrono::seconds(15);

  struct Seed {
    PeerAddress address;
    PeerId id;
    Instant greeted_at;
    double unevenness = 0;  // of the pause since; 0: not greeted yet
    Instant refused_until;
  };
  // What a tick allows, so that nobody can make us talk more than that.
  struct Budget {
    std::uint32_t greetings = 0;  // of peers learnt by rumor
    std::uint32_t warnings = 0;   // pings of suspects, to tell them
    std::uint32_t syncs = 0;      // answers to digests
  };

  // membership.cpp: greetings, answers
  Hello hello() const { return {self_, run_}; }
  std::optional<RefuseReason> incompatible(const RunIdentity& theirs) const;
  bool is_checked(Instant now, const Peer* known, const PeerRecord& record);
  void show_later_life(Instant now, const Peer& known);
  bool meet(Instant now, const PeerRecord& introduced, const RunIdentity& theirs);
  Seed* seed_of(PeerId id);
  bool is_due(Instant now, const Seed& seed) const;
  void report_refusal(Instant now, const Refused& event, PeerId from);
  void note_life(Instant now, Peer& peer);

  // membership_probes.cpp: doubts
  void probe_next(Instant now);
  bool probe_neighbour(Instant now);
  void probe(Instant now, Peer& peer);
  bool is_warm(Instant now, const Peer& peer) const;
  bool may_be_doubted(Instant now, const Peer& peer, Instant asked_at) const;
  Duration ages_come_around() const;
  void ask_others(Instant now);
  void judge_silent(Instant now);
  void let_go(Peer& peer);
  void let_go_if_dead(Instant now, Peer& peer);
  void answer_askers(Instant now);
  void doubt(Instant now, Peer& peer, PeerId accuser);
  void arm_suspicion(Instant now, Peer& peer);
  void warn(Instant now, Peer& peer, double drawn_from = 1);
  void bury(Instant now);
  SuspicionTimes suspicion() const;

  // membership_rounds.cpp: what happens on every tick
  void tick(Instant now);
  void warn_some(Instant now);
  void ping(Instant now, Peer& peer);
  void greet(Instant now, Peer& peer);
  bool can_greet(const Peer& peer);    // by whatever way
  void seek(Instant now, Peer& peer);  // greets whom we can
  void greet_some(Instant now);
  void test_dialling(Instant now);
  void greet_on_trial(Instant now);
  Reach reach_wanted(Instant now);
  void claim_reach(Instant now);
  void greet_seeds(Instant now);
  void compare_views(Instant now);
  void compare_again();
  void swap_sample(Instant now, PeerId with);
  std::array<std::uint64_t, kBucketsMax> view_digest() const;
  void watch(Instant now);

  // membership_rumors.cpp: what rides on messages, and what is believed of it
  template <class PingOrPong>
  void read(Instant now, PeerId from, const PingOrPong& message);
  template <class PingOrPong>
  void fill(Instant now, PeerId reader, PingOrPong& message);
  void learn(Instant now, PeerId from, const PeerRecord& rumor);
  std::optional<PeerRecord> believed(Instant now, PeerId from, const PeerRecord& rumor);
  PeerRecord of_one_life(const PeerRecord& rumor, const PeerRecord& known) const;
  void count_strangers(const PeerRecord& record);
  bool tell_of_twin(Instant now, const PeerRecord& rumor);
  bool told_of_twin(Instant now) const;
  void deny(Instant now, PeerId from, const PeerRecord& rumor);
  bool renew();
  void seal_self();
  bool is_vouched(const PeerRecord& record) const;
  void note_change(Instant now, PeerTable::Change change, Health before, Peer& peer);
  void set_health(Instant now, Peer& peer, Health health, PeerId accuser);
  void weigh(Instant now);
  bool may_judge_age(Instant now);
  PeerTable::Change merge(Instant now, const PeerRecord& record);
  void weigh_age(Instant now);
  void look_at_tokens(Instant now);
  void look_for_trained(Instant now);

  CoreContext& context_;
  PeerRecord self_;
  RunIdentity run_;
  const RecordSeal& seal_;
  std::uint8_t self_tell_left_ = 0;  // messages that carry the own record
  Instant deny_again_;
  LocalHealth health_;
  Probes probes_;
  GreetingLimit greetings_;
  TimerSet<PeerId> suspicion_timers_;  // when a suspect is given up
  std::set<PeerId> suspects_;
  SwarmWatch watch_;
  std::vector<Seed> seeds_;
  // Refusals lately told to the user, at most kSeedsMax.
  std::map<std::pair<PeerId, RefuseReason>, Instant> reported_;
  std::vector<PeerId> lost_;
  std::vector<PeerId> found_;
  Instant next_tick_;
  Instant next_redial_;
  Instant next_dial_test_;
  Instant next_announcement_;
  Instant next_claim_;
  Instant next_trial_;
  Reach reached_from_;
  Reach farthest_{};  // that the swarm reaches
  Instant farthest_at_;
  Instant next_look_at_tokens_;
  std::optional<Instant> first_news_;      // of a restored peer, from when on its age is judged
  std::optional<Instant> orphaned_since_;  // nobody present has trained far more
  std::set<PeerId> clipped_;               // those told of, at most kClippedMax
  Budget budget_;
  std::uint32_t ticks_to_sync_ = 0;
  std::uint32_t ticks_without_news_ = 0;  // after which views that differ are compared again
  std::uint32_t ticks_to_claim_ = 0;
  std::uint32_t ticks_to_turn_ = 0;  // of whoever's turn it is in the round
  double known_share_ = 1;           // of samples heard while the view is one
  std::uint32_t records_counted_ = 0;
  std::uint64_t next_nonce_ = 1;
};

template <class IsUsed>
void Membership::close_lines(Instant now, IsUsed&& is_used) {
  std::vector<std::pair<Instant, PeerId>> idle;
  const Duration used_for = self_.dialable ? CoreContext::kLineKept : kOwnLineUsed;
  for (const PeerId id : context_.lines) {
    const Instant used = context_.peers.find(id)->last_sent;
    if (!is_used(id)) idle.emplace_back(used, id);
  }
  std::sort(idle.begin(), idle.end());
  for (const auto& [used, id] : idle) {
    const bool crowded = context_.lines.size() > context_.config.connections_max;
    // Rows with a line are not given to others: half of them must be left for newcomers.
    const bool stuck = context_.lines.size() > context_.config.peers_max / 2;
    const Duration kept = crowded ? used_for : kIdle;
    if (!stuck && now - used < kept) return;
    context_.hang_up(*context_.peers.find(id));
  }
}

}  // namespace starling::gossip
