// Backend: the three seams of one compute device, chosen by name: "cpu", "cuda:0" and so on, or
// "auto" for the first GPU where there is one that can be used. Members are destroyed in reverse:
// operations before the device they use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/device.h"
#include "base/result.h"
#include "base/thread_team.h"
#include "model/cpu/cpu_layer_ops.h"
#include "model/layer_ops.h"
#include "optim/flat_ops.h"
#include "peer/config/config.h"
#include "peer/machine/processor_claims.h"
#include "peer/machine/processors.h"

namespace starling::peer {

struct Backend {
  std::unique_ptr<Device> device;
  std::unique_ptr<ThreadTeam> team;  // null where the arithmetic is not on the CPU
  std::unique_ptr<optim::FlatOps> flat;
  std::unique_ptr<model::LayerOps> layers;
  std::string title;  // for people: the device, and how much of it is used
  ProcessorPlan processors;
  ProcessorClaims claims;  // to those of the team
  model::Compute compute = model::Compute::kFp32;
  std::optional<int> gpu;  // its ordinal, where it is one
  std::string why_cpu;     // where "auto" took it

  // A GPU, with memory of its own.
  bool is_far() const { return device->name() != "cpu"; }
};

// Of the CPU; kInvalidConfig where this machine has not what was asked for.
Result<model::Compute> compute_of(ComputeType type);
model::Compute gpu_compute_of(ComputeType type);
// Of a GPU's name; kInvalidConfig for any other.
Result<int> ordinal_of(std::string_view name);

// `wish`: of the trainer's CPU operators; unused where the arithmetic is not on the CPU. What the
// plan says of the rest, and of the thread that computes (team->pin_caller()), is left to the
// caller.
// `judge`: what "auto" asks of a GPU before it takes it; an error is why it does not.
// Errors: kInvalidConfig names the value that would work; those of cuda/backend.h.
using GpuJudge = std::function<Status(const Backend& gpu)>;
Result<Backend> make_backend(std::string_view name, const TeamWish& wish,
                             ComputeType compute = ComputeType::kFp32, const GpuJudge& judge = {});

// GPUs of this machine that can be used and have `least` bytes free. A process of its own asks
// them: whoever asks takes memory of each until it ends. Start-up only, before this process uses a
// GPU or threads.
std::vector<int> useful_gpus(std::uint64_t least = 1);

// Bytes that are free on the backend's GPU; empty: it computes on the CPU, or the driver does not
// tell.
std::optional<std::uint64_t> gpu_memory_free(const Backend& backend);

// Page-locks what the device copies to and from while it trains, so that no copy makes the trainer
// wait, until the buffers go: before the memory does. Where that is refused, the log says so; on
// the CPU, and for little, there is nothing to do.
std::vector<Buffer> pin(Backend& backend, std::initializer_list<std::span<float>> parts);

}  // namespace starling::peer
