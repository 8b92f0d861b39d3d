// StoredModel: a checkpoint together with the configuration and the layout that it carries, for
// the commands that look at finished models. Errors name the file. Blocking; plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/param_layout.h"
#include "peer/config/config.h"
#include "peer/files/checkpoint.h"
#include "peer/files/tokenizer_file.h"

namespace starling::peer {

// "Fast" weights are what the peer trained last; "slow" weights are what it averages with others.
enum class WeightsKind : std::uint8_t { kFast, kSlow };
std::string_view section_of(WeightsKind kind);

struct StoredModel {
  PeerConfig config;
  model::ParamLayout layout;
  CheckpointFile file;
  TokenizerClue tokenizer;
};

// `path` as open_checkpoint() takes it.
Result<StoredModel> open_model(const std::filesystem::path& path);

// tokenizer_of_model() of a stored one.
Result<TokenizerFile> tokenizer_of(const StoredModel& stored, const std::string& spec);

// A model makes nothing of tokens that are not its own: an error if these shards were made by
// another tokenizer. Nothing where either is not known.
Status check_tokenizer(const StoredModel& stored, std::span<const std::string> shards);
Status check_tokenizer(const CheckpointFile& file, std::span<const std::string> shards);

// The weights as another layout of the same model has them: other fragments, another order.
Result<std::vector<float>> weights_for(const model::ParamLayout& layout, const StoredModel& stored,
                                       WeightsKind kind);

// Errors of the system name the file already, those of its contents do not.
Error naming(Error error, const std::filesystem::path& path);

}  // namespace starling::peer
