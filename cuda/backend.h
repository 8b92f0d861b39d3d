// Factories of the CUDA execution, as plain C++: no CUDA header is needed to call them, so peer/
// is the same with and without CUDA. A build without CUDA links backend_stub.cpp, where
// make_device() answers kUnavailable and says so.
//
// Thread: start-up only. Operations refer to their device and are destroyed before it.
#pragma once

#include <memory>

#include "base/device.h"
#include "base/result.h"
#include "model/layer_ops.h"
#include "optim/flat_ops.h"

namespace starling::cuda {

// ordinal: of the devices that the driver shows to this process, from 0.
Result<std::unique_ptr<Device>> make_device(int ordinal);

// `device` must come from make_device().
std::unique_ptr<optim::FlatOps> make_flat_ops(Device& device);
std::unique_ptr<model::LayerOps> make_layer_ops(Device& device);

}  // namespace starling::cuda
