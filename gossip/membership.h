// Membership: who is in the swarm. Greets seeds and peers learnt by rumor, answers greetings of the
// same run and refuses others, pings one random peer per interval with records and token entries
// riding along, doubts peers that leave pings unanswered, and denies rumors of its own death.
//
// Full view: every peer knows every peer, up to peers_max. Timers have the grain of ping_interval.
// The rules are listed in README.md. Thread: one owner.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "gossip/core_context.h"

namespace starling::gossip {

class Membership {
 public:
  // A refusing or refused address is left alone for this long.
  static constexpr Duration kRefusedFor = std::chrono::minutes(10);
  // The same if it was about trust: somebody may be editing the allow-list right now.
  static constexpr Duration kDistrustedFor = std::chrono::seconds(30);
  // One peer that nobody could dial is tried again this often: its operator may have opened a port.
  static constexpr Duration kProbeEvery = std::chrono::seconds(60);
  static constexpr std::size_t kSeedsMax = 64;

  Membership(CoreContext& context, const CoreIdentity& identity, Instant now);

  void on_join(Instant now, std::span<const PeerAddress> seeds);
  void on_hello(Instant now, PeerId from, const Hello& hello);
  void on_welcome(Instant now, PeerId from, const Welcome& welcome);
  void on_refuse(Instant now, PeerId from, const Refuse& refuse);
  void on_ping(Instant now, PeerId from, const Ping& ping);
  void on_pong(Instant now, PeerId from, const Pong& pong);
  void on_leave(Instant now, PeerId from, const Leave& leave);
  void on_send_failed(Instant now, PeerId to);
  void on_refused(Instant now, PeerId id, const Refused& event);
  void on_reached();
  void on_deadline(Instant now);
  void leave();
  void shift(Duration by);

  // True if `from` may speak of anything but greetings; its message then counts as life.
  bool admit(Instant now, PeerId from);
  Instant next_deadline() const { return next_tick_; }
  const PeerRecord& self() const { return self_; }
  // Peers whose exchanges are over (dead, left, restarted), and peers that can be reached again;
  // emptied by the call.
  std::vector<PeerId> take_lost();
  std::vector<PeerId> take_found();

 private:
  struct Seed {
    PeerAddress address;
    PeerId id;
    Instant greet_again;
    Instant refused_until;
  };

  Hello hello() const { return {self_, run_}; }
  std::optional<RefuseReason> incompatible(const RunIdentity& theirs) const;
  bool meet(Instant now, const PeerRecord& introduced, const RunIdentity& theirs);
  void connect(const Peer& peer);
  void learn(Instant now, const PeerRecord& record);
  void deny(const PeerRecord& rumor);
  bool renew(std::uint64_t refutations);
  void note_change(Instant now, PeerTable::Change change, Peer& peer);
  void set_health(Instant now, Peer& peer, Health health);
  void ping(Instant now, Peer& peer);
  void greet(Instant now, Peer& peer);
  void read(Instant now, const BoundedList<PeerRecord, kRecordsMax>& records,
            const BoundedList<TokenEntry, kTokensMax>& tokens);
  void fill(PeerId reader, BoundedList<PeerRecord, kRecordsMax>& records,
            BoundedList<TokenEntry, kTokensMax>& tokens);
  void weigh();
  void doubt(Instant now);
  void ping_some(Instant now);
  void greet_some(Instant now);
  void probe_some(Instant now);
  Seed* seed_of(PeerId id);
  void report_refusal(Instant now, const Refused& event, PeerId from);

  CoreContext& context_;
  PeerRecord self_;
  RunIdentity run_;
  std::vector<Seed> seeds_;
  std::map<PeerId, Instant> reported_;  // refusals lately told to the user, at most kSeedsMax
  std::vector<PeerId> lost_;
  std::vector<PeerId> found_;
  Instant next_tick_;
  Instant next_redial_;
  Instant next_probe_;
  std::uint64_t next_nonce_ = 1;
};

}  // namespace starling::gossip
