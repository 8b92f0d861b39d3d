// Scratch: device memory that one operation at a time uses, and the next one overwrites. It grows
// where a call needs more than was reserved. Thread: the trainer's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/device.h"

namespace starling::cuda {

class Scratch {
 public:
  // `what` is for the message of a device that has no room, which ends the process if it grows.
  Scratch(Device& device, const char* what) : device_(&device), what_(what) {}

  // Exactly so much; kExhausted leaves nothing.
  Status reserve(std::size_t bytes) {
    if (bytes == buffer_.bytes()) return ok_status();
    ++moves_;
    if (buffer_.bytes() > 0) device_->drain();  // whoever uses the old one
    buffer_ = Buffer();
    Result<Buffer> room = device_->allocate(MemoryKind::kDevice, bytes);
    if (!room.ok()) {
      return std::move(room).error().with_context(std::string("scratch for ") + what_);
    }
    buffer_ = std::move(room).value();
    return ok_status();
  }

  unsigned moves() const { return moves_; }  // how often addresses of before became invalid

  template <class T>
  T* at_least(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes <= buffer_.bytes()) return static_cast<T*>(buffer_.data());
    if (const Status grown = reserve(bytes); !grown.ok()) {
      assertion_failed(grown.error().describe().c_str(), __FILE__, __LINE__);
    }
    return static_cast<T*>(buffer_.data());
  }

 private:
  Device* device_;
  const char* what_;
  Buffer buffer_;
  unsigned moves_ = 0;
};

}  // namespace starling::cuda
