#include "peer/backend.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "base/log.h"
#include "cuda/backend.h"
#include "model/cpu_layer_ops.h"
#include "optim/cpu_flat_ops.h"

namespace starling::peer {

namespace {

std::string title_of(int threads, model::Compute compute) {
  return "cpu, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
         (compute == model::Compute::kBf16 ? ", bf16" : "");
}

// What is ours to give back: neither the team's nor another peer's.
std::vector<int> others(const ProcessorFacts& facts, const std::vector<int>& team) {
  std::vector<int> left;
  for (const int processor : facts.allowed) {
    const auto is_in = [processor](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), processor) != list.end();
    };
    if (!is_in(team) && !is_in(facts.taken)) left.push_back(processor);
  }
  return left;
}

}  // namespace

Result<model::Compute> compute_of(ComputeType type) {
  if (type == ComputeType::kBf16 && !model::has_bf16()) {
    return Error(ErrorCode::kInvalidConfig,
                 "device.compute = \"bf16\", but this processor has neither AMX nor AVX-512 BF16; "
                 "\"auto\" and \"fp32\" work here");
  }
  const bool bf16 =
      type == ComputeType::kBf16 || (type == ComputeType::kAuto && model::bf16_is_faster());
  return bf16 ? model::Compute::kBf16 : model::Compute::kFp32;
}

Result<Backend> make_backend(std::string_view name, const TeamWish& wish, ComputeType type) {
  if (name == "cuda") {
    auto device = cuda::make_device(0);
    if (!device.ok()) return std::move(device).error().with_context("device.name = \"cuda\"");
    Backend backend{std::move(device).value(), nullptr, nullptr, nullptr, {}, {}, {}, {}};
    backend.title = backend.device->name();
    backend.flat = cuda::make_flat_ops(*backend.device);
    backend.layers = cuda::make_layer_ops(*backend.device);
    return backend;
  }
  if (name == "auto" && cuda::make_device(0).ok()) return make_backend("cuda", wish, type);
  if (name != "cpu" && name != "auto") {
    return Error(ErrorCode::kInvalidConfig, "device.name = \"" + std::string(name) +
                                                "\" is none of \"auto\", \"cpu\", \"cuda\"");
  }
  auto compute = compute_of(type);
  if (!compute.ok()) return std::move(compute).error();
  ProcessorFacts facts = processor_facts();
  ProcessorClaims claims;
  if (wish.pin) {
    claims = ProcessorClaims(ProcessorClaims::usual_file());
    facts.taken = claims.claim(facts.allowed);
  }
  auto plan = plan_processors(facts, wish);
  if (!plan.ok()) return std::move(plan).error();
  ProcessorPlan& processors = plan.value();
  if (!facts.allowed.empty() && processors.threads > static_cast<int>(facts.allowed.size())) {
    log_warning("device.threads = {} is more than the {} processors of this process: it only slows",
                processors.threads, facts.allowed.size());
  }
  claims.give_back(others(facts, processors.team));
  if (processors.team.empty() && !facts.taken.empty()) {
    log_info("other peers have the processors for themselves: {} threads share what there is",
             processors.threads);
  }
  auto team = std::make_unique<ThreadTeam>(processors.threads, processors.team);
  auto flat = optim::make_cpu_flat_ops(*team);
  auto layers = model::make_cpu_layer_ops(*team, compute.value());
  std::string title = title_of(team->size(), compute.value());
  return Backend{std::make_unique<CpuDevice>(),
                 std::move(team),
                 std::move(flat),
                 std::move(layers),
                 std::move(title),
                 std::move(processors),
                 std::move(claims),
                 compute.value()};
}

}  // namespace starling::peer
