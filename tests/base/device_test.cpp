#include "base/device.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/cpu_device.h"

namespace starling {
namespace {

static_assert(!std::is_copy_constructible_v<Buffer>);
static_assert(!std::is_copy_assignable_v<Buffer>);

// A buffer of no device that counts its releases in `released`.
Buffer counted(int& released) {
  return Buffer(&released, sizeof(released), &released,
                [](void* device, void*, std::size_t) noexcept { ++*static_cast<int*>(device); });
}

Buffer allocate(CpuDevice& device, std::size_t bytes) {
  auto buffer = device.allocate(MemoryKind::kHostPinned, bytes);
  REQUIRE(buffer.ok());
  return std::move(buffer).value();
}

TEST_CASE("a buffer goes back to its device once, however often it moves") {
  int released = 0;
  {
    Buffer first = counted(released);
    Buffer second = std::move(first);
    Buffer third;
    third = std::move(second);
    CHECK(second.data() == nullptr);  // NOLINT: moved from, and empty by contract
    CHECK(third.bytes() == sizeof(released));
    CHECK(released == 0);
  }
  CHECK(released == 1);
}

TEST_CASE("a buffer that is assigned to gives its old memory back at once") {
  int released_old = 0;
  int released_new = 0;
  Buffer buffer = counted(released_old);
  buffer = counted(released_new);
  CHECK(released_old == 1);
  CHECK(released_new == 0);
}

TEST_CASE("memory of the CPU device is zero and aligned to 64 bytes") {
  CpuDevice device;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{3} << 20}) {
    CAPTURE(bytes);
    const Buffer buffer = allocate(device, bytes);
    CHECK(buffer.bytes() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    const auto memory = buffer.as<unsigned char>();
    CHECK(std::all_of(memory.data, memory.data + memory.size, [](auto b) { return b == 0; }));
  }
  CHECK(allocate(device, 0).data() == nullptr);
}

TEST_CASE("more memory than there is gives kExhausted") {
  CpuDevice device;
  const auto buffer =
      device.allocate(MemoryKind::kDevice, std::numeric_limits<std::size_t>::max() / 2);
  REQUIRE(!buffer.ok());
  CHECK(buffer.error().code() == ErrorCode::kExhausted);
}

TEST_CASE("what is copied within the device is there twice") {
  CpuDevice device;
  const Buffer buffer = allocate(device, 8);
  const auto whole = buffer.as<std::byte>();
  const std::array source{std::byte{1}, std::byte{2}, std::byte{3}};
  device.copy_in(Lane::kCompute, whole.subspan(0, 3), source);
  device.copy(Lane::kCompute, whole.subspan(4, 3), whole.subspan(0, 3));
  device.copy(Lane::kCompute, whole.subspan(8, 0), whole.subspan(0, 0));
  std::array<std::byte, 8> seen{};
  device.copy_out(Lane::kCompute, seen, whole);
  const std::array expected{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{},
                            std::byte{1}, std::byte{2}, std::byte{3}, std::byte{}};
  CHECK(seen == expected);
}

TEST_CASE("what is copied in comes out again, also through a part of a span") {
  CpuDevice device;
  const Buffer buffer = allocate(device, 8);
  const auto whole = buffer.as<std::byte>();
  const std::array<std::byte, 4> source{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  device.copy_in(Lane::kCopyIn, whole.subspan(2, 4), source);
  std::array<std::byte, 3> target{};
  device.copy_out(Lane::kCopyOut, target, whole.subspan(4, 3));
  CHECK(target == std::array<std::byte, 3>{std::byte{3}, std::byte{4}, std::byte{0}});
  CHECK(device.reached(device.record(Lane::kCopyOut)));
}

}  // namespace
}  // namespace starling
