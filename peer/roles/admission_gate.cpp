#include "peer/roles/admission_gate.h"

#include <algorithm>
#include <cmath>

#include "optim/vector_math.h"

namespace starling::peer {

namespace {

using gossip::RejectReason;
using gossip::Verdict;
using optim::WireFormat;

// Bytes that fit in form and are refused all the same: modular codes have no values that are not
// finite, only codes that mean nothing.
RejectReason content_reason(ErrorCode code, WireFormat format) {
  if (code == ErrorCode::kCorrupt) return RejectReason::kOwnNotFinite;
  return optim::is_modular(format) ? RejectReason::kMalformed : RejectReason::kNotFinite;
}

// Whether the difference is so small that the sender's weights must be of one size with ours:
// nearly always, and without another look at either.
bool is_near(const optim::DeltaReport& report) {
  const double own = std::max(report.own_rms, kSizeMin);
  return report.rms / report.clip_factor <= (1 - 1 / kSizeRatioMax) * own;
}

// The sender's weights are ours plus `direction` times the difference before clipping.
bool of_one_size(const optim::DeltaReport& report, std::span<const float> ours, float direction,
                 std::span<const float> difference) {
  const double own = std::max(report.own_rms, kSizeMin);
  const optim::VectorStats sum =
      optim::measure_sum(ours, direction / report.clip_factor, difference);
  const double theirs = std::max(optim::rms(sum, ours.size()), kSizeMin);
  return theirs <= kSizeRatioMax * own && own <= kSizeRatioMax * theirs;
}

}  // namespace

Verdict admit_push(const GateStripe& stripe, std::span<const std::byte> push,
                   const GateTarget& target, std::span<std::byte> delta,
                   optim::DeltaReport& report) {
  auto format = optim::push_format(push, stripe.slow.size());
  if (!format.ok()) return {RejectReason::kMalformed};
  if (format.value() != stripe.format) return {RejectReason::kWrongFormat};
  auto made =
      optim::make_delta(stripe.key, push, stripe.slow, stripe.clip_radius, delta, target.blocks);
  if (!made.ok()) return {content_reason(made.error().code(), format.value())};
  report = made.value();
  if (!is_near(report)) {
    // difference = ours - theirs.
    const bool decoded = optim::decode_delta(delta, target.difference).ok();
    if (!decoded || !of_one_size(report, stripe.slow, -1.0F, target.difference)) {
      return {RejectReason::kTooFar};
    }
  }
  return {RejectReason::kNone, report.clip_factor < kFarClip, report.clip_factor};
}

Verdict admit_delta(const GateStripe& stripe, std::span<const std::byte> delta,
                    std::uint64_t rounds_late, const GateTarget& target,
                    optim::DeltaReport& report) {
  auto format = optim::delta_format(delta, stripe.slow.size());
  if (!format.ok()) return {RejectReason::kMalformed};
  if (format.value() != stripe.format) return {RejectReason::kWrongFormat};
  auto decoded = optim::decode_delta(delta, target.difference, target.blocks, stripe.slow);
  if (!decoded.ok()) return {content_reason(decoded.error().code(), format.value())};
  report = decoded.value();
  if (!std::isfinite(report.own_rms)) return {RejectReason::kOwnNotFinite};
  const bool bounded = stripe.clip_radius > 0;
  if (bounded && report.rms > kClipSlack * stripe.clip_radius) return {RejectReason::kBeyondClip};
  // difference = theirs - ours.
  if (!is_near(report) && !of_one_size(report, stripe.slow, 1.0F, target.difference)) {
    return {RejectReason::kTooFar};
  }
  if (rounds_late > kRoundsLateMax) return {RejectReason::kTooOld};
  return {RejectReason::kNone, report.clip_factor < kFarClip, report.clip_factor};
}

}  // namespace starling::peer
