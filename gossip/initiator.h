// Initiator: the exchanges that this peer begins. Keeps the fragments that wait for a partner,
// offers them, pushes stripes under a window, and follows each stripe to its end, also long after
// the exchange has given back its lease.
//
// Limits: initiated_max exchanges, window stripes under way in each, kStripesMax stripes in all
// (new ones wait while as many are unsettled), one pending entry per fragment. Thread: one owner.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "gossip/core_context.h"
#include "gossip/initiator_stripe.h"
#include "gossip/peer_sampler.h"
#include "gossip/timer_set.h"

namespace starling::gossip {

class Initiator {
 public:
  // Below the ledger's capacity, so that the ledger always has room for a row of ours.
  static constexpr std::size_t kStripesMax = 4096;
  static constexpr Duration kCommitRetryMax = std::chrono::seconds(30);

  Initiator(CoreContext& context, const RestoredState& restored, Instant now);

  void on_published(FragmentId fragment);
  void on_accept(Instant now, PeerId from, const Accept& accept);
  void on_decline(Instant now, PeerId from, const Decline& decline);
  void on_delta(Instant now, PeerId from, const StripeRef& ref);
  void on_committed(Instant now, PeerId from, const StripeRef& ref);
  void on_abandoned(Instant now, PeerId from, const StripeRef& ref);
  void on_query(Instant now, PeerId from, const StripeRef& ref);
  void on_encoded(Instant now, const StripeRef& ref, bool ok);
  void on_applied(Instant now, const StripeRef& ref, bool ok);
  void on_compensated(Instant now, const StripeRef& ref);
  void on_send_failed(Instant now, PeerId to);
  void on_peer_lost(Instant now, PeerId peer);
  void on_peer_found(Instant now, PeerId peer);
  void on_deadline(Instant now);
  // Offers what is pending as far as slots and leases allow. Called after every input.
  void start_pending(Instant now);
  // Ends every exchange without a word; stripes that are not settled stay in the ledger.
  void abandon_all();
  void shift(Duration by);

  // An offer of `peer` for this fragment crossed ours to it. Both would decline; so the one of the
  // larger id withdraws. True if ours was withdrawn.
  bool withdraw_crossing(FragmentId fragment, PeerId peer);

  std::optional<Instant> next_deadline() const;
  std::size_t open() const { return open_.size(); }
  std::size_t unsettled() const;
  void assert_invariants() const;

 private:
  struct Exchange {
    ExchangeKey key;
    FragmentId fragment;
    std::vector<PeerId> tried;  // candidates of this round, at most partners_tried_max
    bool active = false;        // accepted
    bool timed_out = false;
    Offer offer;
    std::uint8_t format = 0;
    PairTerms terms;
    std::uint16_t window = 1;
    std::uint32_t next_stripe = 0;
    std::uint32_t under_way = 0;
    std::uint32_t applied = 0;
  };
  struct Stripe {
    InitiatorStripe machine;
    std::uint8_t format = 0;
    PairTerms terms{};
    bool leased = false;  // counted in its exchange's under_way
    Duration retry{};     // between repeats of Commit
    Instant detach_at{};  // an unacknowledged stripe leaves its exchange
    Instant gives_up_at{};
  };
  using Input = InitiatorStripe::Input;
  using Output = InitiatorStripe::Output;
  using State = InitiatorStripe::State;

  bool begin_round(Instant now, FragmentId fragment);
  bool offer_next(Instant now, Exchange& exchange);
  void end_offer(Instant now, const ExchangeKey& key, Outcome outcome);
  bool is_valid(const Exchange& exchange, const Accept& accept) const;
  void advance(Instant now, const ExchangeKey& key);
  void close(Instant now, const ExchangeKey& key, Outcome outcome);
  void end(const Exchange& exchange, Outcome outcome);
  void drive(Instant now, const StripeRef& ref, Input input);
  void perform(Output output, const StripeRef& ref, const Stripe& stripe);
  void follow(Instant now, const StripeRef& key, Stripe& stripe, State before);
  void detach(const StripeRef& key, Stripe& stripe);
  void wait(Instant now, const StripeRef& key, Stripe& stripe, State before);
  void settle(const StripeRef& key, Stripe& stripe);
  void on_timer(Instant now, const StripeRef& key);
  bool speaks_for(PeerId from, const ExchangeKey& key);

  CoreContext& context_;
  PeerSampler sampler_;
  std::uint64_t next_counter_ = 1;
  std::deque<FragmentId> pending_;  // oldest first, each at most once
  std::map<ExchangeKey, Exchange> open_;
  std::map<StripeRef, Stripe> stripes_;  // by reference with attempt 0; none has ended
  TimerSet<ExchangeKey> offer_timers_;
  TimerSet<StripeRef> stripe_timers_;
};

}  // namespace starling::gossip
