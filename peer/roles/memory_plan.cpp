#include "peer/roles/memory_plan.h"

#include <fmt/format.h>

#include <utility>

#include "cuda/gpu_memory.h"
#include "model/activations.h"
#include "model/llama.h"
#include "peer/io/human_text.h"
#include "peer/roles/pools.h"

namespace starling::peer {

namespace {

// Parameters, their gradients and two moments.
constexpr std::size_t kParameterCopies = 4;

// The driver gives memory in steps of 2 MiB, and a peer has about a dozen pieces of it.
constexpr std::size_t kRoundedUp = std::size_t{32} << 20;

model::Recompute recompute_of(RecomputeChoice choice, model::Recompute suited) {
  switch (choice) {
    case RecomputeChoice::kAuto: break;
    case RecomputeChoice::kGates: return model::Recompute::kGates;
    case RecomputeChoice::kNorms: return model::Recompute::kNorms;
    case RecomputeChoice::kBlocks: return model::Recompute::kBlocks;
  }
  return suited;
}

// What a peer whose device is far has on the host.
Status judge_host(std::size_t bytes, std::uint64_t available) {
  if (bytes <= available) return ok_status();
  return Error(ErrorCode::kExhausted,
               fmt::format("beside the GPU's memory {} of the host's are needed (slow weights and "
                           "momentum, slots, the image of a checkpoint), and {} are free; lower "
                           "gossip.slots, take a smaller [model], or end what else runs here",
                           human_bytes(bytes), human_bytes(available)));
}

}  // namespace

void MemoryPlan::add(std::string name, std::size_t bytes, bool on_device) {
  parts.push_back({std::move(name), bytes, on_device});
}

std::size_t MemoryPlan::total() const noexcept {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::size_t MemoryPlan::device_total() const noexcept {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.on_device ? part.bytes : 0;
  return sum;
}

std::string MemoryPlan::describe() const {
  std::string text;
  for (const Part& part : parts) text += fmt::format("{} {}, ", part.name, human_bytes(part.bytes));
  return text + human_bytes(total()) + " in all";
}

DeviceNeeds needs_of(const Backend& backend) {
  const model::LayerOps& ops = *backend.layers;
  DeviceNeeds needs;
  if (backend.is_far()) needs = needs_of_gpu(backend.compute);
  needs.in_parts = !needs.far;
  needs.activations = ops.activations();
  needs.scratch = [&ops](const auto& largest) { return ops.scratch_bytes(largest); };
  return needs;
}

DeviceNeeds needs_of_cpu(model::Compute compute, int threads) {
  return {.activations = model::activations_of(compute),
          .scratch =
              [=](const model::StepShape& largest) {
                return model::cpu_scratch_bytes(compute, threads, largest);
              },
          .in_parts = true};
}

DeviceNeeds needs_of_gpu(model::Compute compute) {
  const model::DType activations = model::activations_of(compute);
  return {.activations = activations,
          .scratch =
              [activations](const model::StepShape& largest) {
                return cuda::scratch_sizes(activations, largest).sum() + cuda::kWorkspaceBytes;
              },
          .suited = model::Recompute::kGates,
          .large_chunks = true,
          .far = true};
}

MemoryPlan plan_memory(const PeerConfig& config, const model::ParamLayout& layout,
                       const StripeTable& stripes, const DeviceNeeds& needs) {
  const bool exchanges = config.outer.rule.method != optim::OuterMethod::kLocal;
  const std::size_t floats = layout.elements() * sizeof(float);
  const std::size_t stripe = stripes.parameters_max();
  const std::size_t slots = exchanges ? slot_count(config, stripes) : 0;
  MemoryPlan plan;
  plan.add("parameters", floats, true);
  plan.add("gradients", floats, true);
  plan.add("AdamW moments", 2 * floats, true);
  const model::BatchShape pass = pass_of(config, micro_batch_of(config), needs);
  plan.add("activations",
           model::Llama::activation_bytes(trained_model(config), pass, needs.activations), true);
  plan.add("scratch",
           needs.scratch(model::step_shape(trained_model(config), pass, layout.elements())), true);
  plan.add("slow weights and momentum", exchanges ? 2 * floats + stripe * sizeof(float) : 0);
  plan.add("slots", slots * (float_slot_bytes(stripe) + payload_slot_bytes(stripe)));
  if (exchanges && needs.far) {
    plan.add("arriving corrections", slots * stripe * sizeof(float), true);
  }
  plan.add("checkpoint image", (exchanges ? 5 : 3) * floats);
  if (exchanges) {
    const PieceSlots pieces = piece_slots(config.join, StatePlan(stripes));
    plan.add("pieces for newcomers", pieces.count * pieces.bytes);
  }
  return plan;
}

std::size_t device_bytes_least(PeerConfig config, const model::ParamLayout& layout,
                               const StripeTable& stripes, const DeviceNeeds& needs) {
  if (!config.micro_batch) config.micro_batch = 1;
  const std::size_t planned = plan_memory(config, layout, stripes, needs).device_total();
  return planned + (needs.far ? kRoundedUp : 0);
}

std::optional<std::uint64_t> gpu_memory_to_plan(const Backend& backend) {
  auto free = gpu_memory_free(backend);
  if (free) *free += cuda::kWorkspaceBytes;
  return free;
}

GpuJudge gpu_judge(const PeerConfig& config, const model::ParamLayout& layout,
                   const StripeTable& stripes) {
  return [&](const Backend& gpu) -> Status {
    const auto free = gpu_memory_to_plan(gpu);
    const std::size_t least = device_bytes_least(config, layout, stripes, needs_of(gpu));
    if (!free || least <= *free) return ok_status();
    return Error(ErrorCode::kExhausted,
                 fmt::format("{} has {} free, and this peer takes {} at least; {}batch.tokens, or "
                             "free memory there",
                             gpu.device->name(), human_bytes(*free), human_bytes(least),
                             config.micro_batch ? "lower batch.micro or " : "lower "));
  };
}

model::LlamaConfig trained_model(const PeerConfig& config) {
  model::LlamaConfig model = config.model;
  model.context = config.batch.tokens;
  return model;
}

model::BatchShape pass_of(const PeerConfig& config, std::int64_t sequences,
                          const DeviceNeeds& needs) {
  return {.sequences = sequences,
          .tokens = config.batch.tokens,
          .recompute = recompute_of(config.recompute, needs.suited),
          .large_chunks = needs.large_chunks};
}

std::int64_t micro_batch_of(const PeerConfig& config) {
  return config.micro_batch.value_or(config.batch.sequences);
}

std::vector<std::int64_t> micro_batches(std::int64_t sequences) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t passes = 1; passes <= sequences; ++passes) {
    if (sequences % passes == 0) divisors.push_back(sequences / passes);
  }
  return divisors;
}

