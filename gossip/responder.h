// Responder: the exchanges that others begin with this peer. Answers offers at once, stages what is
// pushed, applies on Commit only, asks for the outcome of what stays in doubt, and remembers what
// it applied to answer a repeated Commit. While an initiator is silent its Accept is repeated, ever
// more rarely: the first may be lost, and whoever knows nothing of the exchange any more says
// Finish. So a lost message costs the fragment's lease seconds.
//
// Limits: accepted_max leases, twice the window of unsettled stripes in each, in_doubt_max() and at
// most kStagedMax staged stripes whose lease is over (the oldest is dropped, which a Commit then
// learns as Abandoned), Ledger::kRowsMax remembered stripes. The last place is for somebody who has
// none and has not just kept others out (Conduct::yields); nor has such a one the same fragment
// again before others have had time for it (FragmentTurns). Nor has anybody where others have not
// had theirs (PartnerTurns). Thread: one owner.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "gossip/core_context.h"
#include "gossip/fragment_turns.h"
#include "gossip/partner_turns.h"
#include "gossip/responder_stripe.h"
#include "gossip/timer_set.h"

namespace starling::gossip {

class Responder {
 public:
  static constexpr std::size_t kStagedMax = 256;
  static constexpr int kLongHeld = 4;     // times the usual
  static constexpr int kHeldMemory = 16;  // leases in the usual
  static constexpr Duration kQueryMax = std::chrono::seconds(120);

  Responder(CoreContext& context, const RestoredState& restored);

  // Why the offer has to be declined; nothing if it can be accepted as far as the lease of its
  // fragment allows.
  std::optional<DeclineReason> objection(const Offer& offer) const;
  // True if the offer is one we have answered before, or not from whom it says; it is then handled.
  bool is_repeated(Instant now, PeerId from, const Offer& offer);
  void accept(Instant now, PeerId from, const Offer& offer);
  void decline(PeerId from, const Offer& offer, DeclineReason reason);
  // Tells a muted peer for how long; once per mute.
  void decline_muted(Instant now, PeerId from, const ExchangeKey& exchange);
  // To one that takes us for a partner and is none of ours: its Welcome is still on the way here,
  // or a sample has forgotten it. Silence would cost it all of offer_timeout. Others hear nothing.
  void decline_strange(PeerId from, const Offer& offer);

  void on_published(FragmentId fragment) { partner_turns_.on_round(fragment); }
  void on_push(Instant now, PeerId from, const StripeRef& ref);
  void on_commit(Instant now, PeerId from, const StripeRef& ref);
  void on_abort(Instant now, PeerId from, const Abort& message);
  void on_resend(Instant now, PeerId from, const StripeRef& ref);
  void on_finish(Instant now, PeerId from, const ExchangeKey& key);
  void on_staged(Instant now, const StripeRef& ref, const Verdict& verdict,
                 std::size_t payload_bytes);
  void on_applied(Instant now, const StripeRef& ref, const Verdict& verdict);
  void on_muted(Instant now, PeerId peer);
  void on_send_failed(PeerId to);
  void on_heard(Instant now, PeerId from);  // any message of a partner
  void on_peer_lost(Instant now, PeerId peer);
  void on_deadline(Instant now);
  void abandon_all(Instant now);
  void shift(Duration by);

  bool involves(PeerId peer) const;  // in an exchange that is open
  std::optional<Instant> next_deadline() const;
  std::size_t open() const { return open_.size(); }
  std::size_t staged() const { return stripes_.size(); }
  void assert_invariants() const;

 private:
  struct Lease {
    FragmentId fragment;
    std::uint32_t stripes = 0;
    Accept accepted;
    PairTerms terms;
    float partner_lag = 0;   // of the fragment, in seconds
    Duration silence_max{};  // longer than its initiator is silent between two attempts
    Instant begun{};
    bool wanted = false;           // others were turned away meanwhile
    bool fragment_wanted = false;  // they had offered the same fragment
    Instant ends_at{};             // at the latest; later with every stripe settled
    Instant gives_up_at{};         // unless its initiator brings it forward
    Duration retry{};              // between two Accepts
    Instant progress_at{};         // a delta was answered
    std::uint32_t applied = 0;
    std::uint32_t unsettled = 0;  // staging, staged or applying
    float clip_factor = 1;        // the smallest of its stripes
  };
  using State = ResponderStripe::State;
  struct Stripe {
    ResponderStripe machine;
    PairTerms terms{};
    std::uint8_t format = 0;
    std::size_t payload_bytes = 0;  // of the delta
    Instant sent_at{};              // it
    State furthest{};               // of any attempt
    bool reissuing = false;         // the mixer makes it once more
    Instant reissue_again{};        // not before
    bool repeated = false;          // sent more than once: its answer measures nothing
    bool unsure = false;            // the connection failed since it was sent
    Duration retry{};               // between queries
    Instant gives_up_at{};
  };
  using Input = ResponderStripe::Input;
  using Output = ResponderStripe::Output;

  bool has_place(PeerId peer) const;
  bool has_turn(const Offer& offer) const;
  void note_wanted(PeerId by, const Offer& offer, DeclineReason reason);
  bool speaks_for(Instant now, PeerId from, const ExchangeKey& key);
  void end(Instant now, const ExchangeKey& key, Outcome incomplete);
  void drive(Instant now, const StripeRef& ref, Input input,
             RejectReason reason = RejectReason::kNone);
  void drive_unknown(const StripeRef& ref, Input input);
  void perform(const ResponderStripe::Step& step, StripeRef ref, const Stripe& stripe,
               RejectReason reason);
  static bool may_reissue(Instant now, Stripe& stripe);
  void note_progress(Instant now, const StripeRef& ref);
  void note_clipped(const ExchangeKey& key, float clip_factor);
  Duration query_delay(Instant now, PeerId partner, std::size_t payload_bytes);
  void follow(Instant now, const StripeRef& key, Stripe& stripe, State before);
  void on_timer(Instant now, const StripeRef& key);
  void drop_oldest_staged(Instant now);
  static bool is_progress(Stripe& stripe);
  void touch(Instant now, const ExchangeKey& key);
  void on_lease_timer(Instant now, const ExchangeKey& key);

  CoreContext& context_;
  std::map<ExchangeKey, Lease> open_;
  std::map<StripeRef, Stripe> stripes_;  // by reference with attempt 0
  Ledger applied_;
  std::set<PeerId> broken_;  // sending to them failed, and they were not heard since
  FragmentTurns turns_;
  PartnerTurns partner_turns_;
  Duration usual_held_{};  // a lease whose exchange was completed
  TimerSet<ExchangeKey> lease_timers_;
  TimerSet<StripeRef> stripe_timers_;
};

}  // namespace starling::gossip
