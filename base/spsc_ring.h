// SpscRing<T>: a bounded queue between exactly one producing and one consuming thread. Values move
// in and out; a full ring refuses (the value stays with the caller), an empty one returns nothing.
// Wait-free: no lock, no allocation after construction. Destroying the ring destroys what is in it.
//
// Doorbell: how a thread that owns no event loop sleeps until rung. Ringing never blocks and may
// come from any thread. The order is observe(), look for work, wait_past(): a ring in between is
// not lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace starling {

template <class T>
class SpscRing {
 public:
  explicit SpscRing(std::uint32_t capacity)
      : capacity_(capacity), cells_(std::make_unique<std::optional<T>[]>(capacity)) {
    STARLING_ASSERT(capacity > 0);
  }
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  // Producer only. On failure `value` is untouched.
  [[nodiscard]] bool try_push(T&& value) noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == capacity_) return false;
    cells_[tail % capacity_].emplace(std::move(value));
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Consumer only.
  [[nodiscard]] std::optional<T> try_pop() noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return std::nullopt;
    std::optional<T> value(std::move(cells_[head % capacity_]));
    cells_[head % capacity_].reset();
    head_.store(head + 1, std::memory_order_release);
    return value;
  }

  // Any thread; exact only for the producer (may shrink meanwhile) and the consumer (may grow).
  std::uint32_t size() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(tail_.load(std::memory_order_acquire) - head);
  }
  std::uint32_t capacity() const noexcept { return capacity_; }

 private:
  const std::uint32_t capacity_;
  std::unique_ptr<std::optional<T>[]> cells_;
  alignas(64) std::atomic<std::uint64_t> head_{0};  // written by the consumer
  alignas(64) std::atomic<std::uint64_t> tail_{0};  // written by the producer
};

class Doorbell {
 public:
  void ring() noexcept {
    rings_.fetch_add(1, std::memory_order_release);
    rings_.notify_all();
  }
  std::uint32_t observe() const noexcept { return rings_.load(std::memory_order_acquire); }
  void wait_past(std::uint32_t seen) const noexcept {
    rings_.wait(seen, std::memory_order_acquire);
  }

 private:
  std::atomic<std::uint32_t> rings_{0};
};

}  // namespace starling
