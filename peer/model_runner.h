// ModelRunner: the weights of a checkpoint on the device of this machine, ready to compute. For the
// commands; one thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/llama.h"
#include "model/tokenizer.h"
#include "peer/backend.h"
#include "peer/stored_model.h"

namespace starling::peer {

struct ModelRunner {
  Backend backend;
  Buffer params;
  model::Llama llama;

  DeviceSpan<const float> weights() const { return params.as<float>(); }
};

// Memory is that of `shape` and not of the model's context, which may be far longer; so is the
// longest sequence.
Result<ModelRunner> load_runner(const StoredModel& stored, WeightsKind kind,
                                model::BatchShape shape);

// The tokens of a text that begins a document. Never empty: a model must follow on something.
std::vector<std::int32_t> opening_tokens(const model::Tokenizer& tokenizer, std::string_view text,
                                         model::SpecialTokens special);

}  // namespace starling::peer
