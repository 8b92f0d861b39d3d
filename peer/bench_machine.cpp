#include "peer/bench_machine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "model/cpu_limits.h"
#include "peer/clock.h"
#include "peer/doctor_machine.h"

namespace starling::peer {

namespace {

constexpr std::size_t kCopyBytesMin = std::size_t{64} << 20, kCopyBytesMax = std::size_t{512} << 20;
constexpr double kTurnSeconds = 0.02;  // long beside the start of a thread
constexpr int kTurnsMin = 3;

// On so many threads at once, this one among them; until all are done.
template <class Work>
void on_threads(int threads, const Work& work) {
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread)
    others.emplace_back([&, thread] { work(thread); });
  work(0);
  for (std::thread& other : others) other.join();
}

// The shortest of turns over `seconds`.
template <class Turn>
double best_seconds(double seconds, const Turn& turn) {
  double best = 0;
  const Instant begin = now();
  for (int turns = 0; turns < kTurnsMin || seconds_since(begin) < seconds; ++turns) {
    const Instant start = now();
    turn();
    const double passed = seconds_since(start);
    best = turns == 0 ? passed : std::min(best, passed);
  }
  return best;
}

std::int64_t rounds_for(const model::ComputeLoop& loop, double seconds) {
  std::int64_t rounds = 1000;
  while (true) {
    const Instant start = now();
    const float result = loop.run(rounds);
    const double passed = seconds_since(start);
    if (!(result >= 0)) return rounds;  // never: keeps the result needed
    if (passed >= seconds / 4) {
      return static_cast<std::int64_t>(static_cast<double>(rounds) * seconds / passed) + 1;
    }
    rounds *= 2;
  }
}

std::pair<double, std::string> fastest(const std::vector<model::ComputeLoop>& loops,
                                       const MachineProbe& probe) {
  std::pair<double, std::string> best{0.0, ""};
  for (const model::ComputeLoop& loop : loops) {
    const std::int64_t rounds = rounds_for(loop, std::min(kTurnSeconds, probe.seconds));
    std::vector<float> results(static_cast<std::size_t>(probe.threads));
    const double seconds = best_seconds(probe.seconds / static_cast<double>(loops.size()), [&] {
      on_threads(probe.threads,
                 [&](int thread) { results[static_cast<std::size_t>(thread)] = loop.run(rounds); });
    });
    const double speed = loop.operations * static_cast<double>(rounds) * probe.threads / seconds;
    if (speed > best.first) best = {speed, std::string(loop.name)};
  }
  return best;
}

std::size_t beyond_caches() {
  const auto cache = static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_LEVEL3_CACHE_SIZE)));
  const std::size_t wanted = std::clamp(2 * cache, kCopyBytesMin, kCopyBytesMax);
  const auto available = memory_available();
  return available ? std::min<std::size_t>(wanted, *available / 8) : wanted;
}

double copy_speed(const MachineProbe& probe, std::span<float> target, std::span<const float> source,
                  void (*copy)(float*, const float*, std::size_t)) {
  const auto threads = static_cast<std::size_t>(probe.threads);
  const std::size_t share = target.size() / threads;
  const double seconds = best_seconds(probe.seconds, [&] {
    on_threads(probe.threads, [&](int thread) {
      const std::size_t first = static_cast<std::size_t>(thread) * share;
      copy(target.data() + first, source.data() + first, share);
    });
  });
  return 2.0 * static_cast<double>(share * threads * sizeof(float)) / seconds;
}

void measure_copies(MachineSpeed& speed, const MachineProbe& probe) {
  CpuDevice device;
  const std::size_t wanted = probe.copy_bytes > 0 ? probe.copy_bytes : beyond_caches();
  auto target = device.allocate(MemoryKind::kDevice, wanted);
  auto source = device.allocate(MemoryKind::kDevice, wanted);
  if (!target.ok() || !source.ok()) return;  // nothing is known of it then
  const Buffer to = std::move(target).value(), from = std::move(source).value();
  const std::span<float> targets(to.as<float>().data, to.as<float>().size);
  const std::span<float> sources(from.as<float>().data, from.as<float>().size);
  std::fill(targets.begin(), targets.end(), 1.0F);  // pages of their own
  std::fill(sources.begin(), sources.end(), 2.0F);
  speed.copy_bytes = targets.size_bytes();
  speed.copy = copy_speed(probe, targets, sources, model::copy_through_caches);
  speed.copy_past = copy_speed(probe, targets, sources, model::copy_past_caches);
}

}  // namespace

double MachineSpeed::bandwidth() const { return std::max(copy, copy_past); }

double MachineSpeed::peak(std::string_view compute) const {
  return compute == "bf16" ? std::max(bf16, fp32) : fp32;
}

MachineSpeed measure_machine(const MachineProbe& probe) {
  MachineSpeed speed;
  speed.threads = probe.threads;
  std::tie(speed.fp32, speed.fp32_loop) = fastest(model::fp32_loops(), probe);
  std::tie(speed.bf16, speed.bf16_loop) = fastest(model::bf16_loops(), probe);
  measure_copies(speed, probe);
  return speed;
}

double floor_seconds(const Cost& cost, const MachineSpeed& machine, std::string_view compute) {
  const double peak = machine.peak(compute), bandwidth = machine.bandwidth();
  return std::max(peak > 0 ? cost.operations / peak : 0.0,
                  bandwidth > 0 ? cost.bytes / bandwidth : 0.0);
}

}  // namespace starling::peer
