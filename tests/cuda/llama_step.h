// A whole step of a model by CUDA's operations, against the same step by the reference: the body of
// the tests on the emulator and on a GPU.
#pragma once

#include "base/device.h"
#include "model/layer_ops.h"

namespace starling::cuda {

// Of two steps, of which the second has other weights than the first: the worst of both.
struct StepDifference {
  double loss, gradients;  // relative
};
StepDifference step_difference(Device& device, model::LayerOps& ops);

}  // namespace starling::cuda
