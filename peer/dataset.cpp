#include "peer/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/assert.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

Result<std::vector<fs::path>> shards_of(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("there is no {}; make it with 'starling prepare', or name another "
                             "file or folder in [data]",
                             path.string()));
  }
  if (!fs::is_directory(status)) return std::vector<fs::path>{path};
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(path, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->path().extension() == kShardExtension) found.push_back(entry->path());
  }
  if (failure) return io_error("list", path, failure.value());
  if (found.empty()) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("folder {} holds no *{} files; make some with 'starling prepare'",
                             path.string(), kShardExtension));
  }
  // By name: the order of a directory differs between machines.
  std::sort(found.begin(), found.end());
  return found;
}

Status check_fit(const TokenShard& shard, const TokenShard& first, const DatasetNeeds& needs) {
  const ShardHeader& header = shard.view().header();
  if (header.vocabulary > needs.vocabulary) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("{} was made by tokenizer '{}' with {} tokens, but model.vocabulary "
                             "is {}: set it to at least {}",
                             shard.path().string(), header.tokenizer, header.vocabulary,
                             needs.vocabulary, header.vocabulary));
  }
  if (header.tokenizer != first.view().header().tokenizer) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("{} was made by tokenizer '{}', {} by '{}': they do not mix",
                             shard.path().string(), header.tokenizer, first.path().string(),
                             first.view().header().tokenizer));
  }
  return ok_status();
}

}  // namespace

Result<Dataset> Dataset::open(std::span<const std::string> paths, const DatasetNeeds& needs) {
  STARLING_ASSERT(needs.tokens > 0);
  std::vector<TokenShard> shards;
  for (const std::string& path : paths) {
    auto files = shards_of(path);
    if (!files.ok()) return std::move(files).error();
    for (const fs::path& file : files.value()) {
      auto shard = TokenShard::open(file);
      if (!shard.ok()) return std::move(shard).error();
      shards.push_back(std::move(shard).value());
      auto fit = check_fit(shards.back(), shards.front(), needs);
      if (!fit.ok()) return std::move(fit).error();
    }
  }
  if (shards.empty()) {
    return Error(ErrorCode::kInvalidConfig, "no token shards are named; see [data]");
  }
  Dataset dataset(std::move(shards), needs.tokens);
  if (dataset.windows() == 0) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("no shard of {} holds the {} tokens that batch.tokens = {} asks for",
                             paths.front(), needs.tokens + 1, needs.tokens));
  }
  return dataset;
}

Dataset::Dataset(std::vector<TokenShard> shards, std::int64_t window_tokens)
    : shards_(std::move(shards)), window_tokens_(window_tokens) {
  first_window_.push_back(0);
  const auto needed = static_cast<std::uint64_t>(window_tokens);
  for (const TokenShard& shard : shards_) {
    const std::uint64_t tokens = shard.view().tokens();
    tokens_ += tokens;
    first_window_.push_back(first_window_.back() + (tokens > needed ? tokens - needed : 0));
  }
}

void Dataset::copy(std::uint64_t window, std::span<std::int32_t> inputs,
                   std::span<std::int32_t> targets) const {
  STARLING_ASSERT(window < windows());
  STARLING_ASSERT(inputs.size() == static_cast<std::size_t>(window_tokens_));
  STARLING_ASSERT(targets.size() == inputs.size());
  const auto after = std::upper_bound(first_window_.begin(), first_window_.end(), window);
  const auto index = static_cast<std::size_t>(after - first_window_.begin()) - 1;
  const TokenShardView& shard = shards_[index].view();
  const std::uint64_t first = window - first_window_[index];
  shard.copy(first, inputs);
  shard.copy(first + 1, targets);
}

BatchSource::BatchSource(const Dataset& train, const Dataset* validation, const BatchPlan& plan)
    : train_(&train),
      validation_(validation),
      plan_(plan),
      stream_(Rng(plan.seed).fork(plan.stream)) {
  STARLING_ASSERT(plan.sequences > 0);
  STARLING_ASSERT(validation != nullptr || plan.validation_batches == 0);
}

void BatchSource::next(std::uint64_t batch, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const {
  const auto tokens = static_cast<std::size_t>(train_->window_tokens());
  const auto sequences = static_cast<std::size_t>(plan_.sequences);
  STARLING_ASSERT(inputs.size() == sequences * tokens);
  STARLING_ASSERT(targets.size() == inputs.size());
  Rng rng = stream_.fork(batch);
  for (std::size_t i = 0; i < sequences; ++i) {
    train_->copy(rng.below(train_->windows()), inputs.subspan(i * tokens, tokens),
                 targets.subspan(i * tokens, tokens));
  }
}

void BatchSource::validation(std::uint32_t batch, std::span<std::int32_t> inputs,
                             std::span<std::int32_t> targets) const {
  STARLING_ASSERT(batch < plan_.validation_batches);
  const auto tokens = static_cast<std::size_t>(validation_->window_tokens());
  const auto sequences = static_cast<std::size_t>(plan_.sequences);
  STARLING_ASSERT(inputs.size() == sequences * tokens);
  STARLING_ASSERT(targets.size() == inputs.size());
  // Whole steps, and then at most count windows are left unused at the end.
  const std::uint64_t windows = validation_->windows();
  const std::uint64_t count = std::uint64_t{plan_.validation_batches} * sequences;
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::uint64_t index = std::uint64_t{batch} * sequences + i;
    const std::uint64_t window = count <= windows ? index * (windows / count) : index % windows;
    validation_->copy(window, inputs.subspan(i * tokens, tokens),
                      targets.subspan(i * tokens, tokens));
  }
}

}  // namespace starling::peer
