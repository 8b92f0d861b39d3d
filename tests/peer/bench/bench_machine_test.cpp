#include "peer/bench/bench_machine.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <utility>

#include "peer/machine/backend.h"

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

// What is measured of a GPU goes by the seams alone, so that any device will do.
void check_gpu(Backend backend) {
  const MachineSpeed speed =
      measure_gpu(backend, {.seconds = 0.001, .copy_bytes = std::size_t{3} << 20}).value();
  CHECK(speed.threads == 0);
  const bool in_bf16 = backend.compute == model::Compute::kBf16;
  CHECK((in_bf16 ? speed.bf16 : speed.fp32) > 1e6);
  CHECK((in_bf16 ? speed.fp32 : speed.bf16) == 0);
  CHECK((in_bf16 ? speed.bf16_loop : speed.fp32_loop).starts_with("product of matrices of "));
  CHECK((in_bf16 ? speed.fp32_loop : speed.bf16_loop).empty());
  CHECK(speed.copy_past == 0);
  CHECK(speed.copy > 1e6);
  CHECK(speed.bandwidth() == speed.copy);
  CHECK(speed.copy_bytes == std::size_t{3} << 20);
}

TEST_CASE("a GPU multiplies and copies, in the type that it is for") {
  check_gpu(make_backend("cpu", {.threads = 1}, ComputeType::kFp32).value());
  if (model::has_bf16()) check_gpu(make_backend("cpu", {.threads = 1}, ComputeType::kBf16).value());
}

TEST_CASE("a GPU without room for what is measured is none that was measured") {
  Backend backend = make_backend("cpu", {.threads = 1}, ComputeType::kFp32).value();
  const MachineProbe probe{.seconds = 0.001,
                           .copy_bytes = std::numeric_limits<std::size_t>::max() / 4};
  CHECK(measure_gpu(backend, probe).error().code() == ErrorCode::kExhausted);
}

}  // namespace
}  // namespace starling::peer
