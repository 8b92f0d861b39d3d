// ModelRunner: the weights of a checkpoint on the device of this machine, ready to compute. For the
// commands; one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/llama.h"
#include "model/tokenizers/tokenizer.h"
#include "peer/files/stored_model.h"
#include "peer/machine/backend.h"

namespace starling::peer {

struct ModelRunner {
  Backend backend;
  Buffer params;
  model::Llama llama;
  std::int64_t sequences;  // that it computes at a time

  DeviceSpan<const float> weights() const { return params.as<float>(); }
};

// Which weights of a checkpoint, and where they compute.
struct RunnerChoice {
  WeightsKind weights = WeightsKind::kFast;
  // As device.name has it. "auto": this machine need not be like the one that trained it; and the
  // CPU where no GPU has room for a single sequence.
  std::string device = "auto";
};

// Memory is that of sequences of so many tokens and not of the model's context, which may be far
// longer; of as many at a time as the device has room for, of `passes`, the most first.
Result<ModelRunner> load_runner(const StoredModel& stored, const RunnerChoice& choice,
                                std::int64_t tokens, const std::vector<std::int64_t>& passes);

// Sequences of a batch that a measurement may compute at a time, the most first: each divides it
// evenly, is no more than training computed at a time, and beyond one sequence has no more than
// kPassTokens tokens. More would take memory and hardly be faster.
inline constexpr std::int64_t kPassTokens = 4096;
std::vector<std::int64_t> passes_to_try(const PeerConfig& config, const model::BatchShape& batch);

// The tokens of a text that begins a document. Never empty: a model must follow on something.
std::vector<std::int32_t> opening_tokens(const model::Tokenizer& tokenizer, std::string_view text,
                                         model::SpecialTokens special);

}  // namespace starling::peer
