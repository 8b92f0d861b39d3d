// FarDevice: a Device that is as strict as a GPU, for tests where there is none. Device memory is
// an address range that nobody may touch: only the device's own operations know where its bytes
// are. What is enqueued on a lane is done later and bit by bit, lanes in an order drawn from a
// seed, so a fence is reached only by asking again, and a lane that should hold for another one is
// overtaken.
//
// Ends the process, as a fault would show on a GPU: host memory that is not pinned where the device
// reads it, pinned memory that changed between an enqueued read and the read, spans of no
// allocation. What a copy to pinned memory will fill is NaN until then. Copies from and to other
// host memory make the caller wait, as CUDA does, and are counted.
//
// Thread: as base/device.h says; nothing is locked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/device.h"
#include "base/rng.h"
#include "model/layer_ops.h"
#include "optim/flat_ops.h"

namespace starling::testing {

class FarDevice final : public Device {
 public:
  explicit FarDevice(std::uint64_t seed, int ordinal = 0)
      : title_("cuda:" + std::to_string(ordinal) + ", far"), rng_(seed) {}
  ~FarDevice() override;

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

  Buffer pin(std::span<std::byte> memory);  // cuda/backend.h

  // For operations: where the bytes of a span are for the device. Pinned memory is there for both;
  // what is read of it must not change before `work` was done.
  void enqueue(Lane lane, std::function<void()> work);
  void* near(const void* data, std::size_t bytes) const;
  template <class T>
  T* near(T* data, std::size_t count) const {
    return static_cast<T*>(near(static_cast<const void*>(data), count * sizeof(T)));
  }
  // Asserts, when it is called again, that pinned memory is as it was; nothing for the device's.
  std::function<void()> unchanged(const void* data, std::size_t bytes) const;

  // Copies that made the caller wait, because their host memory was not pinned.
  std::uint64_t waits() const noexcept { return waits_; }

 private:
  static constexpr std::size_t kLanes = 3;
  struct Memory {
    std::byte* near = nullptr;  // for pinned memory the same address
    std::size_t bytes = 0;
    bool pinned = false;
  };
  struct Task {
    std::function<void()> work;  // empty: a mark or a hold
    std::uint64_t mark = 0;      // a ticket that is reached here
    std::uint64_t held_by = 0;   // a ticket that must be reached before
  };

  static void release_far(void* device, void* data, std::size_t bytes) noexcept;
  static void release_pinned(void* device, void* data, std::size_t bytes) noexcept;
  static void unpin(void* device, void* data, std::size_t bytes) noexcept;
  const Memory* find(const void* data, std::size_t bytes) const;
  bool is_pinned(const void* data, std::size_t bytes) const;
  std::deque<Task>& tasks(Lane lane) { return lanes_[static_cast<std::size_t>(lane)]; }
  bool advance(std::size_t lane);  // by one task; false: none, or it holds
  void work_through(Lane lane);

  const std::string title_;
  Rng rng_;
  std::map<const std::byte*, Memory> memory_;  // by address, as others know it
  std::array<std::deque<Task>, kLanes> lanes_;
  std::set<std::uint64_t> open_;  // tickets that are not reached
  std::uint64_t next_ticket_ = 1;
  std::uint64_t waits_ = 0;
};

// The CPU's operations, done by the device when their turn comes. `device` outlives them.
std::unique_ptr<optim::FlatOps> make_far_flat_ops(FarDevice& device,
                                                  std::unique_ptr<optim::FlatOps> ops);
std::unique_ptr<model::LayerOps> make_far_layer_ops(FarDevice& device,
                                                    std::unique_ptr<model::LayerOps> ops);

}  // namespace starling::testing
