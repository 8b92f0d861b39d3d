#include "tests/support/pumped_swarm.h"

#include <algorithm>

#include "tests/support/pumped_peer.h"

namespace starling::testing {

PumpedOptions small_swarm(std::uint64_t seed) {
  PumpedOptions options;
  options.seed = seed;
  options.trainer.model = {.vocabulary = 32,
                           .width = 32,
                           .layers = 2,
                           .heads = 2,
                           .kv_heads = 1,
                           .ffn = 64,
                           .context = 32};
  options.trainer.batch = {.sequences = 4, .tokens = 16};
  options.trainer.schedule.peak = 1e-2;
  options.trainer.fragments = {.steps_per_round = 10, .fragments = options.fragments};
  options.trainer.init_seed = 5;
  options.gossip.stripe_timeout = std::chrono::seconds(2);
  options.gossip.query_after = std::chrono::seconds(1);
  return options;
}

PumpedSwarm::PumpedSwarm(const PumpedOptions& options) : options_(options), rng_(options.seed) {
  const auto batch = options.trainer.batch;
  options_.trainer.tokens_budget =
      options.steps * static_cast<std::uint64_t>(batch.sequences * batch.tokens);
  for (std::uint32_t index = 0; index < options.peers; ++index) {
    peers_.push_back(std::make_unique<PumpedPeer>(*this, index, 1, nullptr));
  }
}

PumpedSwarm::~PumpedSwarm() = default;

std::uint32_t PumpedSwarm::size() const noexcept {
  return static_cast<std::uint32_t>(peers_.size());
}
peer::Trainer& PumpedSwarm::trainer(std::uint32_t index) { return *peers_[index]->trainer_; }
peer::Mixer& PumpedSwarm::mixer(std::uint32_t index) { return peers_[index]->mixer_; }
gossip::Core& PumpedSwarm::core(std::uint32_t index) { return peers_[index]->core_; }
const peer::MixerMetrics& PumpedSwarm::mixer_metrics(std::uint32_t index) const {
  return peers_[index]->mixer_metrics_;
}
const std::vector<gossip::Rejected>& PumpedSwarm::rejected(std::uint32_t index) const {
  return peers_[index]->rejected_;
}
const std::vector<gossip::Muted>& PumpedSwarm::muted(std::uint32_t index) const {
  return peers_[index]->muted_;
}
std::uint32_t PumpedSwarm::slots_used(std::uint32_t index) const {
  const PumpedPeer& peer = *peers_[index];
  return 2 * options_.slots - peer.floats_.free_count() - peer.payloads_.free_count();
}

void PumpedSwarm::kill(std::uint32_t index) { peers_[index]->alive_ = false; }

void PumpedSwarm::restart(std::uint32_t index) {
  const std::uint64_t incarnation = peers_[index]->incarnation_ + 1;
  const auto image = std::move(peers_[index]->newest_);
  std::erase_if(mail_, [index](const Mail& mail) { return mail.to == index; });
  peers_[index].reset();
  peers_[index] = std::make_unique<PumpedPeer>(*this, index, incarnation, image.get());
  peers_[index]->incarnation_ = incarnation;
  peers_[index]->next_step_ = now_;
}

void PumpedSwarm::post(std::uint32_t from, std::uint32_t to, const gossip::Message& message,
                       std::span<const std::byte> payload) {
  if (reaches && !reaches(from, to)) return;
  if (rng_.chance(options_.loss_probability)) return;
  const Duration delay = rng_.exponential(options_.latency, options_.latency / 2);
  Instant& last = last_due_[{from, to, is_bulk(message)}];
  last = std::max(last, now_ + delay);
  Mail mail{last, sequence_++, from, to, message, {payload.begin(), payload.end()}};
  if (options_.tamper(from, mail.message, mail.payload)) mail_.push_back(std::move(mail));
}

void PumpedSwarm::deliver() {
  while (true) {
    const auto due =
        std::min_element(mail_.begin(), mail_.end(), [](const Mail& left, const Mail& right) {
          return std::pair(left.due, left.sequence) < std::pair(right.due, right.sequence);
        });
    if (due == mail_.end() || due->due > now_) return;
    Mail mail = std::move(*due);
    mail_.erase(due);
    PumpedPeer* target = mail.to < peers_.size() ? peers_[mail.to].get() : nullptr;
    if (target == nullptr || !target->alive_) continue;
    target->on_mail(mail.message, PeerId{mail.from + 1U}, std::move(mail.payload));
    target->mix();
  }
}

// One event round: the next moment at which anything is due. False when all budgets are spent.
bool PumpedSwarm::advance() {
  now_ += std::chrono::milliseconds(5);
  bool training = false;
  deliver();
  for (auto& peer : peers_) {
    if (!peer->alive_) continue;
    peer->on_time();
    peer->mix();
    if (peer->next_step_ > now_) {
      training = training || !peer->trainer_->finished();
      continue;
    }
    training = training || !peer->trainer_->finished();
    peer->step();
    peer->next_step_ = now_ + options_.step_time;
  }
  return training;
}

void PumpedSwarm::run(Duration closing) {
  while (advance()) {
  }
  for (const Instant end = now_ + closing; now_ < end;) advance();
  settling_ = true;
  for (auto& peer : peers_) peer->core_.on_close(now_);
  for (const Instant end = now_ + closing; now_ < end;) advance();
}

void PumpedSwarm::pump_until(std::uint64_t steps_of_first) {
  while (peers_.front()->trainer_->progress().steps < steps_of_first && advance()) {
  }
}

void PumpedSwarm::pump_until(const std::function<bool()>& done) {
  while (!done() && advance()) {
  }
}

std::uint32_t PumpedSwarm::join(std::uint64_t steps) {
  const auto batch = options_.trainer.batch;
  options_.trainer.tokens_budget =
      steps * static_cast<std::uint64_t>(batch.sequences * batch.tokens);
  const std::uint32_t index = size();
  peers_.push_back(std::make_unique<PumpedPeer>(*this, index, 1, nullptr, true));
  peers_.back()->next_step_ = now_;
  return index;
}

const PumpedJoin& PumpedSwarm::joined(std::uint32_t index) const { return peers_[index]->joined_; }

void PumpedSwarm::pump_for(Duration duration) {
  for (const Instant end = now_ + duration; now_ < end;) advance();
}

const std::map<FragmentId, gossip::FragmentState>& PumpedSwarm::fragment_states(
    std::uint32_t index) const {
  return peers_[index]->published_;
}

}  // namespace starling::testing
