// Scratch: device memory that one operation at a time uses, and the next one overwrites. It grows
// where a call needs more: in the first step, not after it. Thread: the trainer's.
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
  // `what` is for the message of a device that has no room, which ends the process.
  Scratch(Device& device, const char* what) : device_(&device), what_(what) {}

  template <class T>
  T* at_least(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > buffer_.bytes()) grow(bytes);
    return static_cast<T*>(buffer_.data());
  }

 private:
  void grow(std::size_t bytes) {
    device_->drain();  // whoever uses the old one
    buffer_ = Buffer();
    Result<Buffer> grown = device_->allocate(MemoryKind::kDevice, bytes);
    if (!grown.ok()) {
      const Error error =
          std::move(grown).error().with_context(std::string("scratch for ") + what_);
      assertion_failed(error.describe().c_str(), __FILE__, __LINE__);
    }
    buffer_ = std::move(grown).value();
  }

  Device* device_;
  const char* what_;
  Buffer buffer_;
};

}  // namespace starling::cuda
