#include "base/slot_pool.h"

#include <utility>

namespace starling {

namespace {
constexpr std::size_t kSlotAlignment = 64;
}

SlotLease::SlotLease(SlotLease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_) {}

SlotLease& SlotLease::operator=(SlotLease&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ != nullptr) pool_->release(index_);
  pool_ = std::exchange(other.pool_, nullptr);
  index_ = other.index_;
  return *this;
}

SlotLease::~SlotLease() {
  if (pool_ != nullptr) pool_->release(index_);
}

std::span<std::byte> SlotLease::bytes() noexcept {
  STARLING_ASSERT(pool_ != nullptr);
  return {pool_->slot(index_), pool_->slot_bytes()};
}

std::span<float> SlotLease::floats() noexcept {
  STARLING_ASSERT(pool_ != nullptr);
  return {reinterpret_cast<float*>(pool_->slot(index_)), pool_->slot_bytes() / sizeof(float)};
}

FrozenSlot::FrozenSlot(SlotLease&& lease, std::size_t used) noexcept
    : pool_(std::exchange(lease.pool_, nullptr)), index_(lease.index_), used_(used) {
  STARLING_ASSERT(pool_ != nullptr);
  STARLING_ASSERT(used_ <= pool_->slot_bytes());
}

FrozenSlot::FrozenSlot(const FrozenSlot& other) noexcept
    : pool_(other.pool_), index_(other.index_), used_(other.used_) {
  if (pool_ != nullptr) pool_->retain(index_);
}

FrozenSlot& FrozenSlot::operator=(const FrozenSlot& other) noexcept {
  if (this != &other) *this = FrozenSlot(other);
  return *this;
}

FrozenSlot::FrozenSlot(FrozenSlot&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), index_(other.index_), used_(other.used_) {}

FrozenSlot& FrozenSlot::operator=(FrozenSlot&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ != nullptr) pool_->release(index_);
  pool_ = std::exchange(other.pool_, nullptr);
  index_ = other.index_;
  used_ = other.used_;
  return *this;
}

FrozenSlot::~FrozenSlot() {
  if (pool_ != nullptr) pool_->release(index_);
}

std::span<const std::byte> FrozenSlot::bytes() const noexcept {
  if (pool_ == nullptr) return {};
  return {pool_->slot(index_), used_};
}

std::span<const float> FrozenSlot::floats() const noexcept {
  if (pool_ == nullptr) return {};
  return {reinterpret_cast<const float*>(pool_->slot(index_)), used_ / sizeof(float)};
}

SlotPool::SlotPool(Buffer storage, std::uint32_t slots)
    : storage_(std::move(storage)),
      slots_(slots),
      slot_bytes_(slots == 0 ? 0 : storage_.bytes() / slots / kSlotAlignment * kSlotAlignment),
      owners_(std::make_unique<std::atomic<std::uint32_t>[]>(slots)),
      free_(slots) {}

SlotPool::~SlotPool() { STARLING_ASSERT(free_.load() == slots_); }

std::optional<SlotLease> SlotPool::try_acquire() noexcept {
  std::uint32_t free = free_.load(std::memory_order_relaxed);
  do {
    if (free == 0) return std::nullopt;
  } while (!free_.compare_exchange_weak(free, free - 1, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  // No slot is counted before it is free, so there is one for whoever took it from the count, be it
  // one that came back behind the search. Always from the first: few slots stay in use, and those
  // stay in the caches.
  for (std::uint32_t index = 0;; index = (index + 1) % slots_) {
    std::uint32_t nobody = 0;
    if (owners_[index].compare_exchange_strong(nobody, 1, std::memory_order_acquire)) {
      return SlotLease(this, index);
    }
  }
}

std::byte* SlotPool::slot(std::uint32_t index) const noexcept {
  return static_cast<std::byte*>(storage_.data()) + std::size_t{index} * slot_bytes_;
}

void SlotPool::retain(std::uint32_t index) noexcept {
  owners_[index].fetch_add(1, std::memory_order_relaxed);
}

void SlotPool::release(std::uint32_t index) noexcept {
  if (owners_[index].fetch_sub(1, std::memory_order_acq_rel) == 1) {
    free_.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace starling
