#include "peer/roles/trainer.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "model/init.h"
#include "peer/io/clock.h"
#include "peer/roles/held_clock.h"

namespace starling::peer {

namespace {

// Moments of AdamW follow the parameters' arena; neighbours with the same rule become one range.
std::vector<optim::DecayRange> decay_ranges(const model::ParamLayout& layout) {
  std::vector<optim::DecayRange> ranges;
  for (const model::ParamSlot& slot : layout.slots()) {
    if (!ranges.empty() && ranges.back().decays == slot.decays) {
      ranges.back().count += slot.range.count;
    } else {
      ranges.push_back({slot.range.first, slot.range.count, slot.decays});
    }
  }
  return ranges;
}

}  // namespace

Trainer::Trainer(const TrainerConfig& config, const StripeTable& stripes, Backend& backend,
                 TokenSource& source, SlotPool& slots, Rings& rings, TrainerMetrics& metrics)
    : config_(config),
      stripes_(stripes),
      backend_(backend),
      source_(source),
      slots_(slots),
      rings_(rings),
      metrics_(metrics) {
  if (config.exchanges) fragment_clock_.emplace(config.fragments, 0);
}

Result<std::unique_ptr<Trainer>> Trainer::create(const TrainerConfig& config,
                                                 const model::ParamLayout& layout,
                                                 const StripeTable& stripes, Backend& backend,
                                                 TokenSource& source, SlotPool& slots, Rings& rings,
                                                 TrainerMetrics& metrics) {
  std::unique_ptr<Trainer> trainer(
      new Trainer(config, stripes, backend, source, slots, rings, metrics));
  for (Buffer* buffer : {&trainer->params_, &trainer->gradients_}) {
    auto memory = backend.device->allocate(MemoryKind::kDevice, layout.elements() * sizeof(float));
    if (!memory.ok()) return std::move(memory).error().with_context("model parameters");
    *buffer = std::move(memory).value();
  }
  const std::int64_t micro = config.micro_batch > 0 ? config.micro_batch : config.batch.sequences;
  STARLING_ASSERT(config.batch.sequences % micro == 0);
  if (config.own_model) {
    model::BatchShape pass = config.batch;
    pass.sequences = micro;
    // Its context is not the layout's, see trained_model(); nothing else of it is in a layout.
    auto own = model::ParamLayout::plan(config.model, layout.fragments());
    if (!own.ok()) return std::move(own).error().with_context("model");
    auto llama =
        model::Llama::create(config.model, own.value(), pass, *backend.device, *backend.layers);
    if (!llama.ok()) return std::move(llama).error().with_context("model");
    trainer->llama_.emplace(std::move(llama).value());
  }
  if (config.exchanges && backend.is_far()) {
    const std::size_t stripe = stripes.parameters_max() * sizeof(float);
    auto memory = backend.device->allocate(MemoryKind::kDevice, slots.slots() * stripe);
    if (!memory.ok()) return std::move(memory).error().with_context("corrections");
    trainer->arriving_ = std::move(memory).value();
    trainer->arriving_corrections_.reserve(slots.slots());
  }
  auto adamw = optim::InnerAdamW::create(config.inner, layout.elements(), decay_ranges(layout),
                                         *backend.device, *backend.flat);
  if (!adamw.ok()) return std::move(adamw).error().with_context("optimizer");
  trainer->adamw_.emplace(std::move(adamw).value());

  const auto tokens = static_cast<std::size_t>(config.batch.sequences * config.batch.tokens);
  trainer->inputs_.resize(tokens);
  trainer->targets_.resize(tokens);
  trainer->next_inputs_.resize(tokens);
  trainer->next_targets_.resize(tokens);
  source.save(trainer->before_next_);  // from here on it has the size that every save needs
  trainer->pass_tokens_ = static_cast<std::size_t>(micro * config.batch.tokens);
  trainer->outgoing_.reserve(std::size_t{slots.slots()} * 2 + 2);
  trainer->due_.reserve(stripes.size());
  trainer->is_due_.resize(stripes.size());
  std::vector<float> initial(layout.elements());
  model::initialise(layout, config.init_seed, initial);
  backend.device->copy_in(Lane::kCompute, trainer->params_.as<float>().bytes(),
                          std::as_bytes(std::span(initial)));
  if (trainer->llama_) {
    trainer->llama_->rehearse(trainer->params_.as<float>(), trainer->gradients_.as<float>(),
                              trainer->share_of_pass());
  }
  backend.device->drain();
  return trainer;
}

void Trainer::start_from(std::span<const float> weights) {
  STARLING_ASSERT(weights.size() == params_.as<float>().size);
  known_ = model::Weights::kNew;
  backend_.device->copy_in(Lane::kCompute, params_.as<float>().bytes(), std::as_bytes(weights));
  backend_.device->drain();
}

void Trainer::restore(const CheckpointImage& image) {
  progress_ = image.progress;
  known_ = model::Weights::kNew;
  next_index_.reset();
  if (config_.exchanges) fragment_clock_.emplace(config_.fragments, progress_.steps);
  metrics_.steps.set(progress_.steps);
  metrics_.tokens.set(progress_.tokens);
  Device& device = *backend_.device;
  device.copy_in(Lane::kCompute, params_.as<float>().bytes(),
                 std::as_bytes(std::span(image.weights)));
  device.copy_in(Lane::kCompute, adamw_->first_moment().bytes(),
                 std::as_bytes(std::span(image.first_moment)));
  device.copy_in(Lane::kCompute, adamw_->second_moment().bytes(),
                 std::as_bytes(std::span(image.second_moment)));
  device.drain();
  boundary_done_ = true;  // the snapshots of this step went out before the image was taken
  if (finished()) metrics_.finished.raise();
}

void Trainer::pump() {
  const Instant start = now();
  const HeldClock clock;
  cross_between_steps();
  const double held = clock.held();
  if (finished()) return bring_corrections();
  metrics_.held_seconds.add(held);
  const double passed = seconds_since(start);
  metrics_.train_seconds.add(passed + train_step());
}

void Trainer::compute(model::Llama& llama) {
  STARLING_ASSERT(!llama_ || &llama == &*llama_);
  take_batch();
  DeviceSpan<float> gradients = gradients_.as<float>();
  losses_before_ = 0;
  for (std::size_t pass = 0; pass < passes(); ++pass) {
    if (pass > 0) {
      cross_beside(backend_.device->record(Lane::kCompute));
      losses_before_ += llama.mean_loss();
    }
    const model::Weights known = std::exchange(known_, model::Weights::kSame);
    const auto before = pass > 0 ? model::Gradients::kAdd : model::Gradients::kSet;
    llama.forward_backward(params_.as<float>(), gradients, pass_of(pass), share_of_pass(), known,
                           before);
    metrics_.passes.add();
  }
  if (!llama_) known_ = model::Weights::kNew;  // what is lent knows others' weights next time
}

void Trainer::take_batch() {
  if (next_index_ == progress_.batches) {
    inputs_.swap(next_inputs_);
    targets_.swap(next_targets_);
  } else {
    source_.training_batch(progress_.batches, inputs_, targets_);
  }
  next_index_.reset();
}

// While the device computes. One that is done, as a CPU is at once, would be kept waiting for it.
void Trainer::make_next_batch(Fence computed) {
  if (finished() || backend_.device->reached(computed)) return;
  source_.save(before_next_);
  source_.training_batch(progress_.batches, next_inputs_, next_targets_);
  next_index_ = progress_.batches;
}

model::TokenBatch Trainer::pass_of(std::size_t pass) const {
  const std::size_t first = pass * pass_tokens_;
  return {std::span(inputs_).subspan(first, pass_tokens_),
          std::span(targets_).subspan(first, pass_tokens_)};
}

float Trainer::update(Instant now) {
  const auto own = static_cast<double>(progress_.tokens);
  progress_.clock =
      schedule_clock_.advance(now, progress_.clock, own, metrics_.swarm_tokens.value());
  const double warmed =
      schedule_clock_.warmed(progress_.clock, own, static_cast<double>(inputs_.size()));
  learning_rate_ =
      optim::learning_rate(config_.schedule, {.all = progress_.clock, .warmed = warmed},
                           progress_.steps - progress_.steps_at_join);
  hold_for_copies();
  adamw_->step(progress_.steps + 1, learning_rate_,
               {params_.as<float>(), gradients_.as<float>(), rounded_weights()});
  progress_.steps += 1;
  progress_.batches += 1;
  progress_.tokens += inputs_.size();
  boundary_done_ = false;
  const Fence computed = backend_.device->record(Lane::kCompute);
  make_next_batch(computed);
  cross_beside(computed);
  return adamw_->norm();
}

double Trainer::train_step() {
  STARLING_ASSERT(llama_.has_value());  // TrainerConfig::own_model
  const Instant start = now();
  compute(*llama_);
  const float norm = update(start);
  metrics_.loss.set((losses_before_ + llama_->mean_loss()) / static_cast<float>(passes()));
  if (config_.slow_down_factor > 1) {
    std::this_thread::sleep_for(
        from_seconds(seconds_since(start) * (config_.slow_down_factor - 1)));
  }
  const double seconds = seconds_since(start);
  const std::uint64_t every = config_.validate_every_steps;
  if (every != 0 && progress_.steps % every == 0 && !finished()) fresh_validation_ = try_validate();
  report(learning_rate_, norm, seconds);
  if (finished()) metrics_.finished.raise();
  return seconds;
}

float Trainer::validate() {
  const Flag* const stop = std::exchange(stop_, nullptr);
  const std::optional<float> whole = measure();
  stop_ = stop;
  return whole.value();
}

std::optional<float> Trainer::try_validate() {
  return source_.validation_batches() > 0 ? measure() : std::nullopt;
}

std::optional<float> Trainer::measure() {
  STARLING_ASSERT(llama_.has_value());  // TrainerConfig::own_model
  double sum = 0;
  const std::int64_t batches = source_.validation_batches();
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    if (stop_ && stop_->raised()) return std::nullopt;
    source_.validation_batch(batch, inputs_, targets_);
    for (std::size_t pass = 0; pass < passes(); ++pass) {
      llama_->forward(params_.as<float>(), pass_of(pass));
      sum += llama_->mean_loss();
      metrics_.passes.add();
    }
  }
  const double parts =
      static_cast<double>(passes()) * static_cast<double>(std::max<std::int64_t>(batches, 1));
  const auto mean = static_cast<float>(sum / parts);
  metrics_.validation_loss.set(mean);
  return mean;
}

