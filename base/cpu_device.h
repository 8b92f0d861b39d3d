// CpuDevice: the trivial Device. Lanes are program order, device memory is host memory, and every
// fence is reached when record() returns. Any thread may call it.
#pragma once

#include "base/device.h"

namespace starling {

class CpuDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  Result<Buffer> allocate(MemoryKind kind, std::size_t bytes) override;
  void copy_out(Lane lane, std::span<std::byte> target,
                DeviceSpan<const std::byte> source) override;
  void copy_in(Lane lane, DeviceSpan<std::byte> target, std::span<const std::byte> source) override;
  void copy(Lane lane, DeviceSpan<std::byte> target, DeviceSpan<const std::byte> source) override;
  Fence record(Lane lane) override;
  bool reached(Fence fence) override;
  void hold(Lane lane, Fence fence) override;
  void drain() override {}
};

}  // namespace starling
