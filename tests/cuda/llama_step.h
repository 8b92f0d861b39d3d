// Whole steps of a model by CUDA's operations, against the same steps by the reference: the bodies
// of the tests on the emulator and on a GPU.
#pragma once

#include <cstdint>

#include "base/device.h"
#include "model/layer_ops.h"
#include "model/llama_config.h"
#include "model/token_batch.h"
#include "optim/flat_ops.h"

namespace starling::cuda {

// Of two steps, of which the second has other weights than the first, with every choice of what the
// backward computes again: the worst of all.
struct StepDifference {
  double loss, gradients;  // relative
};
StepDifference step_difference(Device& device, model::LayerOps& ops, std::int64_t head_width = 32);

// Whether a step taken twice from the same weights and zeroed gradients has the same loss and the
// same gradients, bit for bit.
bool step_repeats(Device& device, model::LayerOps& ops, const model::LlamaConfig& config,
                  const model::BatchShape& shape);
// And one model's steps, of which a GPU records and replays all but the first, after a rehearsal;
// with a batch of its own in between, so that what is replayed has to read the new one.
bool replay_repeats(Device& device, model::LayerOps& ops, const model::LlamaConfig& config,
                    const model::BatchShape& shape);

// Whether training has the same losses, bit for bit, where AdamW rounds the weights for the
// operations as where they do it themselves.
bool rounded_repeats(Device& device, model::LayerOps& ops, optim::FlatOps& flat);

// Of a model that learns a simple language, both from the same weights with AdamW.
struct CurveDifference {
  double worst;                  // of the losses of 10 steps in a row, relative
  double first_loss, last_loss;  // by the reference, each of 10 steps
};
CurveDifference curve_difference(Device& device, model::LayerOps& ops, optim::FlatOps& flat,
                                 int steps);

}  // namespace starling::cuda
