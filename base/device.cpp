#include "base/device.h"

#include <utility>

namespace starling {

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(std::exchange(other.device_, nullptr)),
      release_(std::exchange(other.release_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (release_ != nullptr) release_(device_, data_, bytes_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  device_ = std::exchange(other.device_, nullptr);
  release_ = std::exchange(other.release_, nullptr);
  return *this;
}

Buffer::~Buffer() {
  if (release_ != nullptr) release_(device_, data_, bytes_);
}

}  // namespace starling
