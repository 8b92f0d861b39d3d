// PatternBatches: endless learnable text without a file: sentences over a small vocabulary that
// follow a fixed grammar, so that a tiny model's loss falls within a hundred steps.
#pragma once

#include "base/rng.h"
#include "peer/roles/token_source.h"

namespace starling::testing {

class PatternBatches final : public peer::TokenSource {
 public:
  explicit PatternBatches(std::uint64_t seed) : seed_(seed) {}

  void training_batch(std::uint64_t index, std::span<std::int32_t> inputs,
                      std::span<std::int32_t> targets) override {
    fill(mix64(seed_) ^ index, inputs, targets);
  }
  std::int64_t validation_batches() const override { return 8; }
  void validation_batch(std::int64_t index, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) override {
    fill(~static_cast<std::uint64_t>(index), inputs, targets);
  }

 private:
  // token' = 3 * token + 1 + noise, modulo the vocabulary of 32.
  static void fill(std::uint64_t seed, std::span<std::int32_t> inputs,
                   std::span<std::int32_t> targets) {
    Rng rng(seed);
    auto token = static_cast<std::int32_t>(rng.below(32));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = token;
      token = (3 * token + 1 + (rng.chance(0.1) ? 1 : 0)) % 32;
      targets[i] = token;
    }
  }

  std::uint64_t seed_;
};

}  // namespace starling::testing
