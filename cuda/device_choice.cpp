#include "cuda/device_choice.h"

namespace starling::cuda {

namespace {

// The module has machine code for the GPUs of these two, and PTX for what came later.
constexpr int kMajorMin = 8, kMajorMax = 9;
constexpr double kGibibyte = 1 << 30;

std::string gibibytes(std::size_t bytes) {
  const auto tenths = static_cast<std::size_t>(static_cast<double>(bytes) / kGibibyte * 10 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

std::string device_name(int ordinal) { return "cuda:" + std::to_string(ordinal); }

Error unavailable(const std::string& text) {
  return Error(ErrorCode::kUnavailable, text + ", or set device.name = \"cpu\"");
}

}  // namespace

std::string cuda_version(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Status judge_driver(const DriverAnswer& answer, int ordinal) {
  if (answer.driver == 0) {
    return unavailable("there is no NVIDIA driver (libcuda.so.1) here; install one for CUDA " +
                       cuda_version(answer.needed) +
                       " or newer (in a container: give it the GPUs, --gpus all)");
  }
  // Within one major version, older drivers serve newer programs.
  if (answer.driver / 1000 < answer.needed / 1000) {
    return unavailable("the NVIDIA driver is too old: it is of CUDA " +
                       cuda_version(answer.driver) + ", this program needs " +
                       std::to_string(answer.needed / 1000) + ".0 or newer; update the driver");
  }
  if (!answer.problem.empty()) {
    return unavailable("the NVIDIA driver shows no GPU (" + answer.problem +
                       "); look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  if (ordinal < 0 || ordinal >= answer.gpus) {
    return unavailable(
        device_name(ordinal) + " does not exist; there " +
        (answer.gpus == 1 ? "is only cuda:0" : "are cuda:0 to " + device_name(answer.gpus - 1)));
  }
  return ok_status();
}

Status judge_gpu(const GpuFacts& facts, int ordinal, int needed) {
  const std::string name = device_name(ordinal) + " (" + gpu_title(facts) + ")";
  if (facts.major < kMajorMin) {
    return unavailable(name + " is too old: Ampere (sm_80) or newer is needed; choose another GPU");
  }
  if (facts.major > kMajorMax && facts.driver < needed) {
    return unavailable("the NVIDIA driver is too old for " + name + ": it is of CUDA " +
                       cuda_version(facts.driver) + ", and translates for such a GPU from " +
                       cuda_version(needed) + " on; update the driver");
  }
  return ok_status();
}

std::string gpu_title(const GpuFacts& facts) {
  return facts.name + ", sm_" + std::to_string(facts.major) + std::to_string(facts.minor) + ", " +
         gibibytes(facts.memory);
}

Error no_context(int ordinal) {
  return Error(ErrorCode::kExhausted,
               device_name(ordinal) +
                   " has no memory free for CUDA itself; end what else uses it (nvidia-smi names "
                   "it), or choose another GPU by device.name");
}

Error no_memory(MemoryKind kind, std::size_t bytes, const GpuFacts& facts) {
  if (kind == MemoryKind::kHostPinned) {
    return Error(ErrorCode::kExhausted,
                 gibibytes(bytes) +
                     " of page-locked host memory cannot be had; lower gossip.slots, or end what "
                     "else runs here");
  }
  return Error(
      ErrorCode::kExhausted,
      gibibytes(bytes) + " are wanted, and of the " + gibibytes(facts.memory) + " of " +
          facts.name + " " + gibibytes(facts.memory_free) + " are free beside " +
          gibibytes(reserve_of(facts.memory)) +
          " that CUDA needs; set batch.recompute = \"blocks\", lower batch.micro (where it is "
          "set) or batch.tokens, take a smaller [model], or end what else uses this GPU");
}

std::string_view lane_name(Lane lane) {
  switch (lane) {
    case Lane::kCompute: return "compute";
    case Lane::kCopyOut: return "copy-out";
    case Lane::kCopyIn: return "copy-in";
  }
  return "unknown";
}

namespace {

// Whose memory is full, a new start alone does not help.
bool is_full(std::string_view problem) {
  return problem.find("cudaErrorMemoryAllocation") != std::string_view::npos ||
         problem.find("ALLOC_FAILED") != std::string_view::npos;
}

}  // namespace

std::string failure_text(const FailedCall& failed, Lane lane, int ordinal) {
  const char* const way_on =
      is_full(failed.problem)
          ? "its memory is full: set batch.recompute = \"blocks\" or a lower batch.micro, or end "
            "what else uses this GPU, and start the peer again: it goes on from its newest "
            "checkpoint, if it has written one\n"
          : "the GPU cannot go on; start the peer again: it goes on from its newest checkpoint, if "
            "it has written one. With CUDA_LAUNCH_BLOCKING=1 in its environment it is slower, and "
            "names the operation that failed\n";
  return device_name(ordinal) + ": " + std::string(failed.operation) + " on the " +
         std::string(lane_name(lane)) +
         " lane, or what was enqueued before it, failed: " + std::string(failed.call) + ": " +
         std::string(failed.problem) + "\n" + way_on;
}

}  // namespace starling::cuda
