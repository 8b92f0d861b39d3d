#include "gossip/sim/sim_mixer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace starling::gossip {

namespace {

// Whoever has weight at all has an eighth.
std::int64_t eighths(float weight) {
  return weight > 0 ? std::clamp<std::int64_t>(std::lround(8 * weight), 1, 8) : 0;
}

}  // namespace

SimWeights sim_weights(const PairTerms& terms) {
  STARLING_ASSERT(terms.mixing == 0.5F);
  const std::int64_t initiator = eighths(terms.initiator_weight);
  const std::int64_t responder = eighths(terms.responder_weight);
  const std::int64_t common = std::max<std::int64_t>(std::gcd(initiator, responder), 1);
  return {initiator / common, responder / common};
}

StripeValues sim_change(const PairTerms& terms, Role role, const StripeValues& half) {
  const SimWeights weights = sim_weights(terms);
  const std::int64_t sum = weights.initiator + weights.responder;
  StripeValues change{};
  if (sum == 0) return change;
  const std::int64_t share = role == Role::kInitiator ? weights.responder : -weights.initiator;
  for (std::size_t i = 0; i < half.size(); ++i) change[i] = 2 * half[i] / sum * share;
  return change;
}

StripeValues half_difference(const StripeValues& initiator, const StripeValues& responder) {
  StripeValues half{};
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = (responder[i] - initiator[i]) / 2;
  return half;
}

bool within_radius(const StripeValues& half, float radius) {
  const auto limit = static_cast<std::int64_t>(radius);
  return limit <= 0 || std::all_of(half.begin(), half.end(), [limit](std::int64_t value) {
           return std::abs(value) <= limit;
         });
}

StripeValues clipped(const StripeValues& half, float radius) {
  if (within_radius(half, radius)) return half;
  const auto limit = static_cast<std::int64_t>(radius);
  std::int64_t largest = 0;
  for (const std::int64_t value : half) largest = std::max(largest, std::abs(value));
  STARLING_ASSERT(largest < std::int64_t{1} << 31);  // the products below stay exact
  STARLING_ASSERT(limit < std::int64_t{1} << 31);
  StripeValues scaled{};
  for (std::size_t i = 0; i < half.size(); ++i) scaled[i] = half[i] * limit / largest;
  return scaled;
}

// What the admission gate of a real mixer turns down before it looks at any difference.
RejectReason objection(const SimPayload& payload) {
  if (!payload.sound) return RejectReason::kMalformed;
  if (!payload.finite) return RejectReason::kNotFinite;
  const bool sized = std::all_of(payload.values.begin(), payload.values.end(),
                                 [](std::int64_t value) { return std::abs(value) < kSimValueMax; });
  return sized ? RejectReason::kNone : RejectReason::kTooFar;
}

void add(StripeValues& target, std::int64_t factor, const StripeValues& change) {
  for (std::size_t i = 0; i < target.size(); ++i) target[i] += factor * change[i];
}

StripeIndex::StripeIndex(const std::vector<std::uint32_t>& stripes) : first_{0} {
  for (const std::uint32_t count : stripes) first_.push_back(first_.back() + count);
}

std::size_t StripeIndex::at(FragmentId fragment, std::uint32_t stripe) const {
  STARLING_ASSERT(fragment.value + std::size_t{1} < first_.size());
  STARLING_ASSERT(first_[fragment.value] + stripe < first_[fragment.value + std::size_t{1}]);
  return first_[fragment.value] + stripe;
}

const StripeRef& ref_of(const MixerOrder& order) {
  return std::visit([](const auto& which) -> const StripeRef& { return which.ref; }, order);
}

// One order at work. Every overload fills `result`.
struct SimMixer::Execute {
  SimMixer& mixer;
  const std::optional<SimPayload>& payload;
  const bool refuse;
  MixerResult& result;

  void answer(Answer kind, RejectReason reason) {
    result.answer = kind;
    result.verdict = {reason};
  }
  RejectReason slot() const { return refuse ? RejectReason::kNoRoom : RejectReason::kNone; }
  RejectReason gate() const { return refuse ? RejectReason::kNoRoom : objection(*payload); }
  // A payload of another stripe, or none, where one is needed: the core mixed something up.
  bool payload_fits(const StripeRef& ref) {
    result.odd = !payload.has_value() || payload->ref != ref;
    return !result.odd;
  }

  void operator()(const EncodeStripe& order) {
    answer(Answer::kEncoded, slot());
    if (refuse) return;
    result.payload = {order.ref, mixer.values_of(order.ref)};
  }

  void operator()(const StageDelta& order) {
    const bool fits = payload_fits(order.ref);
    answer(Answer::kStaged, fits ? gate() : RejectReason::kMalformed);
    if (!result.ok()) return;
    const StripeValues whole = half_difference(payload->values, mixer.values_of(order.ref));
    const bool still = mixer.bug_ == SeededBug::kMovesNothing;
    const StripeValues half = still ? StripeValues{} : clipped(whole, order.terms.clip_radius);
    result.clipped = half != whole;
    mixer.staged_[order.ref] = {half, order.terms};
    result.payload = {order.ref, half};
  }