void Trainer::report(float learning_rate, float gradient_norm, double seconds) {
  metrics_.steps.set(progress_.steps);
  metrics_.tokens.set(progress_.tokens);
  metrics_.gradient_norm.set(gradient_norm);
  metrics_.learning_rate.set(learning_rate);
  metrics_.tokens_per_second.set(rate_.add(static_cast<double>(inputs_.size()), seconds));
  StepReport step{.step = progress_.steps,
                  .tokens = progress_.tokens,
                  .swarm_tokens = progress_.clock,
                  .loss = static_cast<float>(metrics_.loss.value()),
                  .learning_rate = learning_rate,
                  .gradient_norm = gradient_norm,
                  .step_seconds = seconds,
                  .validation_loss = std::exchange(fresh_validation_, std::nullopt)};
  // Each step is told once: a second line of the last one would be a second point of every curve.
  const bool waits = finished() && source_.validation_batches() > 0;
  if (!waits) return tell(step);
  last_report_ = step;
}

void Trainer::report_last_step(std::optional<float> validation_loss) {
  if (!last_report_) return;
  last_report_->validation_loss = validation_loss;
  tell(*std::exchange(last_report_, std::nullopt));
}

void Trainer::tell(StepReport step) {
  if (!rings_.trainer_to_network.try_push(std::move(step))) metrics_.reports_dropped.add();
}

}  // namespace starling::peer
