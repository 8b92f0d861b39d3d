// SlotPool: a fixed number of equal buffers, and the three states a buffer can be in.
//
//   free    in the pool
//   leased  SlotLease: one owner, writable, move-only
//   frozen  FrozenSlot: shared, read-only, counted; made from a lease, with no way back
//
// A slot goes home by destructor, from any thread: that is what makes a library's free callback
// harmless. A pool is a budget: when none is free, the caller skips and counts, it never waits.
// The pool must outlive every lease and frozen slot; its destructor asserts that all came home.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/device.h"

namespace starling {

class SlotPool;

class SlotLease {
 public:
  SlotLease(SlotLease&& other) noexcept;
  SlotLease& operator=(SlotLease&& other) noexcept;
  SlotLease(const SlotLease&) = delete;
  SlotLease& operator=(const SlotLease&) = delete;
  ~SlotLease();

  std::span<std::byte> bytes() noexcept;
  std::span<float> floats() noexcept;

 private:
  friend class SlotPool;
  friend class FrozenSlot;
  SlotLease(SlotPool* pool, std::uint32_t index) noexcept : pool_(pool), index_(index) {}
  SlotPool* pool_;  // null: moved from
  std::uint32_t index_;
};

class FrozenSlot {
 public:
  FrozenSlot() noexcept = default;  // empty
  // Only the first `used` bytes can be read from now on.
  FrozenSlot(SlotLease&& lease, std::size_t used) noexcept;
  FrozenSlot(const FrozenSlot& other) noexcept;
  FrozenSlot& operator=(const FrozenSlot& other) noexcept;
  FrozenSlot(FrozenSlot&& other) noexcept;
  FrozenSlot& operator=(FrozenSlot&& other) noexcept;
  ~FrozenSlot();

  explicit operator bool() const noexcept { return pool_ != nullptr; }
  std::span<const std::byte> bytes() const noexcept;
  std::span<const float> floats() const noexcept;

 private:
  SlotPool* pool_ = nullptr;  // null: empty
  std::uint32_t index_ = 0;
  std::size_t used_ = 0;
};

class SlotPool {
 public:
  // `storage` holds `slots` buffers of storage.bytes() / slots bytes each, rounded down to 64.
  SlotPool(Buffer storage, std::uint32_t slots);
  ~SlotPool();
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;

  // Any thread; never blocks.
  std::optional<SlotLease> try_acquire() noexcept;
  std::uint32_t free_count() const noexcept { return free_.load(std::memory_order_relaxed); }
  std::uint32_t slots() const noexcept { return slots_; }
  std::size_t slot_bytes() const noexcept { return slot_bytes_; }

 private:
  friend class SlotLease;
  friend class FrozenSlot;
  std::byte* slot(std::uint32_t index) const noexcept;
  void retain(std::uint32_t index) noexcept;
  void release(std::uint32_t index) noexcept;

  Buffer storage_;
  const std::uint32_t slots_;
  const std::size_t slot_bytes_;
  // Per slot: 0 free, otherwise the number of owners.
  std::unique_ptr<std::atomic<std::uint32_t>[]> owners_;
  std::atomic<std::uint32_t> free_;
};

}  // namespace starling
