#include "peer/memory_plan.h"

#include <doctest/doctest.h>

namespace starling::peer {

TEST_CASE("a memory plan names every part and their sum") {
  MemoryPlan plan;
  plan.add("parameters", 3 << 20, true);
  plan.add("slots", 512 << 10);
  CHECK(plan.total() == (3 << 20) + (512 << 10));
  CHECK(plan.device_total() == 3 << 20);
  CHECK(plan.describe() == "parameters 3.0 MiB, slots 0.5 MiB, 3.5 MiB in all");
}

}  // namespace starling::peer
