// What a Mixer does with payloads of other peers, and what becomes of them at the admission gate.
#include <utility>

#include "peer/roles/admission_gate.h"
#include "peer/roles/mixer.h"

namespace starling::peer {

using gossip::RejectReason;

void Mixer::carry_out(const gossip::StageDelta& order, Bytes payload) {
  const auto refuse = [&](const gossip::Verdict& verdict) {
    note(verdict);
    send(Staged{order.ref, verdict, std::nullopt, 0});
  };
  const auto stripe = stripe_of(order.ref);
  if (!stripe) return refuse({RejectReason::kWrongName});
  if (staged_.contains(order.ref)) return refuse({RejectReason::kRepeated});
  const GateStripe agreed = gate_stripe(*stripe, order.ref, order.terms, order.format);
  auto reply = payloads_.try_acquire();
  if (!reply) return refuse({RejectReason::kNoRoom});
  // The delta's bytes define the difference: both sides decode them to the very same floats, which
  // is what makes the two shifts exactly opposite.
  const auto delta = reply->bytes().subspan(config_.head_bytes,
                                            optim::delta_bytes(agreed.format, agreed.slow.size()));
  optim::DeltaReport report;
  gossip::Verdict verdict = admit_push(agreed, payload.view(), target_of(*stripe), delta, report);
  if (!verdict.done()) return refuse(verdict);
  verdict.far = is_far(*stripe, verdict);
  hear_of(*stripe, report);
  staged_.emplace(order.ref, StagedStripe{order.terms, {delta.begin(), delta.end()}});
  send(Staged{order.ref, verdict, std::move(reply), delta.size()});
}

void Mixer::carry_out(const gossip::ReissueDelta& order, Bytes /*payload*/) {
  const auto staged = staged_.find(order.ref);
  auto slot = staged == staged_.end() ? std::nullopt : payload_slot(staged->second.payload);
  if (!slot) {
    note({RejectReason::kNoRoom});
    return send(Staged{order.ref, {RejectReason::kNoRoom}, std::nullopt, 0});
  }
  send(Staged{order.ref, {}, std::move(slot), staged->second.payload.size()});
}

void Mixer::carry_out(const gossip::ApplyDelta& order, Bytes payload) {
  if (applied_.contains(order.ref)) return send(Applied{order.ref, {}});
  const auto refuse = [&](const gossip::Verdict& verdict) {
    note(verdict);
    send(Applied{order.ref, verdict});
  };
  const auto stripe = stripe_of(order.ref);
  if (!stripe) return refuse({RejectReason::kWrongName});
  const LastEncoded& pushed = encoded_[*stripe];
  const std::uint64_t late =
      pushed.ref == order.ref ? rounds_[*stripe] - pushed.round : kRoundsLateMax + 1;
  optim::DeltaReport report;
  gossip::Verdict verdict = admit_delta(gate_stripe(*stripe, order.ref, order.terms, order.format),
                                        payload.view(), late, target_of(*stripe), report);
  if (!verdict.done()) return refuse(verdict);
  auto correction = floats_.try_acquire();
  if (!correction) return refuse({RejectReason::kNoRoom});
  if (!ledger_.record({order.ref, gossip::Role::kInitiator})) {
    return refuse({RejectReason::kRepeated});
  }
  verdict.far = is_far(*stripe, verdict);
  learn_from(order.ref, report);
  shift(*stripe, std::move(*correction), factors_of(order.terms).initiator);
  applied_.emplace(order.ref, AppliedDelta{order.terms, std::move(payload)});
  send(Applied{order.ref, verdict});
}

GateStripe Mixer::gate_stripe(std::uint32_t stripe, const gossip::StripeRef& ref,
                              const gossip::PairTerms& terms, std::uint8_t format) const {
  const model::Range range = stripes_[stripe].range;
  return {.slow = std::span<const float>(slow_).subspan(range.first, range.count),
          .format = static_cast<optim::WireFormat>(format),
          .clip_radius = terms.clip_radius,
          .key = gossip::dither_key(ref)};
}

// An order was refused.
void Mixer::note(const gossip::Verdict& verdict) {
  if (verdict.reason == RejectReason::kNoRoom) return metrics_.slots_missing.add();
  if (verdict.reason == RejectReason::kOwnNotFinite) fall_sick("the slow weights");
  metrics_.payloads_refused.add();
}

void Mixer::fall_sick(std::string_view what) {
  if (!std::exchange(sick_, true)) send(Sick{what});
}

}  // namespace starling::peer
