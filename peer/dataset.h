// Dataset: the token shards of one split, mapped and verified, as one set of windows. A window is
// `tokens` inputs and the same shifted by one as targets, and lies inside one shard.
//
// BatchSource gives out batches. Which windows a training batch holds is a pure function of (seed,
// stream, index of the batch): a restart needs the index and nothing else, and two peers (two
// streams) read different text. Validation batches are windows spread evenly over the held-out
// split, the same for every peer with the same files.
//
// Errors, all at opening: missing, damaged, or made for another vocabulary; each names the path
// and what to do. After that nothing fails and nothing allocates. Dataset is constant after
// construction, and so is BatchSource: any thread may read them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "peer/token_shard.h"

namespace starling::peer {

inline constexpr std::string_view kShardExtension = ".tok";

struct DatasetNeeds {
  std::int64_t vocabulary = 0;  // of the model
  std::int64_t tokens = 0;      // inputs of one window
};

class Dataset {
 public:
  // Each path is a shard or a folder, which stands for all its *.tok files in order of name.
  static Result<Dataset> open(std::span<const std::string> paths, const DatasetNeeds& needs);

  std::uint64_t tokens() const noexcept { return tokens_; }
  std::uint64_t windows() const noexcept { return first_window_.back(); }
  std::size_t shards() const noexcept { return shards_.size(); }
  std::int64_t window_tokens() const noexcept { return window_tokens_; }
  const std::string& tokenizer() const noexcept {
    return shards_.front().view().header().tokenizer;
  }

  // Window number `window` of windows(), one for each token it can start at.
  void copy(std::uint64_t window, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;

 private:
  Dataset(std::vector<TokenShard> shards, std::int64_t window_tokens);
  std::vector<TokenShard> shards_;
  std::vector<std::uint64_t> first_window_;  // per shard, and one past the end
  std::int64_t window_tokens_;
  std::uint64_t tokens_ = 0;
};

struct BatchPlan {
  std::int64_t sequences = 1;
  std::uint64_t seed = 0;    // data.seed, equal for all peers of a run
  std::uint64_t stream = 0;  // who draws: the peer's id
  std::uint32_t validation_batches = 0;
};

class BatchSource {
 public:
  // `validation` may be null: then the plan has no validation batches. Both must outlive this.
  BatchSource(const Dataset& train, const Dataset* validation, const BatchPlan& plan);

  // Training batch number `batch`: sequences * tokens numbers each, one sequence after the other.
  void next(std::uint64_t batch, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;
  // Held-out batch number `batch` of plan.validation_batches. Windows overlap in a small split.
  void validation(std::uint32_t batch, std::span<std::int32_t> inputs,
                  std::span<std::int32_t> targets) const;

 private:
  const Dataset* train_;       // never null
  const Dataset* validation_;  // may be null
  const BatchPlan plan_;
  const Rng stream_;  // never advanced: each batch forks from it
};

}  // namespace starling::peer
