// A Backend whose device is far: what a peer on a GPU must get by with, for tests.
#pragma once

#include <memory>
#include <utility>

#include "model/cpu/cpu_layer_ops.h"
#include "optim/cpu_flat_ops.h"
#include "peer/machine/backend.h"
#include "tests/support/far_device.h"

namespace starling::testing {

inline peer::Backend far_backend(std::uint64_t seed) {
  peer::Backend backend;
  auto device = std::make_unique<FarDevice>(seed);
  backend.team = std::make_unique<ThreadTeam>(1);
  backend.flat = make_far_flat_ops(*device, optim::make_cpu_flat_ops(*backend.team));
  backend.layers = make_far_layer_ops(*device, model::make_cpu_layer_ops(*backend.team));
  backend.title = device->name();
  backend.device = std::move(device);
  return backend;
}

}  // namespace starling::testing
