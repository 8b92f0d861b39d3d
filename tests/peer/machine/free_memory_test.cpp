#include "peer/machine/free_memory.h"

#include <doctest/doctest.h>

namespace starling::peer {

TEST_CASE("numbers are found in what the system tells") {
  constexpr const char* kInfo = "MemTotal:       24689860 kB\nMemAvailable:   123 kB\nEmpty:\n";
  CHECK(number_after(kInfo, "MemAvailable") == 123);
  CHECK(number_after("4096\n", "") == 4096);
  CHECK(!number_after("max\n", ""));
  CHECK(!number_after(kInfo, "SwapFree"));
  CHECK(!number_after("Empty:", "Empty"));
  CHECK(!number_after("", ""));
  CHECK(memory_available().value_or(0) > 0);
  CHECK(peak_memory() > 1'000'000);
}

}  // namespace starling::peer
