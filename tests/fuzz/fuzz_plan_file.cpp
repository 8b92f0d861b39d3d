// Feeds what `starling plan` reads to its readers: by the first byte the description of machines,
// or a file of measurements that one names. The numbers that are taken must be ones to plan with.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/assert.h"
#include "peer/swarm/swarm_plan_file.h"

namespace {

using namespace starling::peer;

void check_amount(const std::optional<double>& amount) {
  STARLING_ASSERT(!amount || (std::isfinite(*amount) && *amount >= 0));
}

void check(const PlanMachine& machine) {
  check_amount(machine.tokens_per_second);
  check_amount(machine.memory_gb);
  check_amount(machine.gpu_memory_gb);
  check_amount(machine.upload_mbit);
  check_amount(machine.download_mbit);
  check_amount(machine.round_trip_ms);
  check_amount(machine.gigabytes_per_day);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    PlanMachine machine;
    static_cast<void>(add_measured(text, machine));
    check(machine);
    return 0;
  }
  auto plan = parse_plan_file(text, "fuzz", "/nowhere");
  if (!plan.ok()) return 0;
  std::uint64_t machines = 0;
  for (const PlanMachine& machine : plan.value().machines) {
    check(machine);
    machines += machine.count;
  }
  STARLING_ASSERT(machines > 0 && machines <= kPlannedMax);
  return 0;
}
