#include "peer/machine/busy_processors.h"

#include <doctest/doctest.h>

#include <chrono>
#include <ctime>
#include <vector>

#include "peer/io/clock.h"
#include "peer/machine/processors.h"

namespace starling::peer {

namespace {

// user nice system idle iowait irq softirq steal guest guest_nice
constexpr std::string_view kText =
    "cpu  300 30 30 5000 50 3 3 30 0 0\n"
    "cpu0 100 10 10 2000 20 1 1 10 90 0\n"
    "cpu1 200 20 20 3000 30 2 2 20 0 0\n"
    "cpu11 7 0 0 1 0 0 0 0 0 0\n"
    "intr 1 2 3\n";

}  // namespace

TEST_CASE("a processor is busy with all but idling and waiting for disks") {
  CHECK(busy_seconds(kText, std::vector<int>{0}, 100).value() == doctest::Approx(1.32));
  CHECK(busy_seconds(kText, std::vector<int>{0, 1}, 100).value() == doctest::Approx(3.96));
  CHECK(busy_seconds(kText, std::vector<int>{11}, 10).value() == doctest::Approx(0.7));
}

TEST_CASE("what the kernel does not tell is not known") {
  CHECK_FALSE(busy_seconds(kText, std::vector<int>{2}, 100).has_value());
  CHECK_FALSE(busy_seconds("", std::vector<int>{0}, 100).has_value());
  CHECK_FALSE(busy_seconds("\ncpu0 1 2 3\n", std::vector<int>{0}, 100).has_value());
  CHECK_FALSE(BusyProcessors({9999}).used_by_others().has_value());
}

TEST_CASE("what this process uses itself is not others'") {
  const std::vector<int> processors = processor_facts().allowed;
  const BusyProcessors busy(processors);
  const std::clock_t before = std::clock();  // of the process, which may have to wait for others
  const Instant start = now();
  while (now() < start + std::chrono::milliseconds(200)) continue;
  const auto used = busy.used_by_others();
  if (!used) return;  // a container whose /proc/stat knows them by other numbers
  const double own = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  constexpr double kTicks = 0.3;  // the kernel counts in them
  CHECK(*used < static_cast<double>(processors.size()) - own / seconds_since(start) + kTicks);
}

}  // namespace starling::peer
