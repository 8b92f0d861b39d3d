#include "peer/roles/mixer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "optim/vector_math.h"

namespace starling::peer {

namespace {

using gossip::RejectReason;

// Of a stripe to be committed: either its row is in the ledger, or there is nothing staged.
gossip::Verdict verdict_of(bool applied) {
  return {applied ? RejectReason::kNone : RejectReason::kNoRoom};
}

}  // namespace

Mixer::Mixer(const MixerConfig& config, const StripeTable& stripes,
             std::unique_ptr<optim::OuterRule> rule, SlotPool& floats, SlotPool& payloads,
             Rings& rings, MixerMetrics& metrics, std::function<void()> wake_network)
    : config_(config),
      stripes_(stripes),
      rule_(std::move(rule)),
      floats_(floats),
      payloads_(payloads),
      rings_(rings),
      metrics_(metrics),
      wake_network_(std::move(wake_network)),
      usual_(stripes.size()),
      learned_(stripes.size()),
      steps_(stripes.size()),
      sizes_(stripes.size()),
      rounds_(stripes.size(), 0),
      encoded_(stripes.size()),
      unseen_(stripes.size()),
      difference_(stripes.parameters_max()),
      blocks_(optim::block_count(stripes.parameters_max())),
      exponents_(optim::block_count(stripes.parameters_max())) {
  reset_scales();
}

void Mixer::start(std::span<const float> initial) {
  if (!rule_->exchanges()) return;
  slow_.assign(initial.begin(), initial.end());
  momentum_.assign(initial.size(), 0.0F);
  measure_sizes();
}

void Mixer::restore(const CheckpointImage& image) {
  if (!rule_->exchanges()) return;
  slow_ = image.slow;
  momentum_ = image.momentum;
  ledger_ = gossip::Ledger(image.ledger);
  applied_.clear();
  for (const UnsettledDelta& delta : image.unsettled) {
    const auto stripe = stripe_of(delta.ref);
    if (!stripe || !decodes(*stripe, delta.payload)) {  // a file may say anything
      metrics_.payloads_refused.add();
      continue;
    }
    applied_.emplace(delta.ref, AppliedDelta{delta.terms, Bytes::copy_of(delta.payload)});
  }
  reset_scales();
  std::span<const float> saved = image.scales;
  for (std::size_t stripe = 0; stripe < scales_.size(); ++stripe) {
    optim::BlockScales& scales = scales_[stripe];
    const std::size_t count = scales.state_floats();
    // Without them (or damaged) the next exchange just starts cold.
    if (saved.size() < count || !scales.restore(saved.first(count)).ok()) break;
    saved = saved.subspan(count);
  }
  measure_sizes();
  for (std::uint16_t f = 0; f < stripes_.fragments(); ++f) {
    restore_usual(FragmentId{f});
    publish(FragmentId{f}, false);
  }
}

bool Mixer::pump() {
  bool worked = false;
  while (!unsent_.empty() && rings_.mixer_to_network.try_push(std::move(unsent_.front()))) {
    unsent_.pop_front();
    worked = true;
  }
  // The trainer first: its acknowledgements and snapshots are short and bring slots home.
  while (auto parcel = rings_.trainer_to_mixer.try_pop()) {
    std::visit([this](auto&& content) { handle(std::forward<decltype(content)>(content)); },
               std::move(*parcel));
    worked = true;
  }
  while (!waiting_.empty() && (waiting_.front().undo ? compensate(waiting_.front().ref)
                                                     : apply_staged(waiting_.front().ref))) {
    waiting_.pop_front();
    worked = true;
  }
  if (auto parcel = rings_.network_to_mixer.try_pop()) {
    std::visit([&](const auto& order) { carry_out(order, std::move(parcel->payload)); },
               parcel->order);
    worked = true;
  }
  if (worked) wake_network_();
  return worked;
}

void Mixer::handle(Snapshot snapshot) {
  const Stripe& stripe = stripes_[snapshot.stripe];
  const model::Range range = stripe.range;
  const std::span<float> local = snapshot.slot.floats().first(range.count);
  for (const FrozenSlot& correction : unseen_[snapshot.stripe]) {
    optim::add_scaled(local, 1.0F, correction.floats());
  }
  const auto report =
      rule_->step(snapshot.stage, std::span(slow_).subspan(range.first, range.count),
                  std::span(momentum_).subspan(range.first, range.count), local);
  if (std::isfinite(report.displacement_rms)) {
    metrics_.outer_steps.add();
    ++rounds_[snapshot.stripe];
    run_rms(metrics_.displacement, report.displacement_rms);
    steps_[snapshot.stripe] = static_cast<float>(report.gain * report.displacement_rms);
    metrics_.gain.set(report.gain);
    correct_trainer(snapshot.stripe, std::move(snapshot.slot));
  } else {
    metrics_.outer_steps_refused.add();
    fall_sick("the fast weights");
  }
  if (snapshot.last) publish(stripe.fragment, true);
}

void Mixer::handle(const CorrectionApplied& applied) {
  STARLING_ASSERT(!unseen_[applied.stripe].empty());
  unseen_[applied.stripe].pop_front();
}

void Mixer::handle(std::unique_ptr<CheckpointImage> image) {
  if (rule_->exchanges()) {
    image->slow = slow_;
    image->momentum = momentum_;
    for (std::uint32_t stripe = 0; stripe < stripes_.size(); ++stripe) {
      const model::Range range = stripes_[stripe].range;
      const std::span<float> weights = std::span(image->weights).subspan(range.first, range.count);
      for (const FrozenSlot& correction : unseen_[stripe]) {
        optim::add_scaled(weights, 1.0F, correction.floats());
      }
    }
    save_scales(image->scales);
    image->ledger = ledger_.rows();
    image->unsettled.clear();
    for (const auto& [ref, delta] : applied_) {
      const auto bytes = delta.payload.view();
      image->unsettled.push_back({ref, delta.terms, {bytes.begin(), bytes.end()}});
    }
  }
  image->sound = !sick_ && is_finite(*image);
  if (!image->sound) fall_sick("the weights of a checkpoint");
  send(std::move(image));
}

// --- orders of the protocol core ---

void Mixer::carry_out(const gossip::EncodeStripe& order, Bytes /*payload*/) {
  const auto stripe = stripe_of(order.ref);
  auto slot = stripe ? payloads_.try_acquire() : std::nullopt;
  if (!slot) {
    metrics_.slots_missing.add();
    return send(Encoded{order.ref, {RejectReason::kNoRoom}, std::nullopt, 0});
  }
  const model::Range range = stripes_[*stripe].range;
  const auto slow = std::span<const float>(slow_).subspan(range.first, range.count);
  const auto format = static_cast<optim::WireFormat>(order.format);
  const auto exponents = std::span(exponents_).first(optim::block_count(range.count));
  scales_[*stripe].guess(fragment_state(order.ref.fragment).difference);
  scales_[*stripe].exponents(format, slow, exponents);
  const std::size_t bytes = optim::push_bytes(format, range.count);
  const auto target = slot->bytes().subspan(config_.head_bytes, bytes);
  if (!optim::encode_push(format, gossip::dither_key(order.ref), slow, exponents, target).ok()) {
    fall_sick("the slow weights");
    return send(Encoded{order.ref, {RejectReason::kOwnNotFinite}, std::nullopt, 0});
  }
  encoded_[*stripe] = {order.ref, rounds_[*stripe]};
  send(Encoded{order.ref, {}, std::move(slot), bytes});
}

void Mixer::carry_out(const gossip::ApplyStaged& order, Bytes /*payload*/) {
  if (!apply_staged(order.ref)) waiting_.push_back({order.ref, false});
}

void Mixer::carry_out(const gossip::DropStaged& order, Bytes /*payload*/) {
  staged_.erase(order.ref);
}

void Mixer::carry_out(const gossip::Compensate& order, Bytes /*payload*/) {
  if (!compensate(order.ref)) waiting_.push_back({order.ref, true});
}

void Mixer::carry_out(const gossip::ForgetDelta& order, Bytes /*payload*/) {
  applied_.erase(order.ref);
  ledger_.forget({order.ref, gossip::Role::kInitiator});
}

// --- parts ---

// The responder's half, on Commit. False: no slot at the moment.
bool Mixer::apply_staged(const gossip::StripeRef& ref) {
  const gossip::LedgerRow row{ref, gossip::Role::kResponder};
  const auto staged = staged_.find(ref);
  const auto stripe = stripe_of(ref);
  if (staged == staged_.end() || !stripe) {
    send(Applied{ref, verdict_of(ledger_.contains(row))});
    return true;
  }
  auto correction = floats_.try_acquire();
  if (!correction) return false;
  if (ledger_.record(row)) {
    decode_again(*stripe, staged->second.payload);
    shift(*stripe, std::move(*correction), -factors_of(staged->second.terms).responder);
  }
  staged_.erase(staged);
  send(Applied{ref, verdict_of(ledger_.contains(row))});
  return true;
}

// The initiator's half undone. False: no slot at the moment.
bool Mixer::compensate(const gossip::StripeRef& ref) {
  const auto applied = applied_.find(ref);
  const auto stripe = stripe_of(ref);
  if (applied == applied_.end() || !stripe) {  // undone already
    send(Compensated{ref});
    return true;
  }
  auto correction = floats_.try_acquire();
  if (!correction) return false;
  decode_again(*stripe, applied->second.payload.view());
  shift(*stripe, std::move(*correction), -factors_of(applied->second.terms).initiator);
  ledger_.forget({ref, gossip::Role::kInitiator});
  applied_.erase(applied);
  send(Compensated{ref});
  return true;
}

// Bytes that were decoded or made here before: they decode again, to the same difference.
void Mixer::decode_again(std::uint32_t stripe, std::span<const std::byte> delta) {
  const bool decoded = decodes(stripe, delta);
  STARLING_ASSERT(decoded);
}

// Into difference_.
bool Mixer::decodes(std::uint32_t stripe, std::span<const std::byte> delta) {
  return optim::decode_delta(delta, target_of(stripe).difference).ok();
}

optim::PairFactors Mixer::factors_of(const gossip::PairTerms& terms) {
  return optim::pair_factors(terms.mixing, terms.initiator_weight, terms.responder_weight);
}

std::optional<std::uint32_t> Mixer::stripe_of(const gossip::StripeRef& ref) const {
  if (ref.fragment.value >= stripes_.fragments()) return std::nullopt;
  if (ref.stripe >= stripes_.count_of(ref.fragment)) return std::nullopt;
  return stripes_.first_of(ref.fragment) + ref.stripe;
}

std::optional<SlotLease> Mixer::payload_slot(std::span<const std::byte> payload) {
  auto slot = payloads_.try_acquire();
  if (!slot) return std::nullopt;
  std::memcpy(slot->bytes().data() + config_.head_bytes, payload.data(), payload.size());
  return slot;
}

GateTarget Mixer::target_of(std::uint32_t stripe) {
  const std::size_t count = stripes_[stripe].range.count;
  return {std::span(difference_).first(count), std::span(blocks_).first(optim::block_count(count))};
}

// By share * difference_, the correction of one side: the slow weights now, and the fast ones when
// the trainer gets there.
void Mixer::shift(std::uint32_t stripe, SlotLease correction, float share) {
  const model::Range range = stripes_[stripe].range;
  optim::shift(std::span(slow_).subspan(range.first, range.count),
               correction.floats().first(range.count), share,
               std::span<const float>(difference_).first(range.count));
  correct_trainer(stripe, std::move(correction));
  publish(stripes_[stripe].fragment, false);
}

void Mixer::correct_trainer(std::uint32_t stripe, SlotLease correction) {
  FrozenSlot frozen(std::move(correction), stripes_[stripe].range.count * sizeof(float));
  unseen_[stripe].push_back(frozen);
  const bool sent = rings_.mixer_to_trainer.try_push(CorrectionParcel{stripe, std::move(frozen)});
  STARLING_ASSERT(sent);  // the ring holds as many parcels as there are slots
}

void Mixer::publish(FragmentId fragment, bool offer) {
  send(FragmentPublished{fragment, fragment_state(fragment), offer});
}

void Mixer::send(FromMixer parcel) {
  if (unsent_.empty() && rings_.mixer_to_network.try_push(std::move(parcel))) return;
  if (!refresh_unsent(parcel)) unsent_.push_back(std::move(parcel));
}

// The trainer goes on while the network's thread stands, and publishes for as long as that lasts:
// of each fragment only the newest state is worth keeping.
bool Mixer::refresh_unsent(const FromMixer& parcel) {
  const auto* news = std::get_if<FragmentPublished>(&parcel);
  if (news == nullptr) return false;
  for (FromMixer& waiting : unsent_) {
    auto* older = std::get_if<FragmentPublished>(&waiting);
    if (older == nullptr || older->fragment != news->fragment) continue;
    older->state = news->state;
    older->offer = older->offer || news->offer;
    return true;
  }
  return false;
}

}  // namespace starling::peer
