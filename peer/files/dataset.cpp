#include "peer/files/dataset.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/assert.h"
#include "base/hash.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

std::string origin_text(const ShardHeader& header) {
  if (header.format == ShardFormat::kLlmC) {
    return fmt::format("llm.c in {} bits per token", 8 * header.token_bytes);
  }
  return fmt::format("tokenizer '{}' with {} tokens", header.tokenizer, header.vocabulary);
}

bool mix(const ShardHeader& left, const ShardHeader& right) {
  if (left.format != right.format) return false;
  if (left.format == ShardFormat::kLlmC) return left.token_bytes == right.token_bytes;
  return left.tokenizer == right.tokenizer && left.vocabulary == right.vocabulary;
}

Status check_fit(const TokenShard& shard, const TokenShard& first, const DatasetNeeds& needs) {
  const ShardHeader& header = shard.view().header();
  if (header.vocabulary > needs.vocabulary) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("{} was made by {} and holds ids below {}, but model.vocabulary is "
                             "{}: set it to at least {}",
                             shard.path().string(), origin_text(header), header.vocabulary,
                             needs.vocabulary, header.vocabulary));
  }
  const ShardHeader& other = first.view().header();
  if (mix(header, other)) return ok_status();
  return Error(ErrorCode::kIncompatible,
               fmt::format("{} was made by {}, {} by {}: they do not mix", shard.path().string(),
                           origin_text(header), first.path().string(), origin_text(other)));
}

std::vector<fs::path> matches_of(const fs::path& pattern) {
  glob_t found{};
  std::vector<fs::path> paths;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return paths;
}

Result<std::vector<fs::path>> shards_of_folder(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::path> ours, of_llm_c;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (entry->path().extension() == kShardExtension) ours.push_back(entry->path());
    if (entry->path().extension() == kLlmCExtension) of_llm_c.push_back(entry->path());
  }
  if (failure) return io_error("list", folder, failure.value());
  return ours.empty() ? of_llm_c : ours;
}

}  // namespace

Result<std::vector<fs::path>> shard_files(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::exists(status) && !fs::is_directory(status)) return std::vector<fs::path>{path};
  auto found = fs::exists(status) ? shards_of_folder(path) : matches_of(path);
  if (!found.ok()) return found;
  if (found.value().empty() && fs::is_directory(path / "train", failure)) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("folder {} holds no shards itself: name its folder {} to train on, or "
                             "its folder validation to measure on",
                             path.string(), (path / "train").string()));
  }
  if (found.value().empty() && fs::exists(status)) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("folder {} holds neither *{} nor *{} files; make some with 'starling "
                             "prepare'",
                             path.string(), kShardExtension, kLlmCExtension));
  }
  if (found.value().empty()) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("there is no {}; make it with 'starling prepare', or name another "
                             "file, folder or pattern",
                             path.string()));
  }
  // By name: the order of a directory differs between machines.
  std::sort(found.value().begin(), found.value().end());
  return found;
}

Result<Dataset> Dataset::open(std::span<const std::string> paths, const DatasetNeeds& needs,
                              ShardCheck check) {
  STARLING_ASSERT(needs.tokens > 0);
  std::vector<TokenShard> shards;
  for (const std::string& path : paths) {
    auto files = shard_files(path);
    if (!files.ok()) return std::move(files).error();
    for (const fs::path& file : files.value()) {
      auto shard = TokenShard::open(file, check);
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
  first_token_.push_back(0);
  first_apart_.push_back(0);
  const auto needed = static_cast<std::uint64_t>(window_tokens);
  std::vector<std::uint64_t> digests;
  for (const TokenShard& shard : shards_) {
    const std::uint64_t tokens = shard.view().tokens();
    tokens_ += tokens;
    first_window_.push_back(first_window_.back() + (tokens > needed ? tokens - needed : 0));
    first_token_.push_back(tokens_);
    // The last target needs a token more than the windows hold.
    first_apart_.push_back(first_apart_.back() + (tokens > needed ? (tokens - 1) / needed : 0));
    vocabulary_ = std::max(vocabulary_, shard.view().header().vocabulary);
    digests.push_back(shard.view().header().digest);
    digests.push_back(tokens);
  }
  digest_ = starling::digest(std::as_bytes(std::span(digests)));
}

std::uint64_t Dataset::window_at(std::uint64_t token) const {
  const std::uint64_t existing = std::min(token, tokens_ - 1);
  const auto after = std::upper_bound(first_token_.begin(), first_token_.end(), existing);
  const auto shard = static_cast<std::size_t>(after - first_token_.begin()) - 1;
  const std::uint64_t first = first_window_[shard];
  const std::uint64_t count = first_window_[shard + 1] - first;
  if (count == 0) return std::min(first, windows() - 1);  // a shard shorter than a window
  return first + std::min(existing - first_token_[shard], count - 1);
}

std::uint64_t Dataset::window_apart(std::uint64_t index) const {
  STARLING_ASSERT(index < windows_apart());
  const auto after = std::upper_bound(first_apart_.begin(), first_apart_.end(), index);
  const auto shard = static_cast<std::size_t>(after - first_apart_.begin()) - 1;
  return first_window_[shard] +
         (index - first_apart_[shard]) * static_cast<std::uint64_t>(window_tokens_);
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

ValidationBatches ValidationBatches::of_all(const Dataset& data, std::int64_t sequences) {
  const std::uint64_t batches = data.windows_apart() / static_cast<std::uint64_t>(sequences);
  ValidationBatches all(
      data, sequences,
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(batches, 1, UINT32_MAX)));
  all.apart_ = true;
  return all;
}

void ValidationBatches::copy(std::uint32_t batch, std::span<std::int32_t> inputs,
                             std::span<std::int32_t> targets) const {
  STARLING_ASSERT(batch < batches_);
  const auto tokens = static_cast<std::size_t>(data_->window_tokens());
  STARLING_ASSERT(inputs.size() == sequences_ * tokens);
  STARLING_ASSERT(targets.size() == inputs.size());
  // Whole steps, and then at most count windows are left unused at the end.
  const std::uint64_t windows = apart_ ? data_->windows_apart() : data_->windows();
  const std::uint64_t count = std::uint64_t{batches_} * sequences_;
  const std::uint64_t step = apart_ ? 1 : windows / count;
  for (std::size_t i = 0; i < sequences_; ++i) {
    const std::uint64_t index = std::uint64_t{batch} * sequences_ + i;
    const std::uint64_t window = count <= windows ? index * step : index % windows;
    data_->copy(apart_ ? data_->window_apart(window) : window, inputs.subspan(i * tokens, tokens),
                targets.subspan(i * tokens, tokens));
  }
}

}  // namespace starling::peer
