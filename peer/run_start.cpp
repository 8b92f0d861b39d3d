#include "peer/run_start.h"

#include <utility>

#include "base/hash.h"
#include "peer/stored_model.h"

namespace starling::peer {

Result<RunStart> open_start(std::string_view path, const model::ParamLayout& layout,
                            std::span<const std::string> shards) {
  if (path.empty()) return RunStart{};
  auto stored = open_model(path);
  if (!stored.ok()) return std::move(stored).error();
  if (tokenizer_name_of_shards(shards).ok()) {
    Status own = check_tokenizer(stored.value(), shards);
    if (!own.ok()) return std::move(own).error();
  }
  auto weights = weights_for(layout, stored.value(), WeightsKind::kFast);
  if (!weights.ok()) return std::move(weights).error();
  RunStart start{.weights = std::move(weights).value()};
  start.digest = digest(std::as_bytes(std::span<const float>(start.weights)));
  return start;
}

CheckpointDigests run_digests(std::string_view run, const RunStart& start,
                              const model::ParamLayout& layout) {
  // One fragment: the architecture alone, however it is cut.
  auto whole = model::ParamLayout::plan(layout.config(), 1);
  STARLING_ASSERT(whole.ok());
  return {
      .run = digest(run, start.digest), .model = whole.value().digest(), .layout = layout.digest()};
}

}  // namespace starling::peer
