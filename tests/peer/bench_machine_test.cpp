#include "peer/bench_machine.h"

#include <doctest/doctest.h>

namespace starling::peer {
namespace {

TEST_CASE("a machine computes and copies, with as many threads as it is asked for") {
  const MachineSpeed speed =
      measure_machine({.threads = 2, .seconds = 0.01, .copy_bytes = std::size_t{1} << 20});
  CHECK(speed.threads == 2);
  CHECK(speed.fp32 > 0);
  CHECK(!speed.fp32_loop.empty());
  CHECK(speed.bf16_loop.empty() == (speed.bf16 == 0));
  CHECK(speed.copy > 0);
  CHECK(speed.copy_past > 0);
  CHECK(speed.bandwidth() >= speed.copy);
  CHECK(speed.bandwidth() >= speed.copy_past);
  CHECK(speed.copy_bytes == std::size_t{1} << 20);
}

}  // namespace
}  // namespace starling::peer
