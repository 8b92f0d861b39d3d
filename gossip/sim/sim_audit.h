// SimAudit: keeps the books of a simulated swarm and says what does not add up.
//
// It never reads the core's state. It is told what was ordered and answered, works out on its own
// what every stripe must hold, and compares. Per attempt at a stripe it follows both sides: a
// responder applies only what its initiator has applied; an initiator undoes only what its
// responder will never apply; nothing is applied twice or by a former life. A crash rolls the
// books back to the checkpoint that is restored. What one side keeps alone must have a reason
// (partner gone, rolled back, unequal weights, given up), and its sum is the exceptional mass:
//
//   sum over live peers of every stripe = initial values + local updates + exceptional mass
//
// exactly, in integers. Hostile peers are outside the books: what an honest peer applied with one
// of them is its own word, and no such difference is larger than the radius that honest peers want.
// A violation is a sentence, not an abort, so that tests can ask for one.
// Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gossip/sim/sim_mixer.h"

namespace starling::gossip {

// Where mass may legitimately be missing or extra; counts of attempts at the end of a run.
struct ExceptionalMass {
  std::uint64_t partner_gone = 0;
  std::uint64_t rolled_back = 0;
  std::uint64_t unequal = 0;  // weights: their weighted sum is conserved
  std::uint64_t orphaned = 0;
  std::uint64_t hostile = 0;  // sides of pairs whose other side is hostile
};

class SimAudit {
 public:
  // Which prefix of the books a checkpoint stands for.
  struct Cut {
    std::size_t entries = 0;
    std::vector<StripeValues> own;       // initial values and local updates
    std::vector<StripeValues> expected;  // and what exchanges added
  };

  SimAudit(const SimOptions& options, const StripeIndex& index);

  // --- the life of a peer ---
  void on_hostile(std::uint32_t peer);  // before all else: nothing more is asked of it
  void on_born(std::uint32_t peer, const std::vector<StripeValues>& values);
  void on_started(std::uint32_t peer, std::uint64_t process);  // process: its incarnation
  void on_restored(std::uint32_t peer, const Cut& cut);
  // Fetched weights have replaced its own, and with them all that exchanges had added.
  void on_adopted(std::uint32_t peer, const std::vector<StripeValues>& values);
  void on_gone(std::uint32_t peer);  // for good
  Cut cut(std::uint32_t peer) const;

  // --- what its mixer and its core did ---
  void on_trained(std::uint32_t peer, std::size_t stripe, const StripeValues& change);
  void on_executed(Instant now, std::uint32_t peer, const MixerResult& result,
                   const std::vector<StripeValues>& values);
  void on_progress(std::uint32_t peer, std::uint64_t tokens);
  void on_exchange_open(Instant now, std::uint32_t peer, const ExchangeKey& key, Role role);
  void on_exchange_ended(Instant now, std::uint32_t peer, const ExchangeEnded& event);
  void fail(Instant now, std::uint32_t peer, const std::string& what);

  // --- at rest: nothing under way between the peers `live`, all others gone ---
  // Checks every attempt and the conservation of every stripe.
  ExceptionalMass close(Instant now, const std::vector<std::uint32_t>& live,
                        const std::vector<const SimMixer*>& mixers);

  // Nobody may believe in tokens that an honest peer has not trained, in whatever process.
  void check_tokens(Instant now, std::uint32_t peer, const std::vector<TokenEntry>& believed);

  // By all processes of an honest peer so far.
  std::uint64_t tokens_trained(std::uint32_t peer) const;

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Side {
    bool applied = false;
    bool rolled_back = false;
  };
  struct Attempt {
    StripeValues half{};
    PairTerms terms;
    bool staged = false;
    bool orphaned = false;  // the initiator gave up
    Side initiator;
    Side responder;
    Instant applied_at;  // by the initiator
  };
  enum class Deed : std::uint8_t { kApply, kUndo, kForget };
  struct Entry {
    StripeRef ref;
    Role role;
    Deed deed;
  };
  struct Books {
    std::uint64_t process = 0;
    std::map<std::uint64_t, std::uint64_t> tokens;  // trained by each process
    bool gone = false;
    bool hostile = false;
    std::vector<Entry> entries;
    std::vector<StripeValues> own;
    std::vector<StripeValues> expected;
    std::map<std::pair<ExchangeKey, Role>, bool> ended;  // exchanges of this life
  };
  struct Execute;

  static std::uint32_t peer_of(const PeerKey& key);
  bool is_hostile(const ExchangeKey& exchange) const;
  bool is_this_life(std::uint32_t peer, const ExchangeKey& exchange, Role role) const;
  void book(std::uint32_t peer, const Entry& entry, std::int64_t times, const StripeValues& change);
  void revert(const Entry& entry);
  void check_no_other_attempt(Instant now, std::uint32_t peer, const StripeRef& ref, Role role);
  void check_pair(Instant now, const StripeRef& ref, const Attempt& attempt,
                  ExceptionalMass& reasons);

  const StripeIndex& index_;
  const std::vector<std::uint32_t> stripes_;  // of each fragment
  const float radius_max_;                    // that an honest peer wants; 0: no clipping
  const Duration initiator_gives_up_;         // true time, by the fastest clock
  const bool samples_;                        // no peer has rows for all others
  bool may_repeat_ = false;                   // an exchange may begin once more after its end
  std::vector<Books> books_;
  std::map<StripeRef, Attempt> attempts_;
  std::vector<std::string> violations_;
};

// Ids and keys of simulated peers: one more than their index, so that zero stays nobody.
PeerId sim_peer_id(std::uint32_t peer);
std::string to_string(const StripeRef& ref);

}  // namespace starling::gossip
