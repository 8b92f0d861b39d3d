#include "base/slot_pool.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "base/cpu_device.h"

namespace starling {

static_assert(!std::is_copy_constructible_v<SlotLease>);
static_assert(!std::is_move_constructible_v<SlotPool>);

namespace {
Buffer storage(CpuDevice& device, std::size_t bytes) {
  return device.allocate(MemoryKind::kHostPinned, bytes).value();
}
}  // namespace

TEST_CASE("a pool hands out each slot once and takes it back by destructor") {
  CpuDevice device;
  SlotPool pool(storage(device, 256), 2);
  {
    auto first = pool.try_acquire();
    auto second = pool.try_acquire();
    REQUIRE(first.has_value());
    REQUIRE(second.has_value());
    CHECK(first->bytes().data() != second->bytes().data());
    CHECK(!pool.try_acquire().has_value());
    CHECK(pool.free_count() == 0);
  }
  CHECK(pool.free_count() == 2);
}

TEST_CASE("a frozen slot goes home when its last owner lets go") {
  CpuDevice device;
  SlotPool pool(storage(device, 128), 1);
  auto lease = pool.try_acquire();
  lease->floats()[0] = 2.5F;
  FrozenSlot frozen(std::move(*lease), 4);
  FrozenSlot copy = frozen;
  frozen = FrozenSlot();
  CHECK(pool.free_count() == 0);
  CHECK(copy.floats().size() == 1);
  CHECK(copy.floats()[0] == 2.5F);
  FrozenSlot last = std::move(copy);
  CHECK(pool.free_count() == 0);
  last = FrozenSlot();
  CHECK(pool.free_count() == 1);
}

TEST_CASE("slots may be acquired and dropped by many threads at once") {
  CpuDevice device;
  SlotPool pool(storage(device, 64 * 8), 8);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 20000; ++i) {
        auto lease = pool.try_acquire();
        if (pool.free_count() > 8) std::abort();
        if (!lease) continue;
        lease->floats()[0] = static_cast<float>(t);
        FrozenSlot frozen(std::move(*lease), 4);
        FrozenSlot copy = frozen;
        if (copy.floats()[0] != static_cast<float>(t)) std::abort();
      }
    });
  }
  threads.clear();
  CHECK(pool.free_count() == 8);
}

}  // namespace starling
