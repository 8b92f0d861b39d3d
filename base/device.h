// Device: memory and order on one compute device, and nothing else (arithmetic is in
// optim/flat_ops.h and model/layer_ops.h). Work is enqueued on lanes; a Fence marks a place in a
// lane. On the CPU every call completes before it returns and every fence is reached at once.
//
// Thread: the trainer's, except allocate() and drain(), which are for start and shutdown.
// Errors: allocate() reports kExhausted; a failure in a running lane ends the process with the
// operation named, because a device in an unknown state cannot go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/assert.h"
#include "base/result.h"

namespace starling {

enum class Lane : std::uint8_t { kCompute, kCopyOut, kCopyIn };
enum class MemoryKind : std::uint8_t { kDevice, kHostPinned };

// A range of device memory. No operator[]: the host cannot read device memory by accident.
template <class T>
struct DeviceSpan {
  T* data = nullptr;
  std::size_t size = 0;

  DeviceSpan subspan(std::size_t first, std::size_t count) const {
    STARLING_ASSERT(first <= size);
    STARLING_ASSERT(count <= size - first);
    return {data + first, count};
  }
  operator DeviceSpan<const T>() const { return {data, size}; }  // NOLINT: implicit
  // The same memory.
  auto bytes() const {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return DeviceSpan<Byte>{reinterpret_cast<Byte*>(data), size * sizeof(T)};
  }
};

struct Fence {
  std::uint64_t ticket = 0;
};

// Owns one allocation, zero-filled, aligned to 64 bytes; returned to its device by destructor, so
// it must not outlive the device. Move-only.
class Buffer {
 public:
  using Release = void (*)(void* device, void* data, std::size_t bytes) noexcept;

  Buffer() noexcept = default;
  Buffer(void* data, std::size_t bytes, void* device, Release release) noexcept
      : data_(data), bytes_(bytes), device_(device), release_(release) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  template <class T>
  DeviceSpan<T> as() const noexcept {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  void* device_ = nullptr;
  Release release_ = nullptr;
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;
  virtual Result<Buffer> allocate(MemoryKind kind, std::size_t bytes) = 0;  // start-up only
  virtual void copy_out(Lane lane, std::span<std::byte> target,
                        DeviceSpan<const std::byte> source) = 0;
  virtual void copy_in(Lane lane, DeviceSpan<std::byte> target,
                       std::span<const std::byte> source) = 0;
  // Within the device's memory.
  virtual void copy(Lane lane, DeviceSpan<std::byte> target,
                    DeviceSpan<const std::byte> source) = 0;
  virtual Fence record(Lane lane) = 0;
  virtual bool reached(Fence fence) = 0;          // never blocks
  virtual void hold(Lane lane, Fence fence) = 0;  // on the device: `lane` waits for `fence`
  virtual void drain() = 0;                       // blocks; start-up, shutdown, tests only
};

}  // namespace starling
