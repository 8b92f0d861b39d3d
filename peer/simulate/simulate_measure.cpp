// SimulatedSwarm, the part that measures: losses of the mean and of single peers, and what became
// of every peer.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "peer/simulate/simulate_swarm.h"

namespace starling::peer {

void SimulatedSwarm::evaluate_regularly() {
  if (time_.idle()) {  // no step, no parcel, nobody who joins: nothing is to come
    stalled_ = !finishing_;
    return;
  }
  tell();
  at(now() + std::max(plan_.evaluate_every, Duration(1)), [this] { evaluate_regularly(); });
}

void SimulatedSwarm::tell() {
  told_at_ = now();
  told_tokens_ = tokens_;
  listener_(measure());
}

SimulatedMoment SimulatedSwarm::measure() {
  SimulatedMoment moment{.seconds = to_seconds(now() - Instant{}), .tokens = tokens_};
  for (std::uint32_t end = 0; end < network_.ends(); ++end) {  // a server's too
    moment.bytes += network_.traffic(end).bytes_out;
    moment.weight_bytes += network_.traffic(end).weights_out;
    moment.weights_away += network_.traffic(end).away_out;
  }
  const std::vector<std::uint32_t> there = living_honest();
  moment.peers = static_cast<std::uint32_t>(there.size());
  if (there.empty()) {
    moment.loss = std::numeric_limits<double>::infinity();
    return moment;
  }
  average(there);
  moment.disagreement = disagreement(there);
  method_->own_model(mean_);
  const std::size_t wanted =
      std::min<std::size_t>(world_.config.simulate.peers_evaluated, there.size());
  for (std::size_t i = 0; i < wanted; ++i) {
    const std::uint32_t peer = there[i * there.size() / wanted];
    const TrainerProgress& progress = rows_[peer].peer->trainer().progress();
    moment.single.push_back({.peer = peer,
                             .steps = rows_[peer].steps,
                             .tokens = progress.tokens,
                             .bytes = network_.traffic(peer).bytes_out});
  }
  team_.run(static_cast<std::int64_t>(wanted) + 1, [&](std::int64_t task, int worker) {
    Bench& bench = *benches_[static_cast<std::size_t>(worker)];
    if (task == 0) {
      moment.loss = validate(bench, mean_);
    } else {
      SimulatedLoss& single = moment.single[static_cast<std::size_t>(task - 1)];
      single.loss = validate(bench, rows_[single.peer].peer->weights());
    }
  });
  diverged_ = !std::isfinite(moment.loss);
  return moment;
}

// Of their fast weights, in mean_.
void SimulatedSwarm::average(std::span<const std::uint32_t> peers) {
  std::vector<double> sums(mean_.size());
  for (const std::uint32_t peer : peers) {
    const std::span<const float> weights = rows_[peer].peer->weights();
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(weights[i]);
  }
  const auto count = static_cast<double>(peers.size());
  for (std::size_t i = 0; i < sums.size(); ++i) mean_[i] = static_cast<float>(sums[i] / count);
}

// With mean_.
double SimulatedSwarm::disagreement(std::span<const std::uint32_t> peers) const {
  double apart = 0, length = 0;
  for (const float value : mean_) length += double{value} * double{value};
  for (const std::uint32_t peer : peers) {
    const std::span<const float> weights = rows_[peer].peer->weights();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double difference = double{weights[i]} - double{mean_[i]};
      apart += difference * difference;
    }
  }
  return std::sqrt(apart / static_cast<double>(peers.size()) / length);
}

double SimulatedSwarm::validate(Bench& bench, std::span<const float> weights) {
  double sum = 0;
  for (std::uint32_t batch = 0; batch < validation_->size(); ++batch) {
    validation_->copy(batch, bench.inputs, bench.targets);
    bench.llama->forward({weights.data(), weights.size()}, {bench.inputs, bench.targets});
    sum += static_cast<double>(bench.llama->mean_loss());
  }
  return sum / static_cast<double>(validation_->size());
}

std::vector<SimulatedLife> SimulatedSwarm::lives() const {
  std::vector<SimulatedLife> lives;
  for (std::uint32_t peer = 0; peer < size(); ++peer) {
    const Row& row = rows_[peer];
    if (row.fate == Fate::kUnborn) continue;
    const Instant until = row.fate == Fate::kGone ? row.gone : now();
    const bool trains = row.fate == Fate::kUp && row.step > Duration{};
    const Duration trained = row.trained + (trains ? now() - row.step_began : Duration{});
    const double seconds = to_seconds(until - row.born);
    const TrainerProgress& progress = row.peer->trainer().progress();
    lives.push_back({.peer = peer,
                     .speed = plan_.speed(peer),
                     .seconds = seconds,
                     .goodput = seconds > 0 ? to_seconds(trained) / seconds : 0,
                     .idle_seconds = seconds - to_seconds(trained),
                     .steps = row.steps,
                     .tokens = progress.tokens,
                     .traffic = network_.traffic(peer),
                     .exchanges = method_->exchanges(peer)});
  }
  return lives;
}

}  // namespace starling::peer
