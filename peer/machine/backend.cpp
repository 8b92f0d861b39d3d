#include "peer/machine/backend.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "cuda/backend.h"
#include "model/cpu/cpu_layer_ops.h"
#include "optim/cpu_flat_ops.h"

namespace starling::peer {

namespace {

#if defined(__clang__)
constexpr std::string_view kWithoutBf16 =
    "this program was built by Clang, which leaves its arithmetic for bf16 out (GCC does not)";
#else
constexpr std::string_view kWithoutBf16 = "this processor has neither AMX nor AVX-512 BF16";
#endif

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
    return Error(ErrorCode::kInvalidConfig, "device.compute = \"bf16\", but " +
                                                std::string(kWithoutBf16) +
                                                "; \"auto\" and \"fp32\" work here");
  }
  const bool bf16 =
      type == ComputeType::kBf16 || (type == ComputeType::kAuto && model::bf16_is_faster());
  return bf16 ? model::Compute::kBf16 : model::Compute::kFp32;
}

model::Compute gpu_compute_of(ComputeType type) {
  return type == ComputeType::kFp32 ? model::Compute::kFp32 : model::Compute::kBf16;
}

Result<int> ordinal_of(std::string_view name) {
  constexpr std::string_view kPrefix = "cuda:";
  if (name == "cuda") return 0;
  if (name.starts_with(kPrefix)) {
    const auto ordinal = parse_number<int>(name.substr(kPrefix.size()));
    if (ordinal && *ordinal >= 0) return *ordinal;
  }
  return Error(ErrorCode::kInvalidConfig,
               "device.name = \"" + std::string(name) +
                   "\" is none of \"auto\", \"cpu\", \"cuda\", \"cuda:0\", \"cuda:1\" and so on");
}

namespace {

Result<Backend> cuda_backend(int ordinal, ComputeType type) {
  auto device = cuda::make_device(ordinal);
  if (!device.ok()) return std::move(device).error();
  Backend backend;
  backend.device = std::move(device).value();
  backend.gpu = ordinal;
  backend.compute = gpu_compute_of(type);
  auto flat = cuda::make_flat_ops(*backend.device);
  if (!flat.ok()) return std::move(flat).error();
  backend.flat = std::move(flat).value();
  auto layers = cuda::make_layer_ops(*backend.device, model::activations_of(backend.compute));
  if (!layers.ok()) return std::move(layers).error();
  backend.layers = std::move(layers).value();
  backend.title = std::string(backend.device->name()) +
                  (backend.compute == model::Compute::kBf16 ? ", bf16" : ", fp32");
  return backend;
}

// Why, of every one that cannot be used.
Result<Backend> first_useful_gpu(ComputeType type, const GpuJudge& judge) {
  auto gpus = cuda::count_gpus();
  if (!gpus.ok()) return std::move(gpus).error();
  std::string why;
  for (int ordinal = 0; ordinal < gpus.value(); ++ordinal) {
    auto backend = cuda_backend(ordinal, type);
    Status judged = backend.ok() && judge ? judge(backend.value()) : ok_status();
    if (!judged.ok()) backend = std::move(judged).error();  // which frees what it has of the GPU
    if (backend.ok()) return backend;
    log_warning("device.name = \"auto\" passes over cuda:{}: {}", ordinal,
                backend.error().message());
    cuda::leave_gpu(ordinal);
    why += (why.empty() ? "" : "; ") + backend.error().message();
  }
  return Error(ErrorCode::kUnavailable, why);
}

Result<Backend> cpu_backend(const TeamWish& wish, ComputeType type) {
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
    log_info("other peers have the processors; this one shares what is left, by {} thread{}",
             processors.threads, processors.threads == 1 ? "" : "s");
  }
  if (wish.threads == 0 && processors.threads < default_threads(facts)) {
    log_info(
        "other peers have {} of the {} processors, so this one computes by {} thread{}; "
        "device.threads of each would share them otherwise",
        facts.taken.size(), facts.allowed.size(), processors.threads,
        processors.threads == 1 ? "" : "s");
  }
  auto team = std::make_unique<ThreadTeam>(processors.threads, processors.team);
  auto flat = optim::make_cpu_flat_ops(*team);
  auto layers = model::make_cpu_layer_ops(*team, compute.value());
  std::string title = title_of(team->size(), compute.value());
  Backend backend;
  backend.device = std::make_unique<CpuDevice>();
  backend.team = std::move(team);
  backend.flat = std::move(flat);
  backend.layers = std::move(layers);
  backend.title = std::move(title);
  backend.processors = std::move(processors);
  backend.claims = std::move(claims);
  backend.compute = compute.value();
  return backend;
}

}  // namespace

Result<Backend> make_backend(std::string_view name, const TeamWish& wish, ComputeType type,
                             const GpuJudge& judge) {
  if (name == "cpu") return cpu_backend(wish, type);
  if (name != "auto") {
    auto ordinal = ordinal_of(name);
    if (!ordinal.ok()) return std::move(ordinal).error();
    auto backend = cuda_backend(ordinal.value(), type);
    if (backend.ok()) return backend;
    return std::move(backend).error().with_context("device.name = \"" + std::string(name) + "\"");
  }
  auto best = first_useful_gpu(type, judge);
  if (best.ok()) return best;
  auto backend = cpu_backend(wish, type);
  if (backend.ok()) backend.value().why_cpu = best.error().message();
  return backend;
}

std::vector<int> useful_gpus(std::uint64_t least) {
  constexpr int kMost = 64;  // all of their numbers fit into a pipe
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    auto gpus = cuda::count_gpus();
    const int count = gpus.ok() ? std::min(gpus.value(), kMost) : 0;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      auto facts = cuda::gpu_facts(ordinal);
      if (!facts.ok() || facts.value().memory_free < least) continue;
      if (::write(ends[1], &ordinal, sizeof ordinal) != sizeof ordinal) break;
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::vector<int> useful;
  for (int ordinal = 0; ::read(ends[0], &ordinal, sizeof ordinal) == sizeof ordinal;) {
    useful.push_back(ordinal);
  }
  ::close(ends[0]);
  if (child > 0) ::waitpid(child, nullptr, 0);
  return useful;
}

std::optional<std::uint64_t> gpu_memory_free(const Backend& backend) {
  if (!backend.gpu) return std::nullopt;
  auto gpu = cuda::gpu_facts(*backend.gpu);
  if (!gpu.ok()) return std::nullopt;
  return gpu.value().memory_free;
}

std::vector<Buffer> pin(Backend& backend, std::initializer_list<std::span<float>> parts) {
  // Less is copied in no time, and may share its pages with other memory (base/heap.cpp).
  constexpr std::size_t kBytesMin = std::size_t{32} << 20;
  std::vector<Buffer> pinned;
  if (!backend.is_far()) return pinned;
  for (const std::span<float> part : parts) {
    if (part.size_bytes() < kBytesMin) continue;
    auto locked = cuda::pin(*backend.device, std::as_writable_bytes(part));
    if (!locked.ok()) {
      // Small parts may share pages, which are locked once; and what is locked in part, not copied.
      log_warning("checkpoints will make the trainer wait: {}", locked.error().message());
      pinned.clear();
      break;
    }
    pinned.push_back(std::move(locked).value());
  }
  return pinned;
}

}  // namespace starling::peer
