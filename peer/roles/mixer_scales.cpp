// What a Mixer learns of how far its partners are from it: the steps of the codes, the clip radius.
#include <algorithm>
#include <utility>

#include "optim/vector_math.h"
#include "peer/roles/admission_gate.h"
#include "peer/roles/mixer.h"

namespace starling::peer {

namespace {

// What the first partners may move a fragment by: so many of its own outer steps, or where none was
// made yet this share of its size.
constexpr float kFirstSteps = 8;
constexpr float kFirstShare = 1.0F / 16;
constexpr double kRunningShare = 0.1;  // weight of the newest value in a running RMS

}  // namespace

void Mixer::run_rms(Gauge& gauge, double value) {
  const double before = gauge.value();
  gauge.set(before == 0 ? value : before + kRunningShare * (value - before));
}

// As of weights of which nothing is known.
void Mixer::reset_scales() {
  scales_.clear();
  for (std::uint32_t stripe = 0; stripe < stripes_.size(); ++stripe) {
    scales_.emplace_back(stripes_[stripe].range.count);
  }
  std::fill(usual_.begin(), usual_.end(), optim::UsualDifference());
  std::fill(steps_.begin(), steps_.end(), 0.0F);
}

void Mixer::measure_sizes() {
  for (std::uint32_t stripe = 0; stripe < stripes_.size(); ++stripe) {
    const model::Range range = stripes_[stripe].range;
    const auto weights = std::span<const float>(slow_).subspan(range.first, range.count);
    sizes_[stripe] = static_cast<float>(optim::rms(optim::measure(weights), range.count));
  }
}

// Where some stripes have differed, none to differ is what is usual for the others.
void Mixer::restore_usual(FragmentId fragment) {
  const std::uint32_t first = stripes_.first_of(fragment);
  const auto scales = std::span(scales_).subspan(first, stripes_.count_of(fragment));
  const bool known = std::any_of(scales.begin(), scales.end(),
                                 [](const auto& stripe) { return stripe.rms() > 0; });
  for (std::size_t i = 0; known && i < scales.size(); ++i) {
    usual_[first + i].restore(scales[i].rms());
  }
}

void Mixer::save_scales(std::vector<float>& out) const {
  out.clear();
  std::size_t stripe = 0;
  for (const optim::BlockScales& scales : scales_) {
    out.resize(out.size() + scales.state_floats());
    const double usual = usual_[stripe++].bounded(scales.rms());
    scales.save(std::span(out).last(scales.state_floats()), usual);
  }
}

// From exchanges that this peer began, with partners drawn by chance: who comes by itself may come
// as often as it likes, and say anything. Once of each, however many attempts it takes.
void Mixer::learn_from(const gossip::StripeRef& ref, const optim::DeltaReport& report) {
  const std::uint32_t stripe = *stripe_of(ref);
  if (std::exchange(learned_[stripe], ref.exchange) == ref.exchange) return;
  scales_[stripe].guess(fragment_state(ref.fragment).difference);
  const auto rms =
      scales_[stripe].observe(target_of(stripe).blocks, report.clip_factor, report.format);
  if (rms) usual_[stripe].observe(ref.exchange.responder.id, *rms);
  note_difference(report);
}

// Of whoever comes it only counts that it is farther away, so that a peer which has fallen behind
// is soon let through; and no farther than the others allow.
void Mixer::hear_of(std::uint32_t stripe, const optim::DeltaReport& report) {
  optim::BlockScales& scales = scales_[stripe];
  if (usual_[stripe].voters() > 0) {
    const double rms = optim::averaged_difference(scales.rms(), report.rms / report.clip_factor);
    scales.raise(usual_[stripe].bounded(rms));
  }
  note_difference(report);
}

void Mixer::note_difference(const optim::DeltaReport& report) {
  run_rms(metrics_.disagreement, report.rms);
  metrics_.blocks_seen.add(report.blocks);
  metrics_.blocks_skipped.add(report.blocks_skipped);
}

// While few partners are known, being far from them is no reason to doubt them.
bool Mixer::is_far(std::uint32_t stripe, const gossip::Verdict& verdict) const {
  return verdict.far && usual_[stripe].voters() >= gossip::kVotersLeast;
}

gossip::FragmentState Mixer::fragment_state(FragmentId fragment) const {
  gossip::FragmentState state{.cold = false, .clip_radius = 0};
  float size = static_cast<float>(kSizeMin);
  std::size_t voters = optim::UsualDifference::kVotes;
  std::size_t parameters = 0, lost = 0;
  const std::uint32_t first = stripes_.first_of(fragment);
  for (std::uint32_t stripe = first; stripe < first + stripes_.count_of(fragment); ++stripe) {
    state.cold = state.cold || scales_[stripe].cold();
    parameters += stripes_[stripe].range.count;
    lost += scales_[stripe].lost() ? stripes_[stripe].range.count : 0;
    const double usual = usual_[stripe].bounded(scales_[stripe].rms());
    state.difference = std::max(state.difference, static_cast<float>(usual));
    state.step = std::max(state.step, steps_[stripe]);
    size = std::max(size, sizes_[stripe]);
    voters = std::min(voters, usual_[stripe].voters());
  }
  // Of the stripes that have ever differed. One whose weights nobody trains (ids of the vocabulary
  // that no text has) never does, and is no reason to clip nothing or to send more bits; where none
  // has differed, nobody knows how far codes have to reach.
  state.cold = state.cold || state.difference == 0 || 2 * lost > parameters;
  state.clip_radius = config_.clip_factor * state.difference;
  state.voters = static_cast<std::uint32_t>(voters);
  if (config_.clip_factor > 0) {
    state.first_radius = state.step > 0 ? kFirstSteps * state.step : kFirstShare * size;
  }
  return state;
}

}  // namespace starling::peer
