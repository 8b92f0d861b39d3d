// Dataset: the token shards of one split, mapped and verified, as one set of windows. A window is
// `tokens` inputs and the same shifted by one as targets, and lies inside one shard.
//
// Errors, all at opening: missing, damaged, or made for another vocabulary; each names the path
// and what to do. After that nothing fails and nothing allocates. Constant after construction: any
// thread may read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/files/token_shard.h"

namespace starling::peer {

inline constexpr std::string_view kShardExtension = ".tok";
inline constexpr std::string_view kLlmCExtension = ".bin";

struct DatasetNeeds {
  std::int64_t vocabulary = 0;  // of the model
  std::int64_t tokens = 0;      // inputs of one window
};

// The shards that `path` stands for, at least one, in order of name: itself, all *.tok files of a
// folder, or all its *.bin files if it has none of those; or what a pattern matches, like
// fineweb_train_*.bin.
Result<std::vector<std::filesystem::path>> shard_files(const std::filesystem::path& path);

class Dataset {
 public:
  // Each path as in shard_files().
  static Result<Dataset> open(std::span<const std::string> paths, const DatasetNeeds& needs,
                              ShardCheck check = ShardCheck::kWhole);

  std::uint64_t tokens() const noexcept { return tokens_; }
  std::uint64_t windows() const noexcept { return first_window_.back(); }
  std::size_t shards() const noexcept { return shards_.size(); }
  std::int64_t window_tokens() const noexcept { return window_tokens_; }
  const std::string& tokenizer() const noexcept {
    return shards_.front().view().header().tokenizer;
  }

  std::uint64_t digest() const noexcept { return digest_; }          // of all shards, in order
  std::uint32_t vocabulary() const noexcept { return vocabulary_; }  // every id is below it

  // The window that begins with token number `token` of all; where it would not fit into its
  // shard, or beyond the end, the nearest one.
  std::uint64_t window_at(std::uint64_t token) const;
  // Window number `window` of windows(), one for each token it can start at.
  void copy(std::uint64_t window, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;

  // The windows that lie side by side, shard after shard: how many there are, and the number of
  // one of them among windows().
  std::uint64_t windows_apart() const noexcept { return first_apart_.back(); }
  std::uint64_t window_apart(std::uint64_t index) const;

 private:
  Dataset(std::vector<TokenShard> shards, std::int64_t window_tokens);
  std::vector<TokenShard> shards_;
  std::vector<std::uint64_t> first_window_;  // per shard, and one past the end
  std::vector<std::uint64_t> first_token_;   // likewise
  std::vector<std::uint64_t> first_apart_;   // likewise
  std::int64_t window_tokens_;
  std::uint64_t tokens_ = 0;
  std::uint64_t digest_ = 0;
  std::uint32_t vocabulary_ = 0;
};

// Held-out batches: windows spread evenly over a split, or side by side from its start until all of
// it is read; always the same for the same files. The dataset must outlive it.
class ValidationBatches {
 public:
  ValidationBatches(const Dataset& data, std::int64_t sequences, std::uint32_t batches)
      : data_(&data), sequences_(static_cast<std::size_t>(sequences)), batches_(batches) {}
  // As many whole batches as there are, at least one.
  static ValidationBatches of_all(const Dataset& data, std::int64_t sequences);

  std::uint32_t size() const noexcept { return batches_; }
  // Batch number `batch` of size(): sequences * tokens numbers each, one sequence after the other.
  // Windows overlap in a small split.
  void copy(std::uint32_t batch, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;

 private:
  const Dataset* data_;  // never null
  std::size_t sequences_;
  std::uint32_t batches_;
  bool apart_ = false;  // side by side
};

}  // namespace starling::peer
