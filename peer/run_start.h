// What a run starts from, and so which run it is: peers that started from other weights would pull
// each other apart, so they must not meet. Start-up only. Errors name the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/param_layout.h"
#include "peer/checkpoint.h"

namespace starling::peer {

struct RunStart {
  std::vector<float> weights{};  // in the run's layout; empty: drawn from run.seed
  std::uint64_t digest = 0;      // of them; 0: none
};

// `path`: run.start, a checkpoint of the same model in any layout; empty: none. `shards`: what it
// is to go on with, made by its own tokenizer; those that cannot be read are not judged here.
Result<RunStart> open_start(std::string_view path, const model::ParamLayout& layout,
                            std::span<const std::string> shards);

CheckpointDigests run_digests(std::string_view run, const RunStart& start,
                              const model::ParamLayout& layout);

}  // namespace starling::peer
