// Trainer, the part between two steps: what crosses to and from the other roles.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "peer/roles/trainer.h"

namespace starling::peer {

void Trainer::boundary() {
  cross_between_steps();
  bring_corrections();
}

void Trainer::cross_between_steps() {
  apply_corrections();
  if (!boundary_done_) {
    boundary_done_ = true;
    note_due_fragments();
    take_snapshots();
    send_due_image();
  } else {
    take_snapshots();
  }
  if (final_image_wanted_ && !final_image_sent_) {
    if (auto image = rings_.images_to_trainer.try_pop()) {
      (*image)->final = true;
      copy_into(**image);
      outgoing_.push_back({backend_.device->record(Lane::kCopyOut), std::move(*image), {}});
      final_image_sent_ = true;
    }
  }
  hand_over();
}

// Where the device is far, copies arrive beside a step, and are added after it.
void Trainer::apply_corrections() {
  if (arriving_.bytes() > 0) return apply_arrived();
  // Bounded by the slots: a correction comes home before its slot is used again.
  while (auto correction = rings_.mixer_to_trainer.try_pop()) {
    const std::span<const float> values = correction->values.floats();
    add_correction(correction->stripe, {values.data(), values.size()});
    outgoing_.push_back({backend_.device->record(Lane::kCompute),
                         CorrectionApplied{correction->stripe}, std::move(correction->values)});
  }
}

// Their slots were read by the copies alone.
void Trainer::apply_arrived() {
  if (arriving_corrections_.empty()) return;
  backend_.device->hold(Lane::kCompute, arrived_);
  for (ArrivingCorrection& arriving : arriving_corrections_) {
    add_correction(arriving.stripe, arriving.values);
    outgoing_.push_back({arrived_, CorrectionApplied{arriving.stripe}, std::move(arriving.source)});
  }
  arriving_corrections_.clear();
  added_ = backend_.device->record(Lane::kCompute);
}

// Until the device is there the host has nothing else to do: it hands over the copies that are
// finished and begins to copy corrections, so that a slot that leaves at one boundary comes back
// with its correction at the next. Called behind a pass's first copies, which are short and for
// which the pass waits.
void Trainer::cross_beside(Fence computed) {
  if (arriving_.bytes() == 0) return;
  do {
    bring_corrections();
    hand_over();
  } while (!backend_.device->reached(computed));
}

void Trainer::bring_corrections() {
  if (arriving_.bytes() == 0) return;
  Device& device = *backend_.device;
  const std::size_t stripe = stripes_.parameters_max();
  const std::size_t before = arriving_corrections_.size();
  while (arriving_corrections_.size() < slots_.slots()) {
    auto correction = rings_.mixer_to_trainer.try_pop();
    if (!correction) break;
    // What was there may still be read.
    if (arriving_corrections_.empty()) device.hold(Lane::kCopyIn, added_);
    const std::span<const std::byte> values = correction->values.bytes();
    const DeviceSpan<float> place = arriving_.as<float>().subspan(
        arriving_corrections_.size() * stripe, values.size() / sizeof(float));
    device.copy_in(Lane::kCopyIn, place.bytes(), values);
    arriving_corrections_.push_back({correction->stripe, place, std::move(correction->values)});
  }
  if (arriving_corrections_.size() > before) arrived_ = device.record(Lane::kCopyIn);
}

void Trainer::add_correction(std::uint32_t stripe, DeviceSpan<const float> values) {
  const model::Range range = stripes_[stripe].range;
  STARLING_ASSERT(values.size == range.count);
  hold_for_copies();
  const DeviceSpan<bf16> rounded = rounded_weights();
  backend_.flat->add_scaled(Lane::kCompute, params_.as<float>().subspan(range.first, range.count),
                            1.0F, values,
                            rounded.size > 0 ? rounded.subspan(range.first, range.count) : rounded);
  metrics_.corrections.add();
}

// For whoever changes theta and them together. Empty: they are made anew before the next step.
DeviceSpan<bf16> Trainer::rounded_weights() {
  DeviceSpan<bf16> rounded;
  if (known_ == model::Weights::kSame) {
    rounded = backend_.layers->rounded_weights(params_.as<float>());
  }
  if (rounded.size == 0) known_ = model::Weights::kNew;
  return rounded;
}

void Trainer::note_due_fragments() {
  if (!config_.exchanges || progress_.steps == 0) return;
  if (finished()) {  // the last displacement of every fragment counts too
    for (std::uint16_t f = 0; f < stripes_.fragments(); ++f) queue(FragmentId{f});
  } else if (auto fragment = fragment_clock_->step(steps_per_round())) {
    queue(*fragment);
  }
}

// Smoothed over some steps: one of them may be slow for any reason.
std::uint32_t Trainer::steps_per_round() {
  constexpr double kShare = 1.0 / 4;
  if (!config_.dynamic_steps) return config_.fragments.steps_per_round;
  const double said = metrics_.speed_share.value();
  if (said > 0) speed_share_ += kShare * (said - speed_share_);
  const std::uint32_t steps = optim::dynamic_local_steps(config_.fragments, speed_share_);
  metrics_.steps_per_round.set(steps);
  return steps;
}

void Trainer::queue(FragmentId fragment) {
  const std::uint32_t first = stripes_.first_of(fragment);
  for (std::uint32_t stripe = first; stripe < first + stripes_.count_of(fragment); ++stripe) {
    if (is_due_[stripe]) {  // still waiting since last time: its displacement goes on growing
      metrics_.snapshots_skipped.add();
      continue;
    }
    is_due_[stripe] = true;
    due_.push_back(stripe);
  }
}

// As many as there are slots, a quarter of which is left to exchanges; the rest at the next
// boundary. A fragment may be larger than all slots together.
void Trainer::take_snapshots() {
  if (due_.empty()) return;
  Device& device = *backend_.device;
  device.hold(Lane::kCopyOut, device.record(Lane::kCompute));
  std::size_t taken = 0;
  while (taken < due_.size() && slots_.free_count() > slots_.slots() / 4) {
    snapshot(due_[taken]);
    ++taken;
  }
  due_.erase(due_.begin(), due_.begin() + static_cast<std::ptrdiff_t>(taken));
  copied_ = device.record(Lane::kCopyOut);
}

void Trainer::snapshot(std::uint32_t stripe) {
  auto slot = slots_.try_acquire();
  is_due_[stripe] = false;
  if (!slot) {  // somebody was faster
    metrics_.snapshots_skipped.add();
    return;
  }
  const Stripe& place = stripes_[stripe];
  const auto theta = params_.as<float>().subspan(place.range.first, place.range.count);
  backend_.device->copy_out(Lane::kCopyOut, slot->bytes().first(place.range.count * sizeof(float)),
                            theta.bytes());
  const bool last = place.index + 1 == stripes_.count_of(place.fragment);
  const optim::OuterStage stage{progress_.steps, metrics_.equal_peers.value()};
  Snapshot taken{stripe, last, std::move(*slot), stage};
  outgoing_.push_back({backend_.device->record(Lane::kCopyOut), std::move(taken), {}});
  metrics_.snapshots.add();
}

// Every so many steps; and as soon as one is wanted, for whoever would fetch it would else wait for
// the first.
void Trainer::send_due_image() {
  const std::uint64_t every = config_.checkpoint_every_steps;
  if (every == 0 || progress_.steps == 0 || finished()) return;
  const bool due = progress_.steps % every == 0;
  const bool early = metrics_.checkpoints_wanted.value() > early_images_;
  if (!due && !early) return;
  auto image = rings_.images_to_trainer.try_pop();
  if (!image) {
    if (due) metrics_.checkpoints_skipped.add();
    return;
  }
  early_images_ = metrics_.checkpoints_wanted.value();  // a due one serves as well
  copy_into(**image);
  outgoing_.push_back({backend_.device->record(Lane::kCopyOut), std::move(*image), {}});
}

void Trainer::copy_into(CheckpointImage& image) {
  Device& device = *backend_.device;
  device.hold(Lane::kCopyOut, device.record(Lane::kCompute));
  image.progress = progress_;
  if (next_index_) {
    image.data = before_next_;  // nobody has trained on the next batch
  } else {
    source_.save(image.data);
  }
  device.copy_out(Lane::kCopyOut, std::as_writable_bytes(std::span(image.weights)),
                  params_.as<float>().bytes());
  device.copy_out(Lane::kCopyOut, std::as_writable_bytes(std::span(image.first_moment)),
                  adamw_->first_moment().bytes());
  device.copy_out(Lane::kCopyOut, std::as_writable_bytes(std::span(image.second_moment)),
                  adamw_->second_moment().bytes());
  copied_ = device.record(Lane::kCopyOut);
}

// Forward and backward only read what is copied, and go on beside the copies.
void Trainer::hold_for_copies() { backend_.device->hold(Lane::kCompute, copied_); }

void Trainer::hand_over() {
  std::size_t sent = 0;
  for (; sent < outgoing_.size(); ++sent) {
    Outgoing& front = outgoing_[sent];
    if (!backend_.device->reached(front.fence)) break;
    front.held = FrozenSlot();
    if (!rings_.trainer_to_mixer.try_push(std::move(front.parcel))) break;
  }
  if (sent == 0) return;
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(sent));
  rings_.mixer_bell.ring();
}

}  // namespace starling::peer
