// Backend: the three seams of one compute device, chosen by name: "cpu", or "auto" for the best
// this machine has. Members are destroyed in reverse: operations before the device they use.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/device.h"
#include "base/result.h"
#include "base/thread_team.h"
#include "model/layer_ops.h"
#include "optim/flat_ops.h"

namespace starling::peer {

struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<ThreadTeam> team;  // null where the arithmetic is not on the CPU
  std::unique_ptr<optim::FlatOps> flat;
  std::unique_ptr<model::LayerOps> layers;
  std::string title;  // for people: the device, and how much of it is used
};

// threads: of the trainer's CPU operators; 0 takes all processors but one where there are more
// than two. Unused where the arithmetic is not on the CPU.
Result<Backend> make_backend(std::string_view name, int threads);

// The number that threads = 0 stands for on this machine.
int default_threads();

}  // namespace starling::peer
