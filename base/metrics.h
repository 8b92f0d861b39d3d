// Counter and Gauge: numbers that one thread writes and any thread reads. Relaxed atomics: a reader
// sees a recent value, never a torn one, and costs the writer nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace starling {

class Counter {  // only grows; one writer
 public:
  void add(std::uint64_t count = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

class Gauge {  // goes up and down; one writer
 public:
  void set(double value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(double value) noexcept { set(this->value() + value); }
  double value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Set once by any thread, read by any: "please stop", "has finished".
class Flag {
 public:
  void raise() noexcept { raised_.store(true, std::memory_order_release); }
  bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> raised_{false};
};

}  // namespace starling
