// The program with a far device where a GPU would be: behind the door of cuda/backend.h, which is
// defined here instead of in cuda/backend.cpp. So whole processes run as they would on a GPU, but
// for the arithmetic, which is the CPU's.
#include <cstdio>
#include <cstdlib>

#include "cuda/backend.h"
#include "model/cpu/cpu_layer_ops.h"
#include "optim/cpu_flat_ops.h"
#include "peer/commands/cli.h"
#include "tests/support/far_device.h"

namespace starling::cuda {

namespace {

// Never moved nor destroyed before what computes on it.
ThreadTeam& the_team() {
  static ThreadTeam team(1);
  return team;
}

// By FAR_BROKEN the first of the two is.
bool is_broken(int ordinal) { return ordinal == 0 && std::getenv("FAR_BROKEN") != nullptr; }

testing::FarDevice& far(Device& device) { return static_cast<testing::FarDevice&>(device); }

}  // namespace

Result<int> count_gpus() { return 2; }

Result<GpuFacts> gpu_facts(int ordinal) {
  if (is_broken(ordinal)) return Error(ErrorCode::kUnavailable, "cuda:0 is busy");
  constexpr std::size_t kMemory = std::size_t{1} << 40;
  // By FAR_FULL another program has nearly all of the first.
  const bool full = ordinal == 0 && std::getenv("FAR_FULL") != nullptr;
  return GpuFacts{
      .name = "far", .major = 9, .memory = kMemory, .memory_free = full ? 1U << 10 : kMemory};
}

Result<std::unique_ptr<Device>> make_device(int ordinal) {
  if (is_broken(ordinal)) return Error(ErrorCode::kUnavailable, "cuda:0 is busy");
  return std::unique_ptr<Device>(
      std::make_unique<testing::FarDevice>(static_cast<std::uint64_t>(ordinal), ordinal));
}

void leave_gpu(int ordinal) { std::fprintf(stderr, "cuda:%d is left\n", ordinal); }

Result<Buffer> pin(Device& device, std::span<std::byte> memory) { return far(device).pin(memory); }

Result<std::unique_ptr<optim::FlatOps>> make_flat_ops(Device& device) {
  return testing::make_far_flat_ops(far(device), optim::make_cpu_flat_ops(the_team()));
}

Result<std::unique_ptr<model::LayerOps>> make_layer_ops(Device& device, model::DType activations) {
  const bool bf16 = activations == model::DType::kBf16 && model::has_bf16();
  return testing::make_far_layer_ops(
      far(device),
      model::make_cpu_layer_ops(the_team(), bf16 ? model::Compute::kBf16 : model::Compute::kFp32));
}

}  // namespace starling::cuda

int main(int argc, char** argv) { return starling::peer::run_cli(argc, argv); }
