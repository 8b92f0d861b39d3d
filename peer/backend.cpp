#include "peer/backend.h"

#include <sched.h>

#include <string>
#include <utility>

#include "base/cpu_device.h"
#include "cuda/backend.h"
#include "model/cpu_layer_ops.h"
#include "optim/cpu_flat_ops.h"

namespace starling::peer {

int default_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  const int processors = CPU_COUNT(&allowed);
  return processors > 2 ? processors - 1 : processors;
}

Result<Backend> make_backend(std::string_view name, int threads) {
  if (name == "cuda") {
    auto device = cuda::make_device(0);
    if (!device.ok()) return std::move(device).error().with_context("device.name = \"cuda\"");
    Backend backend{std::move(device).value(), nullptr, nullptr, nullptr, {}};
    backend.title = backend.device->name();
    backend.flat = cuda::make_flat_ops(*backend.device);
    backend.layers = cuda::make_layer_ops(*backend.device);
    return backend;
  }
  if (name == "auto" && cuda::make_device(0).ok()) return make_backend("cuda", threads);
  if (name != "cpu" && name != "auto") {
    return Error(ErrorCode::kInvalidConfig, "device.name = \"" + std::string(name) +
                                                "\" is none of \"auto\", \"cpu\", \"cuda\"");
  }
  auto team = std::make_unique<ThreadTeam>(threads > 0 ? threads : default_threads());
  auto flat = optim::make_cpu_flat_ops(*team);
  auto layers = model::make_cpu_layer_ops(*team);
  const int count = team->size();
  return Backend{std::make_unique<CpuDevice>(), std::move(team), std::move(flat), std::move(layers),
                 "cpu, " + std::to_string(count) + (count == 1 ? " thread" : " threads")};
}

}  // namespace starling::peer
