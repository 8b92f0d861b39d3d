#include "base/cpu_device.h"

#include <sys/mman.h>

#include <cstring>
#include <string>

namespace starling {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

void unmap(void* /*device*/, void* data, std::size_t bytes) noexcept { ::munmap(data, bytes); }

}  // namespace

Result<Buffer> CpuDevice::allocate(MemoryKind kind, std::size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Error(ErrorCode::kExhausted, "no memory for " + std::to_string(bytes >> 20) +
                                            " MiB; make the model, the batch or a pool smaller");
  }
  if (bytes >= kHugePage) ::madvise(data, bytes, MADV_HUGEPAGE);  // only a hint
  // What other threads hand to the trainer must cost it no page fault when it is first touched.
  if (kind == MemoryKind::kHostPinned) std::memset(data, 0, bytes);
  return Buffer(data, bytes, nullptr, unmap);
}

void CpuDevice::copy_out(Lane /*lane*/, std::span<std::byte> target,
                         DeviceSpan<const std::byte> source) {
  STARLING_ASSERT(target.size() == source.size);
  if (source.size > 0) std::memcpy(target.data(), source.data, source.size);
}

void CpuDevice::copy_in(Lane /*lane*/, DeviceSpan<std::byte> target,
                        std::span<const std::byte> source) {
  STARLING_ASSERT(target.size == source.size());
  if (target.size > 0) std::memcpy(target.data, source.data(), target.size);
}

void CpuDevice::copy(Lane /*lane*/, DeviceSpan<std::byte> target,
                     DeviceSpan<const std::byte> source) {
  STARLING_ASSERT(target.size == source.size);
  if (target.size > 0) std::memcpy(target.data, source.data, source.size);
}

Fence CpuDevice::record(Lane /*lane*/) { return {}; }
bool CpuDevice::reached(Fence /*fence*/) { return true; }
void CpuDevice::hold(Lane /*lane*/, Fence /*fence*/) {}

}  // namespace starling
