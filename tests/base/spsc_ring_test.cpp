#include "base/spsc_ring.h"

#include <doctest/doctest.h>

#include <memory>
#include <thread>

namespace starling {

TEST_CASE("a full ring refuses and leaves the value with the caller") {
  SpscRing<std::unique_ptr<int>> ring(1);
  CHECK(ring.try_push(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  CHECK(!ring.try_push(std::move(second)));
  REQUIRE(second != nullptr);
  CHECK(**ring.try_pop() == 1);
  CHECK(!ring.try_pop().has_value());
}

TEST_CASE("values cross threads in order, none lost, with the bell for sleeping") {
  SpscRing<int> ring(16);
  Doorbell bell;
  constexpr int kValues = 100000;
  std::jthread producer([&] {
    for (int i = 0; i < kValues; ++i) {
      while (!ring.try_push(int{i})) std::this_thread::yield();
      bell.ring();
    }
  });
  for (int expected = 0; expected < kValues;) {
    const auto seen = bell.observe();
    if (auto value = ring.try_pop()) {
      REQUIRE(*value == expected);
      ++expected;
    } else {
      bell.wait_past(seen);
    }
  }
}

}  // namespace starling