std::vector<std::int64_t> wanted_micro_batches(const PeerConfig& config,
                                               const model::ParamLayout& layout,
                                               const DeviceNeeds& needs) {
  std::vector<std::int64_t> wanted = micro_batches(config.batch.sequences);
  const auto is_too_large = [&](std::int64_t micro) {
    return model::Llama::activation_bytes(trained_model(config), pass_of(config, micro, needs),
                                          needs.activations) >
           kParameterCopies * sizeof(float) * layout.elements();
  };
  while (needs.in_parts && wanted.size() > 1 && is_too_large(wanted.front()) &&
         wanted[1] * config.batch.tokens >= kPartTokens) {
    wanted.erase(wanted.begin());
  }
  return wanted;
}

std::int64_t micro_batch_within(std::uint64_t available, const PeerConfig& config,
                                const model::ParamLayout& layout, const StripeTable& stripes,
                                const DeviceNeeds& needs) {
  const double room = (needs.far ? 1 : kMemoryShare) * static_cast<double>(available);
  PeerConfig tried = config;
  for (const std::int64_t micro : wanted_micro_batches(config, layout, needs)) {
    tried.micro_batch = micro;
    const MemoryPlan plan = plan_memory(tried, layout, stripes, needs);
    const std::size_t taken = needs.far ? plan.device_total() : plan.total();
    if (static_cast<double>(taken) <= room) return micro;
  }
  return 1;
}

Result<std::vector<std::int64_t>> micro_batches_to_try(std::optional<std::uint64_t> available,
                                                       const PeerConfig& config,
                                                       const model::ParamLayout& layout,
                                                       const StripeTable& stripes,
                                                       const DeviceNeeds& needs) {
  std::vector<std::int64_t> tries = config.micro_batch
                                        ? std::vector{*config.micro_batch}
                                        : wanted_micro_batches(config, layout, needs);
  if (!available) return tries;
  if (needs.far) {
    Status fits = judge_host(plan_memory(config, layout, stripes, needs).host_total(), *available);
    if (!fits.ok()) return std::move(fits).error();
    return tries;
  }
  const std::int64_t most = micro_batch_within(*available, config, layout, stripes, needs);
  if (!config.micro_batch)
    std::erase_if(tries, [most](std::int64_t micro) { return micro > most; });
  const auto bytes_of = [&](std::int64_t micro) {
    PeerConfig tried = config;
    tried.micro_batch = micro;
    return plan_memory(tried, layout, stripes, needs).total();
  };
  const std::size_t bytes = bytes_of(tries.front());
  if (bytes <= *available) return tries;
  const bool less_would_do = most < tries.front() && bytes_of(most) <= *available;
  PeerConfig lean = config;
  lean.micro_batch = most;
  lean.recompute = RecomputeChoice::kBlocks;
  const bool blocks_would_do = plan_memory(lean, layout, stripes, needs).total() <= *available;
  const std::string remedy =
      less_would_do ? fmt::format("batch.micro = {} would do", most)
      : blocks_would_do
          ? fmt::format("batch.recompute = \"blocks\" with batch.micro = {} would do", most)
          : "lower batch.tokens or gossip.slots, take a smaller [model], or end what "
            "else runs here";
  return Error(ErrorCode::kExhausted,
               fmt::format("{} of {} sequences at a time (batch.micro) need {} of memory, and {} "
                           "are free; {}",
                           tries.front(), config.batch.sequences, human_bytes(bytes),
                           human_bytes(*available), remedy));
}

std::string describe_batch(const PeerConfig& config, const MemoryPlan& plan,
                           std::optional<std::uint64_t> available) {
  const std::string taken = fmt::format("{} of {} sequences at a time (batch.micro)",
                                        micro_batch_of(config), config.batch.sequences);
  if (!available) return taken;
  const std::uint64_t left = *available - std::min<std::uint64_t>(*available, plan.total());
  return fmt::format("{} leave {} of {} free", taken, human_bytes(left), human_bytes(*available));
}

}  // namespace starling::peer
