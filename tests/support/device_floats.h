// Floats on a device, for tests that compare them on the host. Waits for all lanes.
#pragma once

#include <span>
#include <vector>

#include "base/device.h"

namespace starling::testing {

inline std::vector<float> floats_of(Device& device, DeviceSpan<const float> values) {
  std::vector<float> host(values.size);
  device.drain();
  device.copy_out(Lane::kCompute, std::as_writable_bytes(std::span(host)), values.bytes());
  device.drain();
  return host;
}

inline void put_floats(Device& device, DeviceSpan<float> target, std::span<const float> values) {
  device.copy_in(Lane::kCompute, target.bytes(), std::as_bytes(values));
  device.drain();
}

}  // namespace starling::testing
