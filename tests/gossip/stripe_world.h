// StripeWorld: one stripe of one exchange, two peers, their mixers, ledgers and checkpoints, and
// every message ever sent. The stripe machines are the production ones; around them the world does
// whatever the fault model allows: a message in the set may be delivered at any time and any number
// of times, or never (loss, duplication, reordering); timers fire whenever they are armed; mixers
// refuse; peers crash, come back from any checkpoint they ever had, or stay away.
//
// A plain value: the model check copies it and compares it. Test support only.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include "gossip/initiator_stripe.h"
#include "gossip/responder_stripe.h"

namespace starling::gossip {

// Bugs planted in what surrounds the machines, to prove that the check would see them.
enum class Planted : std::uint8_t {
  kNothing,
  kRestartStagesAgain,      // a restarted responder takes part in an exchange of its former life
  kCommittedBeforeApplied,  // the responder answers when the order is given, not when it is done
  kFenceForgotten,          // the initiator takes the delta of a fenced attempt for the current one
  kAppliesTwice,            // the responder applies on every Commit
};

struct Limits {
  std::uint8_t attempts = 2;
  std::uint8_t crashes = 2;
  Planted planted = Planted::kNothing;
};

struct StripeWorld {
  enum Kind : std::uint8_t {
    kPush,
    kDelta,
    kCommit,
    kCommitted,
    kAbandoned,
    kAbort,
    kQuery,
    kResend,
    kDecline,
    kKinds
  };
  // Orders to a mixer, and what the mixer answers.
  enum Job : std::uint8_t { kEncode, kApply, kUndo, kForget, kStage, kReissue, kDrop };
  struct Order {
    std::uint8_t job = 0;
    std::uint8_t attempt = 0;
    bool ok = true;  // in an answer
    friend auto operator<=>(const Order&, const Order&) = default;
  };
  struct Queue {
    std::array<Order, 4> orders{};
    std::uint8_t size = 0;
    bool overflow = false;
    void push(Order order);
    Order pop();
    bool holds(std::uint8_t job) const;
    friend auto operator<=>(const Queue&, const Queue&) = default;
  };
  // Weights and ledger of one peer: what a checkpoint holds from one cut.
  struct Cut {
    std::uint8_t weights = 0;  // bit per attempt: its delta is in the weights
    std::uint8_t row = 0;      // attempt + 1 while the ledger has a row
    friend auto operator<=>(const Cut&, const Cut&) = default;
  };
  struct Side {
    bool known = true;    // the machine is in memory
    bool closed = false;  // the exchange is over here, by its end or by a restart
    bool dead = false;
    bool rolled_back = false;
    bool orphaned = false;
    Cut cut;
    std::uint64_t cuts = 1;   // bit per cut ever held (none: bit 0)
    std::uint8_t staged = 0;  // bit per attempt
    Queue orders;
    Queue answers;
    friend auto operator<=>(const Side&, const Side&) = default;
  };

  explicit StripeWorld(const Limits& limits);

  InitiatorStripe initiator;
  ResponderStripe responder;
  Side first;                               // the initiator's
  Side second;                              // the responder's
  std::array<std::uint8_t, kKinds> sent{};  // bit per attempt
  std::uint8_t crashes = 0;
  const char* broken = nullptr;  // what promise this world breaks, if any

  friend auto operator<=>(const StripeWorld&, const StripeWorld&) = default;
};

struct Successor {
  StripeWorld world;
  bool misfortune = false;  // a crash: not owed, so not a way to settle
};

std::vector<Successor> successors(const StripeWorld& world, const Limits& limits);
// The promise of pairwise atomicity that `world` breaks, or null.
const char* violation(const StripeWorld& world);
// Nothing is in doubt and nobody is busy.
bool is_settled(const StripeWorld& world);

}  // namespace starling::gossip
