// DatasetSource: the trainer's batches from the token shards of dataset.h. The datasets must
// outlive it. Thread: the trainer's.
#pragma once

#include "peer/dataset.h"
#include "peer/token_source.h"

namespace starling::peer {

class DatasetSource final : public TokenSource {
 public:
  DatasetSource(BatchSource batches, std::int64_t validation_batches)
      : batches_(batches), validation_batches_(validation_batches) {}

  void training_batch(std::uint64_t index, std::span<std::int32_t> inputs,
                      std::span<std::int32_t> targets) override {
    batches_.next(index, inputs, targets);
  }
  std::int64_t validation_batches() const override { return validation_batches_; }
  void validation_batch(std::int64_t index, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) override {
    batches_.validation(static_cast<std::uint32_t>(index), inputs, targets);
  }

 private:
  BatchSource batches_;
  std::int64_t validation_batches_;
};

}  // namespace starling::peer
