// MemoryPlan: what a peer will hold, part by part, before any of it is allocated. Everything is
// fixed by the configuration and the device; nothing grows while it trains. Not counted: the
// program itself, what libraries take for a call, and deltas in doubt, of which there are some only
// where partners died or lie: of each side at most a model as it travels, or some hundred stripes
// of a small one (gossip::in_doubt_max).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/cpu/cpu_layer_ops.h"
#include "model/param_layout.h"
#include "model/tensor.h"
#include "peer/config/config.h"
#include "peer/machine/backend.h"
#include "peer/states/stripe_table.h"

namespace starling::peer {

struct MemoryPlan {
  struct Part {
    std::string name;
    std::size_t bytes = 0;
    bool on_device = false;  // in the memory of a GPU, where one trains
  };
  std::vector<Part> parts;

  void add(std::string name, std::size_t bytes, bool on_device = false);
  std::size_t total() const noexcept;
  std::size_t device_total() const noexcept;  // of the parts on the device
  std::size_t host_total() const noexcept { return total() - device_total(); }
  // One line: "parameters 3.2 MiB, gradients 3.2 MiB, ...; 40 MiB in all".
  std::string describe() const;
};

// What the operations of the device that trains make of it: LayerOps::activations() and
// scratch_bytes().
struct DeviceNeeds {
  model::DType activations = model::DType::kF32;
  std::function<std::size_t(const model::StepShape& largest)> scratch;
  // It computes small parts of a batch about as fast as the whole: see wanted_micro_batches().
  bool in_parts = false;
  // What "auto" recomputes: processors are spared memory, as norms cost little beside their
  // products, a GPU time.
  model::Recompute suited = model::Recompute::kNorms;
  bool large_chunks = false;  // as in model::BatchShape
  bool far = false;           // its memory is not the host's
};
// Of a backend that outlives it; of a CPU, or a GPU, here or elsewhere.
DeviceNeeds needs_of(const Backend& backend);
DeviceNeeds needs_of_cpu(model::Compute compute, int threads);
DeviceNeeds needs_of_gpu(model::Compute compute);

// All of a peer with this configuration, whose model is laid out so.
MemoryPlan plan_memory(const PeerConfig& config, const model::ParamLayout& layout,
                       const StripeTable& stripes, const DeviceNeeds& needs);

// The least that such a peer takes of a device: with the smallest micro-batch, or the one that is
// set.
std::size_t device_bytes_least(PeerConfig config, const model::ParamLayout& layout,
                               const StripeTable& stripes, const DeviceNeeds& needs);
// Whether so much is free of a GPU; kExhausted says what there is. All arguments outlive it.
GpuJudge gpu_judge(const PeerConfig& config, const model::ParamLayout& layout,
                   const StripeTable& stripes);
// Free of the backend's GPU, and what its operations have taken already and the plan counts; empty:
// it computes on the CPU, or the driver does not tell.
std::optional<std::uint64_t> gpu_memory_to_plan(const Backend& backend);

// The model as training computes it: no sequence is longer than those of a batch, however much
// context it is made for, so none of the memory is for more.
model::LlamaConfig trained_model(const PeerConfig& config);

// How `sequences` of a batch are computed at a time.
model::BatchShape pass_of(const PeerConfig& config, std::int64_t sequences,
                          const DeviceNeeds& needs);

// Sequences that are computed at a time, as far as the configuration says; "auto": all of a batch.
std::int64_t micro_batch_of(const PeerConfig& config);

// The largest ones first: each divides a batch evenly.
std::vector<std::int64_t> micro_batches(std::int64_t sequences);

// Those that "auto" may take, the best first: all of a batch at a time, or less. Processors want
// parts of at least kPartTokens tokens whose activations take no more memory than the parameters,
// their gradients and moments: a small model takes about as long in less memory (tiny of `starling
// bench step`, 16 and 8 sequences at a time), where a large one would read its weights too often.
inline constexpr std::int64_t kPartTokens = 1024;
std::vector<std::int64_t> wanted_micro_batches(const PeerConfig& config,
                                               const model::ParamLayout& layout,
                                               const DeviceNeeds& needs);

// The first of them with which such a peer takes no more than kMemoryShare of `available` bytes;
// the rest is for the program, libraries and files that the system keeps. Where the device is far
// they are a GPU's, beside what CUDA needs, and all of them may be taken. At least one: that even
// this is too much is for others to say.
inline constexpr double kMemoryShare = 0.8;
std::int64_t micro_batch_within(std::uint64_t available, const PeerConfig& config,
                                const model::ParamLayout& layout, const StripeTable& stripes,
                                const DeviceNeeds& needs);

// The micro-batches that a start tries in turn until the device has room: the one that is set, or
// for "auto" those wanted, from the first on that fits by plan. `available`: the host's free
// memory; empty: unknown. Of a far device only what lies on the host is judged by it, and all are
// tried, as only the device knows its own memory. Error kExhausted: none can fit, with what to set
// instead; judged here because a system may grant more memory than it has, and end whoever uses it.
Result<std::vector<std::int64_t>> micro_batches_to_try(std::optional<std::uint64_t> available,
                                                       const PeerConfig& config,
                                                       const model::ParamLayout& layout,
                                                       const StripeTable& stripes,
                                                       const DeviceNeeds& needs);

// What `start` makes with the first of `tries` for which there is room; else its last error. Start:
// a Result of the micro-batch.
template <class Start>
auto start_with_first(const std::vector<std::int64_t>& tries, const Start& start) {
  auto made = start(tries.front());
  for (std::size_t next = 1; next < tries.size(); ++next) {
    if (made.ok() || made.error().code() != ErrorCode::kExhausted) break;
    made = start(tries[next]);
  }
  return made;
}

// What of a batch is computed at a time, and what `plan` leaves of what was `available`:
// "4 of 8 sequences at a time (batch.micro) leave 120 MiB of 512 MiB free".
std::string describe_batch(const PeerConfig& config, const MemoryPlan& plan,
                           std::optional<std::uint64_t> available);

}  // namespace starling::peer
