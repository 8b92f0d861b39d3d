// Initiator: the exchanges that this peer begins. Keeps the fragments that wait for a partner,
// offers them, pushes stripes under a window, and follows each stripe to its end, also long after
// the exchange has given back its lease.
//
// Deadlines follow the partner's pace (peer_pace.h). Any sign of progress of an exchange restarts
// the patience with all its stripes. A broken connection costs the stripes under way an attempt and
// the exchange nothing: they are repeated when the partner is heard again, or, since it may have no
// reason to speak, when their patience ends. An exchange that comes to its end that way is nobody's
// fault.
//
// Limits: initiated_max exchanges, window stripes without an answer in each (fewer on a slow line)
// and, with those whose commit is under way, twice that, which is what a responder keeps;
// in_doubt_max() stripes in all (new ones wait while as many are unsettled), kAttemptsMax attempts
// at a stripe, of which attempts_max in a row without progress end the exchange; one pending round
// per fragment. Who owes answers about owed_max() stripes, or about a quarter of as many as may
// yet be unsettled (at least one), is not asked before it gave some.
// Thread: one owner.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "gossip/core_context.h"
#include "gossip/initiator_stripe.h"
#include "gossip/peer_sampler.h"
#include "gossip/timer_set.h"

namespace starling::gossip {

class Initiator {
 public:
  static constexpr Duration kCommitRetryMax = std::chrono::seconds(30);
  // After a decline others are asked a moment later, so that peers which declined each other, all
  // with their own offers out, do not do so again.
  static constexpr Duration kDeclinePauseMax = std::chrono::milliseconds(250);

  Initiator(CoreContext& context, const RestoredState& restored, Instant now);

  void on_published(FragmentId fragment);
  void on_accept(Instant now, PeerId from, const Accept& accept);
  void on_decline(Instant now, PeerId from, const Decline& decline);
  void on_delta(Instant now, PeerId from, const StripeRef& ref);
  void on_committed(Instant now, PeerId from, const StripeRef& ref);
  void on_abandoned(Instant now, PeerId from, const Abandoned& message);
  void on_query(Instant now, PeerId from, const StripeRef& ref);
  void on_encoded(Instant now, const StripeRef& ref, const Verdict& verdict,
                  std::size_t payload_bytes);
  void on_applied(Instant now, const StripeRef& ref, const Verdict& verdict);
  void on_compensated(Instant now, const StripeRef& ref);
  void on_send_failed(Instant now, PeerId to);
  void on_heard(Instant now, PeerId from);  // any message of a partner
  void on_muted(Instant now, PeerId peer);
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

  bool involves(PeerId peer) const;  // in an exchange that is open
  std::optional<Instant> next_deadline() const;
  std::size_t open() const { return open_.size(); }
  std::size_t unsettled() const;
  void assert_invariants() const;

 private:
  struct Round {
    FragmentId fragment;
    std::uint32_t asked = 0;     // offers made, at most partners_tried_max
    std::vector<PeerId> silent;  // those who did not answer
  };
  struct Exchange {
    ExchangeKey key;
    Round round;
    bool active = false;  // accepted
    bool timed_out = false;
    Instant offered_at{};
    Instant progress_at{};  // a stripe was answered
    Offer offer;
    std::uint8_t format = 0;
    PairTerms terms;
    float partner_lag = 0;  // of the fragment, in seconds
    std::uint16_t window = 1;
    std::uint32_t next_stripe = 0;
    std::uint32_t under_way = 0;  // not settled
    std::uint32_t answered = 0;   // of those: applied here, the line is free for others
    std::uint32_t applied = 0;
    float clip_factor = 1;    // the smallest of its stripes
    bool unanswered = false;  // what was applied was not acknowledged in time
  };
  struct Stripe {
    InitiatorStripe machine;
    std::uint8_t format = 0;
    PairTerms terms{};
    bool leased = false;    // counted in its exchange's under_way
    bool answered = false;  // and there, too
    std::size_t payload_bytes = 0;
    Instant sent_at{};
    std::uint8_t failures = 0;  // attempts in a row without an answer that was of use
    bool unsure = false;        // the connection failed since it was sent
    bool resuming = false;      // and the partner was heard again
    Duration retry{};           // between repeats of Commit
    Instant detach_at{};        // an unacknowledged stripe leaves its exchange
    Instant gives_up_at{};
  };
  using Input = InitiatorStripe::Input;
  using Output = InitiatorStripe::Output;
  using State = InitiatorStripe::State;

  bool offer(Instant now, const Round& round);
  bool wait_for_partner(Instant now, const Round& round);
  bool owes(PeerId partner) const;
  bool in_doubt(PeerId partner) const;
  std::vector<PeerId> not_to_ask(const Round& round) const;
  void end_offer(Instant now, const ExchangeKey& key, Outcome outcome);
  Duration within(std::optional<Duration> measured, Duration longest) const;
  Duration patience(Instant now, PeerId partner, std::size_t payload_bytes);
  std::uint16_t window_now(Instant now, const Exchange& exchange);
  bool has_room(Instant now, const Exchange& exchange);
  void note_progress(Instant now, const StripeRef& ref);
  bool is_valid(const Exchange& exchange, const Accept& accept) const;
  void advance(Instant now, const ExchangeKey& key);
  void close(Instant now, const ExchangeKey& key, Outcome outcome);
  void end(const Exchange& exchange, Outcome outcome);
  void drive(Instant now, const StripeRef& ref, Input input,
             RejectReason reason = RejectReason::kNone);
  void perform(Output output, const StripeRef& ref, const Stripe& stripe, RejectReason reason);
  void follow(Instant now, const StripeRef& key, Stripe& stripe, State before);
  void note_owed(PeerId partner, State before, State state);
  void detach(const StripeRef& key, Stripe& stripe);
  void wait(Instant now, const StripeRef& key, Stripe& stripe, State before);
  void settle(const StripeRef& key, Stripe& stripe);
  void on_timer(Instant now, const StripeRef& key);
  void on_silence(Instant now, const StripeRef& ref, Stripe& stripe);
  void blame(Instant now, PeerId partner, const Exchange& exchange, const Stripe& stripe);
  bool speaks_for(Instant now, PeerId from, const ExchangeKey& key);

  CoreContext& context_;
  PeerSampler sampler_;
  std::vector<PeerId> last_partners_;  // by fragment
  std::uint64_t next_counter_ = 1;
  std::deque<Round> pending_;         // oldest first, each fragment at most once
  std::vector<std::size_t> payload_;  // the largest of each fragment so far, in bytes
  std::set<PeerId> broken_;           // sending to them failed, and they were not heard since
  std::map<ExchangeKey, Exchange> open_;
  std::map<StripeRef, Stripe> stripes_;   // by reference with attempt 0; none has ended
  std::map<PeerId, std::uint32_t> owed_;  // stripes applied here and not acknowledged; none: no row
  TimerSet<FragmentId> pause_timers_;     // of pending rounds
  TimerSet<ExchangeKey> offer_timers_;
  TimerSet<StripeRef> stripe_timers_;
};

}  // namespace starling::gossip
