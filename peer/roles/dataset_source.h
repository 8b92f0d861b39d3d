// DatasetSource: the trainer's batches from the token shards of files/dataset.h, in the order of
// files/part_reader.h. Between two batches it takes the network's news of what others read, and
// reports what it has finished and begun; full rings delay both and stop nobody. The datasets,
// rings and metrics must outlive it. Thread: the trainer's.
#pragma once

#include <optional>
#include <vector>

#include "peer/files/dataset.h"
#include "peer/files/part_reader.h"
#include "peer/roles/parcels.h"
#include "peer/roles/token_source.h"

namespace starling::peer {

inline constexpr std::uint64_t kPartTokensMin = 4096;

struct ReadingOrder {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;  // who reads
};
// How `data` is read for a model of that context. Peers with the same shards and the same model
// have the same parts: at least kPartTokensMin tokens each, at most gossip::kPartsMax of them.
ReadingPlan reading_plan(const Dataset& data, std::int64_t context, const ReadingOrder& order);

class DatasetSource final : public TokenSource {
 public:
  DatasetSource(const Dataset& training, std::optional<ValidationBatches> validation,
                const ReadingPlan& plan, Rings& rings, DataMetrics& metrics);

  void training_batch(std::uint64_t index, std::span<std::int32_t> inputs,
                      std::span<std::int32_t> targets) override;
  void save(DataPosition& position) const override { reader_.save(position); }
  std::int64_t validation_batches() const override;
  void validation_batch(std::int64_t index, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) override;

  // Before the first batch. False if the position is one in other data: then it starts anew.
  [[nodiscard]] bool restore(const DataPosition& position);

 private:
  void take_news();
  void report();
  void measure();

  const Dataset& training_;
  const std::optional<ValidationBatches> validation_;
  PartReader reader_;
  Rings& rings_;
  DataMetrics& metrics_;
  std::vector<std::uint16_t> unreported_;  // by part: finished, and not yet told
  std::uint64_t unreported_total_ = 0;
  bool held_unreported_ = false;
};

}  // namespace starling::peer
