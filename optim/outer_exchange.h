// OuterExchange: an outer method in which peers hand whole vectors to each other. It says what is
// handed over, when, to whom and whether a peer waits (plan), and does the arithmetic; a driver
// draws partners, carries parcels with their delays, and calls:
//
//   1. offer     when the plan says so: the peer's parcel. May change the state.
//      answer    kPartner only: the partner's parcel, at the moment the offer arrives, whatever it
//                is doing; the partner combines and takes at once.
//   2. combine   several parcels to one; the same for all members of a group, so once for them. Its
//                bits depend on the order. Who is dead or late is left out. Whose parcels:
//                  kEveryone, kGroup  all members', the peer's own among them
//                  kPartner           {offer, answer}, at both sides in this order
//                  kTargets           the peer's own and what came to it in this round
//                  kNextInRotation    what came; a peer keeps its own part in its state
//                  kServer            none: the reply is a DelayedNesterovServer's weights
//   3. take      what comes of it. Where a peer does not wait, at any time between two inner
//                updates, also after a gradient was computed and before it is applied (such a
//                gradient is stale, as in the papers); what training did meanwhile is kept.
//
// One state per fragment and peer; the calls for two of them may run on two threads. The object
// holds no state. No peers, clock, chance, sockets or layers here. What is not finite spreads, as
// in the authors' programs: a driver stops where a loss is not finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "optim/outer_config.h"

namespace starling::optim {

struct ExchangePlan {
  enum class When : std::uint8_t {
    kGradient,  // every step, between the gradient and the inner update: the gradient is exchanged
    kRound,     // after the inner step at which fragment_due() names the fragment
  };
  enum class Audience : std::uint8_t {
    kEveryone,
    kGroup,    // a random partition in groups of `count`, each round anew; the rest is one, too
    kPartner,  // one random peer, which answers; one offer of a fragment under way at a time
    kTargets,  // `count` random peers
    kNextInRotation,  // rotation_target(), the same round at all peers
    kServer,
  };
  When when = When::kRound;
  Audience audience = Audience::kEveryone;
  std::uint32_t count = 0;  // members of a group, the peer itself included; targets
  // The peer makes overlap_steps further inner steps after its offer and then none until what its
  // audience owes it has come (kTargets: until all that was sent in the round has); it takes then,
  // not sooner, so that all do after the same step. Otherwise it takes whatever comes, at once.
  bool waits = false;
  std::uint32_t overlap_steps = 0;
  // Only peers of even index offer, to those of odd index.
  bool two_halves = false;
  std::uint32_t vectors = 1;  // of the fragment's size in a parcel: what travels
};

// Of one fragment, or any part of it, of one peer. Spans of one size; they belong to the driver. At
// the start slow = fast, momentum = 0.
struct ExchangeState {
  std::span<float> slow, momentum, fast;
  std::span<float> gradient;  // for When::kGradient alone
  double mass = 1.0;          // push_sum's; the others leave it alone
};

struct Parcel {
  std::vector<float> values;  // plan().vectors after each other
  double weight = 1.0;        // in the mean; a driver may set it after offer, push_sum does itself
};

class OuterExchange {
 public:
  OuterExchange() = default;
  OuterExchange(const OuterExchange&) = delete;
  OuterExchange& operator=(const OuterExchange&) = delete;
  virtual ~OuterExchange() = default;

  virtual std::string_view name() const = 0;
  virtual ExchangePlan plan(std::size_t peers) const = 0;  // of a swarm of so many, 2 or more

  // `parcel` is overwritten; its memory is used again.
  virtual void offer(ExchangeState& state, Parcel& parcel) const = 0;
  virtual void answer(ExchangeState& state, Parcel& parcel) const { offer(state, parcel); }
  // At least one parcel, each of one size. The weighted mean, exact where all are equal.
  virtual void combine(std::span<const Parcel* const> parcels, Parcel& combined) const;
  // `own`: what this peer offered or answered with.
  virtual void take(ExchangeState& state, const Parcel& own, const Parcel& combined) const = 0;
};

// kInvalidConfig where a value is out of its range, or the method is an OuterRule.
Result<std::unique_ptr<OuterExchange>> make_outer_exchange(const OuterConfig& config);

// Whom peer `rank` of `peers` (2 or more) sends to in a round: 1, 2, 4, ... further on, in turn, so
// that everybody receives from exactly one. The directed exponential graph of push_sum.
std::size_t rotation_target(std::size_t rank, std::size_t peers, std::uint64_t round);

}  // namespace starling::optim
