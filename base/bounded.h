// BoundedList<T, N>: at most N values, in place, no allocation. What messages are made of, so that
// no decoded size can hurt us. Pushing onto a full list is refused, not fatal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"

namespace starling {

template <class T, std::size_t kCapacity>
class BoundedList {
 public:
  static constexpr std::size_t capacity() noexcept { return kCapacity; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == kCapacity; }

  [[nodiscard]] bool try_push(const T& value) noexcept {
    if (full()) return false;
    values_[size_++] = value;
    return true;
  }
  void clear() noexcept { size_ = 0; }
  void pop_back() {
    STARLING_ASSERT(size_ > 0);
    --size_;
  }

  T& operator[](std::size_t index) {
    STARLING_ASSERT(index < size_);
    return values_[index];
  }
  const T& operator[](std::size_t index) const {
    STARLING_ASSERT(index < size_);
    return values_[index];
  }
  T* begin() noexcept { return values_.data(); }
  T* end() noexcept { return values_.data() + size_; }
  const T* begin() const noexcept { return values_.data(); }
  const T* end() const noexcept { return values_.data() + size_; }

  friend bool operator==(const BoundedList& left, const BoundedList& right) {
    if (left.size_ != right.size_) return false;
    for (std::size_t i = 0; i < left.size_; ++i) {
      if (!(left.values_[i] == right.values_[i])) return false;
    }
    return true;
  }

 private:
  std::array<T, kCapacity> values_{};
  std::size_t size_ = 0;
};

}  // namespace starling
