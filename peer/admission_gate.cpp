#include "peer/admission_gate.h"

#include <algorithm>

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

// The sender's weights are ours plus `direction` times the difference before clipping.
bool of_one_size(std::span<const float> ours, float direction, std::span<const float> difference,
                 float clip_factor) {
  const double own = std::max(optim::rms(optim::measure(ours), ours.size()), kSizeMin);
  const optim::VectorStats sum = optim::measure_sum(ours, direction / clip_factor, difference);
  const double theirs = std::max(optim::rms(sum, ours.size()), kSizeMin);
  return theirs <= kSizeRatioMax * own && own <= kSizeRatioMax * theirs;
}

}  // namespace

Verdict admit_push(const GateStripe& stripe, std::span<const std::byte> push,
                   std::span<float> difference, std::span<float> skipped_reach,
                   std::vector<std::byte>& delta, optim::DeltaReport& report) {
  auto format = optim::push_format(push, stripe.slow.size());
  if (!format.ok()) return {RejectReason::kMalformed};
  if (static_cast<std::uint8_t>(format.value()) != stripe.format) {
    return {RejectReason::kWrongFormat};
  }
  delta.resize(optim::delta_bytes(format.value(), stripe.slow.size()));
  auto made = optim::make_delta(stripe.key, push, stripe.slow, stripe.clip_radius, difference,
                                delta, skipped_reach);
  if (!made.ok()) return {content_reason(made.error().code(), format.value())};
  report = made.value();
  // difference = ours - theirs.
  if (!of_one_size(stripe.slow, -1.0F, difference, report.clip_factor)) {
    return {RejectReason::kTooFar};
  }
  return {RejectReason::kNone, report.clip_factor < kFarClip};
}

Verdict admit_delta(const GateStripe& stripe, std::span<const std::byte> delta,
                    std::uint64_t rounds_late, std::span<float> difference,
                    std::span<float> skipped_reach, optim::DeltaReport& report) {
  auto format = optim::delta_format(delta, stripe.slow.size());
  if (!format.ok()) return {RejectReason::kMalformed};
  if (static_cast<std::uint8_t>(format.value()) != stripe.format) {
    return {RejectReason::kWrongFormat};
  }
  auto decoded = optim::decode_delta(delta, stripe.slow.size(), difference, skipped_reach);
  if (!decoded.ok()) return {content_reason(decoded.error().code(), format.value())};
  report = decoded.value();
  const bool bounded = stripe.clip_radius > 0;
  if (bounded && report.rms > kClipSlack * stripe.clip_radius) return {RejectReason::kBeyondClip};
  // difference = theirs - ours.
  if (!of_one_size(stripe.slow, 1.0F, difference, report.clip_factor)) {
    return {RejectReason::kTooFar};
  }
  if (rounds_late > kRoundsLateMax) return {RejectReason::kTooOld};
  return {RejectReason::kNone, report.clip_factor < kFarClip};
}

}  // namespace starling::peer
