#include "cuda/cuda_device.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cuda/device_choice.h"

namespace starling::cuda {

namespace {

// From start-up calls, which report. Not remembered for a later one.
Error start_error(cudaError_t error, int ordinal) {
  const cudaError_t forgotten = cudaGetLastError();
  (void)forgotten;
  if (error == cudaErrorMemoryAllocation) return no_context(ordinal);
  return Error(ErrorCode::kUnavailable, "cuda:" + std::to_string(ordinal) + ": " +
                                            problem_of(error) +
                                            "; look at nvidia-smi, or set device.name = \"cpu\"");
}

DriverAnswer answer_of_driver() {
  DriverAnswer answer{.needed = CUDART_VERSION};
  if (cudaDriverGetVersion(&answer.driver) != cudaSuccess) answer.driver = 0;
  const cudaError_t counted = cudaGetDeviceCount(&answer.gpus);
  if (counted != cudaSuccess) {
    answer.gpus = 0;
    answer.problem = problem_of(counted);
  }
  return answer;
}

constexpr unsigned kLastWordsSeconds = 5;

void free_device(void* device, void* data, std::size_t /*bytes*/) noexcept {
  static_cast<CudaDevice*>(device)->drain();
  STARLING_CUDA("giving memory back", Lane::kCompute, cudaFree(data));
}

void free_pinned(void* device, void* data, std::size_t /*bytes*/) noexcept {
  static_cast<CudaDevice*>(device)->drain();
  STARLING_CUDA("giving pinned memory back", Lane::kCompute, cudaFreeHost(data));
}

void unpin(void* device, void* data, std::size_t /*bytes*/) noexcept {
  static_cast<CudaDevice*>(device)->drain();
  STARLING_CUDA("unlocking memory", Lane::kCompute, cudaHostUnregister(data));
}

}  // namespace

std::string problem_of(cudaError_t error) {
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

void end_process(const FailedCall& failed, Lane lane) noexcept {
  int ordinal = 0;
  const cudaError_t known = cudaGetDevice(&ordinal);
  (void)known;  // worth nothing beside the first error
  const std::string text = failure_text(failed, lane, ordinal);
  // A pipe that nobody empties must not keep a dead peer's other threads in the swarm.
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(kLastWordsSeconds);
  std::fputs(text.c_str(), stderr);
  // At once: destructors would call the same device, and a core would hold all of its memory.
  std::_Exit(EXIT_FAILURE);
}

void call_failed(cudaError_t error, const char* operation, Lane lane, const char* call) noexcept {
  const std::string problem = problem_of(error);
  end_process({operation, call, problem}, lane);
}

Result<int> count_gpus() {
  const DriverAnswer answer = answer_of_driver();
  if (Status judged = judge_driver(answer, 0); !judged.ok()) return std::move(judged).error();
  return answer.gpus;
}

Result<GpuFacts> ask_driver(int ordinal) {
  const DriverAnswer answer = answer_of_driver();
  if (Status judged = judge_driver(answer, ordinal); !judged.ok()) {
    return std::move(judged).error();
  }
  cudaDeviceProp properties{};
  if (const cudaError_t asked = cudaGetDeviceProperties(&properties, ordinal);
      asked != cudaSuccess) {
    return start_error(asked, ordinal);
  }
  GpuFacts facts{.name = properties.name,
                 .major = properties.major,
                 .minor = properties.minor,
                 .memory = properties.totalGlobalMem,
                 .driver = answer.driver};
  if (Status judged = judge_gpu(facts, ordinal, CUDART_VERSION); !judged.ok()) {
    return std::move(judged).error();
  }
  cudaError_t asked = cudaSetDevice(ordinal);
  if (asked == cudaSuccess) asked = cudaMemGetInfo(&facts.memory_free, &facts.memory);
  if (asked != cudaSuccess) return start_error(asked, ordinal);
  facts.memory_free -= std::min(facts.memory_free, reserve_of(facts.memory));
  return facts;
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(int ordinal) {
  auto facts = ask_driver(ordinal);
  if (!facts.ok()) return std::move(facts).error();
  std::unique_ptr<CudaDevice> device(new CudaDevice(ordinal));
  device->title_ = "cuda:" + std::to_string(ordinal) + ", " + gpu_title(facts.value());
  if (const cudaError_t opened = device->open(); opened != cudaSuccess) {
    return start_error(opened, ordinal);
  }
  return device;
}

cudaError_t CudaDevice::open() {
  cudaError_t outcome = cudaSetDevice(ordinal_);
  if (outcome == cudaSuccess) {
    outcome = cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, ordinal_);
  }
  if (outcome == cudaSuccess) {
    outcome =
        cudaDeviceGetAttribute(&shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal_);
  }
  int major = 0, minor = 0;
  if (outcome == cudaSuccess) {
    outcome = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal_);
  }
  if (outcome == cudaSuccess) {
    outcome = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal_);
  }
  capability_ = 10 * major + minor;
  // Copies first where both could begin: they are short, and arithmetic fills the rest.
  int least = 0, greatest = 0;
  if (outcome == cudaSuccess) outcome = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  for (std::size_t lane = 0; lane < kLanes && outcome == cudaSuccess; ++lane) {
    const bool computes = lane == static_cast<std::size_t>(Lane::kCompute);
    outcome = cudaStreamCreateWithPriority(&streams_[lane], cudaStreamNonBlocking,
                                           computes ? least : greatest);
  }
  for (cudaEvent_t& event : events_) {
    if (outcome == cudaSuccess) outcome = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  return outcome;
}

bool CudaDevice::has_warpgroups() const noexcept {
#if defined(STARLING_CUDA_SM90A)
  return capability_ == 90;
#else
  return false;
#endif
}

// What was never made is null, and what cannot be given back goes with the process.
CudaDevice::~CudaDevice() {
  cudaSetDevice(ordinal_);
  for (cudaEvent_t event : events_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  const cudaError_t forgotten = cudaGetLastError();  // or another GPU's first launch would find it
  (void)forgotten;
}

// CUDA keeps for each thread which GPU it means.
void CudaDevice::use() const {
  int meant = -1;
  STARLING_CUDA("choosing the GPU", Lane::kCompute, cudaGetDevice(&meant));
  if (meant == ordinal_) return;
  STARLING_CUDA("choosing the GPU", Lane::kCompute, cudaSetDevice(ordinal_));
}

cudaStream_t CudaDevice::stream(Lane lane) {
  use();
  return streams_[static_cast<std::size_t>(lane)];
}

// Gives `data` back where it leaves too little for what CUDA takes itself: what is missing then is
// missed at the first step, when no smaller batch can be tried any more.
cudaError_t CudaDevice::keep_reserve(void* data) {
  std::size_t free = 0, total = 0;
  cudaError_t outcome = cudaMemGetInfo(&free, &total);
  if (outcome == cudaSuccess && free >= reserve_of(total)) return cudaSuccess;
  if (outcome == cudaSuccess) outcome = cudaErrorMemoryAllocation;
  STARLING_CUDA("giving memory back", Lane::kCompute, cudaFree(data));
  return outcome;
}

Result<Buffer> CudaDevice::allocate(MemoryKind kind, std::size_t bytes) {
  if (bytes == 0) return Buffer();
  use();
  const bool pinned = kind == MemoryKind::kHostPinned;
  void* data = nullptr;
  cudaError_t taken =
      pinned ? cudaHostAlloc(&data, bytes, cudaHostAllocPortable) : cudaMalloc(&data, bytes);
  if (taken == cudaSuccess && !pinned) taken = keep_reserve(data);
  if (taken == cudaErrorMemoryAllocation) {
    const cudaError_t forgotten = cudaGetLastError();
    (void)forgotten;
    auto facts = ask_driver(ordinal_);
    return no_memory(kind, bytes, facts.ok() ? facts.value() : GpuFacts{});
  }
  if (taken != cudaSuccess) return start_error(taken, ordinal_);
  Buffer buffer(data, bytes, this, pinned ? free_pinned : free_device);
  STARLING_CUDA("zeroing new memory", Lane::kCompute,
                cudaMemsetAsync(data, 0, bytes, stream(Lane::kCompute)));
  drain();
  return buffer;
}

Result<Buffer> CudaDevice::pin(std::span<std::byte> memory) {
  use();
  const cudaError_t locked =
      cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable);
  if (locked != cudaSuccess) {
    const cudaError_t forgotten = cudaGetLastError();
    (void)forgotten;
    return Error(ErrorCode::kUnavailable, "their memory cannot be locked: " + problem_of(locked));
  }
  return Buffer(memory.data(), memory.size(), this, unpin);
}

void CudaDevice::copy_out(Lane lane, std::span<std::byte> target,
                          DeviceSpan<const std::byte> source) {
  STARLING_ASSERT(target.size() == source.size);
  if (source.size == 0) return;
  STARLING_CUDA("copy_out", lane,
                cudaMemcpyAsync(target.data(), source.data, source.size, cudaMemcpyDeviceToHost,
                                stream(lane)));
}

void CudaDevice::copy_in(Lane lane, DeviceSpan<std::byte> target,
                         std::span<const std::byte> source) {
  STARLING_ASSERT(target.size == source.size());
  if (target.size == 0) return;
  STARLING_CUDA("copy_in", lane,
                cudaMemcpyAsync(target.data, source.data(), target.size, cudaMemcpyHostToDevice,
                                stream(lane)));
}

void CudaDevice::copy(Lane lane, DeviceSpan<std::byte> target, DeviceSpan<const std::byte> source) {
  STARLING_ASSERT(target.size == source.size);
  if (target.size == 0) return;
  STARLING_CUDA("copy", lane,
                cudaMemcpyAsync(target.data, source.data, source.size, cudaMemcpyDeviceToDevice,
                                stream(lane)));
}

Fence CudaDevice::record(Lane lane) {
  const Fence fence{next_ticket_};
  cudaStream_t at = stream(lane);
  if (fence.ticket > kEvents) {
    STARLING_CUDA("record", lane, cudaEventSynchronize(event_of(fence.ticket)));
  }
  STARLING_CUDA("record", lane, cudaEventRecord(event_of(fence.ticket), at));
  event_lanes_[fence.ticket % kEvents] = lane;
  ++next_ticket_;
  return fence;
}

bool CudaDevice::reached(Fence fence) {
  STARLING_ASSERT(fence.ticket < next_ticket_);
  if (fence.ticket == 0 || !has_event(fence)) return true;
  use();
  const cudaError_t outcome = cudaEventQuery(event_of(fence.ticket));
  if (outcome != cudaErrorNotReady) {
    check_call(outcome, "reached", event_lanes_[fence.ticket % kEvents], "cudaEventQuery");
    return true;
  }
  const cudaError_t forgotten = cudaGetLastError();  // or a launch would find it
  (void)forgotten;
  return false;
}

void CudaDevice::hold(Lane lane, Fence fence) {
  STARLING_ASSERT(fence.ticket < next_ticket_);
  if (fence.ticket == 0 || !has_event(fence)) return;
  STARLING_CUDA("hold", lane, cudaStreamWaitEvent(stream(lane), event_of(fence.ticket), 0));
}

void CudaDevice::drain() {
  for (const Lane lane : {Lane::kCompute, Lane::kCopyOut, Lane::kCopyIn}) {
    STARLING_CUDA("drain", lane, cudaStreamSynchronize(stream(lane)));
  }
}

}  // namespace starling::cuda
