#include "tests/support/far_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/hash.h"

namespace starling::testing {

namespace {

std::byte* map_pages(int descriptor, std::size_t bytes, int protection) {
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  STARLING_ASSERT(data != MAP_FAILED);
  return static_cast<std::byte*>(data);
}

}  // namespace

FarDevice::~FarDevice() { STARLING_ASSERT(memory_.empty()); }

Result<Buffer> FarDevice::allocate(MemoryKind kind, std::size_t bytes) {
  if (bytes == 0) return Buffer();
  const bool pinned = kind == MemoryKind::kHostPinned;
  const int descriptor = ::memfd_create("far", 0);
  STARLING_ASSERT(descriptor >= 0);
  STARLING_ASSERT(::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0);
  std::byte* near = map_pages(descriptor, bytes, PROT_READ | PROT_WRITE);
  std::byte* data = pinned ? near : map_pages(descriptor, bytes, PROT_NONE);
  ::close(descriptor);
  memory_[data] = {near, bytes, pinned};
  return Buffer(data, bytes, this, pinned ? release_pinned : release_far);
}

void FarDevice::release_far(void* device, void* data, std::size_t bytes) noexcept {
  auto& self = *static_cast<FarDevice*>(device);
  self.drain();  // what is enqueued may use it
  const auto found = self.memory_.find(static_cast<std::byte*>(data));
  ::munmap(found->second.near, bytes);
  release_pinned(device, data, bytes);
}

void FarDevice::release_pinned(void* device, void* data, std::size_t bytes) noexcept {
  unpin(device, data, bytes);
  ::munmap(data, bytes);
}

Buffer FarDevice::pin(std::span<std::byte> memory) {
  memory_[memory.data()] = {memory.data(), memory.size(), true};
  return Buffer(memory.data(), memory.size(), this, unpin);
}

void FarDevice::unpin(void* device, void* data, std::size_t /*bytes*/) noexcept {
  auto& self = *static_cast<FarDevice*>(device);
  self.drain();
  self.memory_.erase(static_cast<std::byte*>(data));
}

const FarDevice::Memory* FarDevice::find(const void* data, std::size_t bytes) const {
  const auto* at = static_cast<const std::byte*>(data);
  auto after = memory_.upper_bound(at);
  if (after == memory_.begin()) return nullptr;
  --after;
  const auto offset = static_cast<std::size_t>(at - after->first);
  return offset + bytes <= after->second.bytes ? &after->second : nullptr;
}

bool FarDevice::is_pinned(const void* data, std::size_t bytes) const {
  const Memory* memory = find(data, bytes);
  return memory != nullptr && memory->pinned;
}

void* FarDevice::near(const void* data, std::size_t bytes) const {
  if (bytes == 0) return nullptr;
  const Memory* memory = find(data, bytes);
  STARLING_ASSERT(memory != nullptr);  // the device cannot reach it
  const auto* at = static_cast<const std::byte*>(data);
  const std::byte* first = std::prev(memory_.upper_bound(at))->first;
  return memory->near + (at - first);
}

std::function<void()> FarDevice::unchanged(const void* data, std::size_t bytes) const {
  if (!is_pinned(data, bytes)) return [] {};
  const std::span<const std::byte> seen(static_cast<const std::byte*>(data), bytes);
  return [seen, before = digest(seen)] { STARLING_ASSERT(digest(seen) == before); };
}

void FarDevice::copy_out(Lane lane, std::span<std::byte> target,
                         DeviceSpan<const std::byte> source) {
  STARLING_ASSERT(target.size() == source.size);
  if (target.empty()) return;
  const std::byte* from = near(source.data, source.size);
  const bool waits = !is_pinned(target.data(), target.size());
  if (!waits) std::memset(target.data(), 0xFF, target.size());  // whoever reads it now reads NaN
  enqueue(lane, [target, from] { std::memcpy(target.data(), from, target.size()); });
  if (!waits) return;
  ++waits_;
  work_through(lane);
}

void FarDevice::copy_in(Lane lane, DeviceSpan<std::byte> target,
                        std::span<const std::byte> source) {
  STARLING_ASSERT(target.size == source.size());
  if (source.empty()) return;
  std::byte* to = near(target.data, target.size);
  if (is_pinned(source.data(), source.size())) {
    enqueue(lane, [to, source, same = unchanged(source.data(), source.size())] {
      same();
      std::memcpy(to, source.data(), source.size());
    });
    return;
  }
  ++waits_;
  std::vector<std::byte> staged(source.begin(), source.end());
  enqueue(lane,
          [to, staged = std::move(staged)] { std::memcpy(to, staged.data(), staged.size()); });
}

void FarDevice::copy(Lane lane, DeviceSpan<std::byte> target, DeviceSpan<const std::byte> source) {
  STARLING_ASSERT(target.size == source.size);
  if (target.size == 0) return;
  std::byte* to = near(target.data, target.size);
  const std::byte* from = near(source.data, source.size);
  enqueue(lane, [to, from, bytes = source.size] { std::memcpy(to, from, bytes); });
}

void FarDevice::enqueue(Lane lane, std::function<void()> work) {
  tasks(lane).push_back({.work = std::move(work)});
}

Fence FarDevice::record(Lane lane) {
  const std::uint64_t ticket = next_ticket_++;
  open_.insert(ticket);
  tasks(lane).push_back({.work = {}, .mark = ticket});
  return {ticket};
}

void FarDevice::hold(Lane lane, Fence fence) {
  STARLING_ASSERT(fence.ticket < next_ticket_);
  tasks(lane).push_back({.work = {}, .mark = 0, .held_by = fence.ticket});
}

bool FarDevice::advance(std::size_t lane) {
  std::deque<Task>& queue = lanes_[lane];
  if (queue.empty()) return false;
  if (open_.contains(queue.front().held_by)) return false;
  const Task task = std::move(queue.front());
  queue.pop_front();
  if (task.work) task.work();
  open_.erase(task.mark);
  return true;
}

bool FarDevice::reached(Fence fence) {
  STARLING_ASSERT(fence.ticket < next_ticket_);
  for (std::uint64_t tasks = rng_.below(6); tasks > 0; --tasks) advance(rng_.below(kLanes));
  return !open_.contains(fence.ticket);
}

// Others too: they may be what the lane holds for.
void FarDevice::work_through(Lane lane) {
  while (!tasks(lane).empty()) {
    if (advance(static_cast<std::size_t>(lane))) continue;
    bool moved = false;
    for (std::size_t other = 0; other < kLanes; ++other) moved = advance(other) || moved;
    STARLING_ASSERT(moved);  // or lanes hold for each other
  }
}

void FarDevice::drain() {
  for (const Lane lane : {Lane::kCompute, Lane::kCopyOut, Lane::kCopyIn}) work_through(lane);
}

}  // namespace starling::testing
