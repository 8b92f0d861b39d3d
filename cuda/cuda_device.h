// CudaDevice: one GPU. A lane is a stream of its own, a fence one of a fixed number of events, and
// nothing is allocated after create() but by allocate(). Host memory that is copied from or to must
// come from allocate(kHostPinned) or pin(): with other memory CUDA makes the caller wait.
//
// Tickets count from 1. When the events have gone round, the oldest fence is waited for before its
// event is used again, so a ticket that has no event any more has been reached.
//
// Thread: as in base/device.h; any thread may be the trainer's, one at a time. Inside the module
// only.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/device.h"
#include "cuda/backend.h"
#include "cuda/cuda_check.h"

namespace starling::cuda {

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<CudaDevice>> create(int ordinal);
  ~CudaDevice() override;

  std::string_view name() const override { return title_; }
  Result<Buffer> allocate(MemoryKind kind, std::size_t bytes) override;
  void copy_out(Lane lane, std::span<std::byte> target,
                DeviceSpan<const std::byte> source) override;
  void copy_in(Lane lane, DeviceSpan<std::byte> target, std::span<const std::byte> source) override;
  void copy(Lane lane, DeviceSpan<std::byte> target, DeviceSpan<const std::byte> source) override;
  Fence record(Lane lane) override;
  bool reached(Fence fence) override;
  void hold(Lane lane, Fence fence) override;
  void drain() override;

  Result<Buffer> pin(std::span<std::byte> memory);  // start-up only; cuda/backend.h

  // For operations: their launches go there. Makes this GPU the one that this thread means.
  cudaStream_t stream(Lane lane);
  int ordinal() const noexcept { return ordinal_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  std::size_t shared_bytes_max() const noexcept { return static_cast<std::size_t>(shared_bytes_); }
  bool has_warpgroups() const noexcept;  // warpgroup_support.cuh; and whether the module has them

 private:
  static constexpr std::size_t kLanes = 3;
  static constexpr std::uint64_t kEvents = 1024;  // far more than are ever waited for at once

  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}
  cudaError_t open();
  void use() const;
  static cudaError_t keep_reserve(void* data);
  cudaEvent_t event_of(std::uint64_t ticket) const { return events_[ticket % kEvents]; }
  bool has_event(Fence fence) const noexcept { return fence.ticket + kEvents >= next_ticket_; }

  const int ordinal_;
  std::string title_;
  int multiprocessors_ = 0;
  int capability_ = 0;    // 90: 9.0
  int shared_bytes_ = 0;  // of a block that asks for all it may have
  std::array<cudaStream_t, kLanes> streams_{};
  std::array<cudaEvent_t, kEvents> events_{};
  std::array<Lane, kEvents> event_lanes_{};  // where each was recorded last
  std::uint64_t next_ticket_ = 1;
};

// What the driver says of this GPU, or why there is none.
Result<int> count_gpus();  // backend.h
Result<GpuFacts> ask_driver(int ordinal);

}  // namespace starling::cuda