  void operator()(const ReissueDelta& order) {
    const auto staged = mixer.staged_.find(order.ref);
    result.odd = staged == mixer.staged_.end();
    answer(Answer::kStaged, result.odd ? RejectReason::kNoRoom : RejectReason::kNone);
    if (result.ok()) result.payload = {order.ref, staged->second.half};
  }

  void operator()(const ApplyDelta& order) {
    const bool fits = payload_fits(order.ref);
    answer(Answer::kApplied, fits ? gate() : RejectReason::kMalformed);
    if (!result.ok()) return;
    if (!within_radius(payload->values, order.terms.clip_radius)) {
      result.verdict = {RejectReason::kBeyondClip};
      return;
    }
    if (!mixer.ledger_.record({order.ref, Role::kInitiator})) {
      result.odd = true;
      result.verdict = {RejectReason::kRepeated};
      return;
    }
    const std::int64_t times = mixer.bug_ == SeededBug::kAppliesTwice ? 2 : 1;
    add(mixer.values_of(order.ref), times,
        sim_change(order.terms, Role::kInitiator, payload->values));
    mixer.unacknowledged_[order.ref] = {payload->values, order.terms};
    result.payload = *payload;
  }

  void operator()(const ApplyStaged& order) {
    const auto staged = mixer.staged_.find(order.ref);
    result.odd = staged == mixer.staged_.end();
    answer(Answer::kApplied, result.odd ? RejectReason::kRepeated : RejectReason::kNone);
    if (result.odd) return;
    if (!mixer.ledger_.record({order.ref, Role::kResponder})) {
      result.odd = true;
      result.verdict = {RejectReason::kRepeated};
      return;
    }
    const auto& [half, terms] = staged->second;
    const std::int64_t times = mixer.bug_ == SeededBug::kSkipsCommit ? 0 : 1;
    add(mixer.values_of(order.ref), times, sim_change(terms, Role::kResponder, half));
    mixer.staged_.erase(staged);
  }

  void operator()(const DropStaged& order) { mixer.staged_.erase(order.ref); }

  void operator()(const Compensate& order) {
    answer(Answer::kCompensated, RejectReason::kNone);
    const auto kept = mixer.unacknowledged_.find(order.ref);
    result.moot = kept == mixer.unacknowledged_.end() && mixer.adopted_;
    result.odd = kept == mixer.unacknowledged_.end() && !result.moot;
    if (result.odd || result.moot) return;
    const auto& [half, terms] = kept->second;
    const std::int64_t times = mixer.bug_ == SeededBug::kSkipsCompensation ? 0 : 1;
    add(mixer.values_of(order.ref), -times, sim_change(terms, Role::kInitiator, half));
    mixer.ledger_.forget({order.ref, Role::kInitiator});
    mixer.unacknowledged_.erase(kept);
  }

  void operator()(const ForgetDelta& order) {
    const bool unknown = mixer.unacknowledged_.erase(order.ref) == 0;
    result.moot = unknown && mixer.adopted_;
    result.odd = unknown && !result.moot;
    mixer.ledger_.forget({order.ref, Role::kInitiator});
  }
};

SimMixer::SimMixer(const StripeIndex& index, const Cut& restored, SeededBug bug)
    : index_(index),
      bug_(bug),
      values_(restored.values),
      ledger_(restored.ledger),
      unacknowledged_(restored.unacknowledged) {
  STARLING_ASSERT(values_.size() == index_.size());
}

StripeValues& SimMixer::values_of(const StripeRef& ref) {
  return values_[index_.at(ref.fragment, ref.stripe)];
}

void SimMixer::submit(const MixerOrder& order, const SimPayload* payload) {
  orders_.push_back({order, payload == nullptr ? std::nullopt : std::optional(*payload)});
}

MixerResult SimMixer::execute_next(bool refuse) {
  STARLING_ASSERT(!orders_.empty());
  const Order next = std::move(orders_.front());
  orders_.pop_front();
  MixerResult result;
  result.order = next.order;
  std::visit(Execute{*this, next.payload, refuse, result}, next.order);
  return result;
}

void SimMixer::adopt(const std::vector<StripeValues>& values) {
  STARLING_ASSERT(values.size() == index_.size() && staged_.empty());
  values_ = values;
  adopted_ = true;
  ledger_ = Ledger();
  unacknowledged_.clear();
}

SimMixer::Cut SimMixer::cut() const {
  Cut cut{values_, ledger_.rows(), unacknowledged_};
  if (bug_ == SeededBug::kCutWithoutLedger) cut.ledger.clear();
  return cut;
}

}  // namespace starling::gossip
