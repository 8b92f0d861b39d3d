#include "peer/roles/dataset_source.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/rng.h"
#include "gossip/messages.h"

namespace starling::peer {

ReadingPlan reading_plan(const Dataset& data, std::int64_t context, const ReadingOrder& order) {
  const auto cell = static_cast<std::uint64_t>(context);
  const auto parts = static_cast<std::uint16_t>(std::clamp<std::uint64_t>(
      data.tokens() / std::max(kPartTokensMin, cell), 1, gossip::kPartsMax));
  return {.space = mix64(data.digest() ^ mix64(cell) ^ parts),
          .tokens = data.tokens(),
          .cell_tokens = cell,
          .parts = parts,
          .window_tokens = static_cast<std::uint64_t>(data.window_tokens()),
          .seed = order.seed,
          .stream = order.stream};
}

DatasetSource::DatasetSource(const Dataset& training, std::optional<ValidationBatches> validation,
                             const ReadingPlan& plan, Rings& rings, DataMetrics& metrics)
    : training_(training),
      validation_(std::move(validation)),
      reader_(plan),
      rings_(rings),
      metrics_(metrics),
      unreported_(plan.parts) {
  metrics_.parts.set(plan.parts);
  measure();
}

bool DatasetSource::restore(const DataPosition& position) {
  const bool restored = reader_.restore(position);
  measure();
  return restored;
}

void DatasetSource::training_batch(std::uint64_t, std::span<std::int32_t> inputs,
                                   std::span<std::int32_t> targets) {
  STARLING_ASSERT(targets.size() == inputs.size());
  const auto tokens = static_cast<std::size_t>(training_.window_tokens());
  STARLING_ASSERT(inputs.size() % tokens == 0);
  take_news();
  for (std::size_t at = 0; at < inputs.size(); at += tokens) {
    const std::uint64_t window = training_.window_at(reader_.next());
    training_.copy(window, inputs.subspan(at, tokens), targets.subspan(at, tokens));
    if (const auto finished = reader_.take_finished()) {
      ++unreported_[*finished];
      ++unreported_total_;
    }
  }
  report();
  measure();
}

void DatasetSource::take_news() {
  while (const auto news = rings_.parts_to_trainer.try_pop()) reader_.learn(*news);
}

void DatasetSource::report() {
  for (std::uint16_t part = 0; part < unreported_.size() && unreported_total_ > 0; ++part) {
    if (unreported_[part] == 0) continue;
    if (!rings_.parts_to_network.try_push(PartFinished{part, unreported_[part]})) break;
    unreported_total_ -= std::exchange(unreported_[part], std::uint16_t{0});
  }
  held_unreported_ = reader_.take_changed() || held_unreported_;
  if (held_unreported_ && rings_.parts_to_network.try_push(PartsHeld{reader_.held()})) {
    held_unreported_ = false;
  }
}

void DatasetSource::measure() {
  const gossip::PartChoice& choice = reader_.choice();
  metrics_.parts_never.set(choice.never());
  metrics_.parts_once.set(choice.once());
  metrics_.parts_more.set(choice.more());
  metrics_.parts_read.set(reader_.finished());
}

std::int64_t DatasetSource::validation_batches() const {
  return validation_ ? validation_->size() : 0;
}

void DatasetSource::validation_batch(std::int64_t index, std::span<std::int32_t> inputs,
                                     std::span<std::int32_t> targets) {
  STARLING_ASSERT(validation_);
  validation_->copy(static_cast<std::uint32_t>(index), inputs, targets);
}

}  // namespace starling::peer
