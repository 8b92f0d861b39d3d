#include "peer/files/stored_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_store.h"

namespace starling::peer {

std::string_view section_of(WeightsKind kind) {
  return kind == WeightsKind::kFast ? "weights" : "slow";
}

Error naming(Error error, const std::filesystem::path& path) {
  if (error.message().find(path.string()) != std::string::npos) return error;
  return std::move(error).with_context(path.string());
}

Result<StoredModel> open_model(const std::filesystem::path& path) {
  auto file = open_checkpoint(path);
  if (!file.ok()) return naming(std::move(file).error(), path);
  auto text = read_config(file.value());
  if (!text.ok()) return naming(std::move(text).error(), path);
  auto config = parse_config(text.value(), path.string(), {}, ConfigUse::kStored);
  if (!config.ok()) return std::move(config).error().with_context("configuration inside");
  auto layout =
      model::ParamLayout::plan(config.value().model, config.value().outer.rounds.fragments);
  if (!layout.ok()) return naming(std::move(layout).error(), path);
  if (layout.value().digest() != file.value().header().digests.layout) {
    return Error(
        ErrorCode::kIncompatible,
        path.string() + ": its parameters are laid out in a way this version does not use");
  }
  auto tokenizer = read_tokenizer_name(file.value());
  if (!tokenizer.ok()) return naming(std::move(tokenizer).error(), path);
  TokenizerClue clue{std::move(tokenizer).value(), file.value().path().parent_path()};
  return StoredModel{std::move(config).value(), std::move(layout).value(), std::move(file).value(),
                     std::move(clue)};
}

Result<TokenizerFile> tokenizer_of(const StoredModel& stored, const std::string& spec) {
  auto found = tokenizer_of_model(stored.config, stored.tokenizer, spec);
  if (found.ok()) return found;
  if (!spec.empty()) return std::move(found).error().with_context("--tokenizer");
  return naming(std::move(found).error(), stored.file.path());
}

Status check_tokenizer(const StoredModel& stored, std::span<const std::string> shards) {
  return check_tokenizer(stored.file, shards);
}

Status check_tokenizer(const CheckpointFile& file, std::span<const std::string> shards) {
  auto name = tokenizer_name_of_shards(shards);
  if (!name.ok()) return std::move(name).error();
  auto found = read_tokenizer_name(file);
  if (!found.ok()) return naming(std::move(found).error(), file.path());
  const std::string& trained_with = found.value();
  const bool unknown = trained_with.empty() || name.value().empty();
  if (unknown || trained_with == name.value()) return ok_status();
  return Error(ErrorCode::kIncompatible,
               fmt::format("{} was trained with tokenizer '{}', but the shards in {} were made by "
                           "'{}': 'starling prepare --tokenizer' makes them by the model's own",
                           file.path().string(), trained_with, shards.front(), name.value()));
}

Result<std::vector<float>> weights_for(const model::ParamLayout& layout, const StoredModel& stored,
                                       WeightsKind kind) {
  std::vector<float> source(stored.layout.elements());
  Status read = stored.file.read(section_of(kind), std::as_writable_bytes(std::span(source)));
  if (!read.ok()) return naming(std::move(read).error(), stored.file.path());
  std::vector<float> target(layout.elements());
  for (const model::ParamSlot& slot : layout.slots()) {
    const model::ParamSlot* from = stored.layout.find(slot.name);
    if (from == nullptr || !(from->shape == slot.shape)) {
      return Error(ErrorCode::kIncompatible,
                   fmt::format("{} holds another model: {} is not in it, or of another shape; "
                               "[model] must be the same",
                               stored.file.path().string(), slot.name));
    }
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from->range.first), slot.range.count,
                target.begin() + static_cast<std::ptrdiff_t>(slot.range.first));
  }
  return target;
}

}  // namespace starling::peer
