#include "peer/bench/bench_machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/cpu_device.h"
#include "base/rng.h"
#include "model/cpu/cpu_limits.h"
#include "peer/io/clock.h"
#include "peer/machine/backend.h"
#include "peer/machine/free_memory.h"

namespace starling::peer {

namespace {

constexpr std::size_t kCopyBytesMin = std::size_t{64} << 20, kCopyBytesMax = std::size_t{512} << 20;
constexpr double kTurnSeconds = 0.02;  // long beside the start of a thread
constexpr int kTurnsMin = 3;
// Of a GPU: rows and columns of products, the time that one should take, the array that is copied.
constexpr std::int64_t kProductMin = 256, kProductMax = 16384;
constexpr double kProductSeconds = 1e-3;
constexpr std::size_t kCopyBytesOnGpu = std::size_t{256} << 20;  // beyond its caches
constexpr int kCallsPerTurn = 8;  // so that waiting for the device is no part of it

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

// --- of a GPU ---

// Zeros are multiplied faster than numbers, by a chip that saves power.
template <class Number>
void fill_at_random(Device& device, const Buffer& buffer) {
  constexpr std::size_t kPattern = std::size_t{1} << 20;
  const DeviceSpan<Number> all = buffer.as<Number>();
  std::vector<Number> pattern(std::min(kPattern, all.size));
  Rng rng(1);
  for (Number& value : pattern) {
    const float drawn = static_cast<float>(rng.unit()) - 0.5F;
    if constexpr (std::is_same_v<Number, bf16>) {
      value = to_bf16(drawn);
    } else {
      value = drawn;
    }
  }
  for (std::size_t first = 0; first < all.size; first += pattern.size()) {
    const std::size_t count = std::min(pattern.size(), all.size - first);
    const DeviceSpan<Number> part = all.subspan(first, count);
    device.copy_in(Lane::kCompute, part.bytes(),
                   std::as_bytes(std::span<const Number>(pattern).first(count)));
  }
  device.drain();
}

// Of one of several calls in a row.
template <class Call>
double best_call_seconds(Device& device, double seconds, const Call& call) {
  const double turn = best_seconds(seconds, [&] {
    for (int i = 0; i < kCallsPerTurn; ++i) call();
    device.drain();
  });
  return turn / kCallsPerTurn;
}

// Seconds of out = in * weight^T, all of them square.
Result<double> product_seconds(Backend& backend, std::int64_t size, double seconds) {
  Device& device = *backend.device;
  model::LayerOps& ops = *backend.layers;
  const model::DType stored = ops.activations();
  const auto values = static_cast<std::size_t>(size * size);
  const std::size_t stored_bytes = values * static_cast<std::size_t>(model::bytes_of_one(stored));
  if (Status room =
          ops.reserve({.longest = {}, .rows = size, .width = size, .parameters = size * size});
      !room.ok()) {
    return std::move(room).error();
  }
  auto weight = device.allocate(MemoryKind::kDevice, values * sizeof(float));
  auto in = device.allocate(MemoryKind::kDevice, stored_bytes);
  auto out = device.allocate(MemoryKind::kDevice, stored_bytes);
  for (auto* made : {&weight, &in, &out}) {
    if (!made->ok()) return std::move(*made).error();
  }
  fill_at_random<float>(device, weight.value());
  if (stored == model::DType::kBf16) {
    fill_at_random<bf16>(device, in.value());
  } else {
    fill_at_random<float>(device, in.value());
  }
  const model::Shape shape{size, size};
  const DeviceSpan<float> weights = weight.value().as<float>();
  ops.use_weights(Lane::kCompute, weights);
  const model::Linear<> product{
      .out = {out.value().as<std::byte>().data, stored, shape},
      .in = model::TypedTensor(in.value().as<std::byte>().data, stored, shape),
      .weight = {weights.data, shape}};
  ops.rehearse(true);  // so that its best is found, as a trainer's products are
  ops.linear(Lane::kCompute, product);
  ops.rehearse(false);
  return best_call_seconds(device, seconds, [&] { ops.linear(Lane::kCompute, product); });
}

Result<double> device_copy_seconds(Device& device, std::size_t bytes, double seconds) {
  auto target = device.allocate(MemoryKind::kDevice, bytes);
  auto source = device.allocate(MemoryKind::kDevice, bytes);
  if (!target.ok()) return std::move(target).error();
  if (!source.ok()) return std::move(source).error();
  fill_at_random<float>(device, source.value());
  return best_call_seconds(device, seconds, [&] {
    device.copy(Lane::kCompute, target.value().as<std::byte>(), source.value().as<std::byte>());
  });
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

Result<MachineSpeed> measure_gpu(Backend& backend, const MachineProbe& probe) {
  MachineSpeed speed;
  const bool in_bf16 = backend.compute == model::Compute::kBf16;
  double& peak = in_bf16 ? speed.bf16 : speed.fp32;
  double seconds = 0;
  for (std::int64_t size = kProductMin; size <= kProductMax && seconds < kProductSeconds;
       size *= 2) {
    auto product = product_seconds(backend, size, probe.seconds);
    if (!product.ok()) return std::move(product).error();
    seconds = product.value();
    const auto side = static_cast<double>(size);
    const double operations = 2 * side * side * side / seconds;
    if (operations < peak) continue;
    peak = operations;
    (in_bf16 ? speed.bf16_loop : speed.fp32_loop) =
        fmt::format("product of matrices of {0} x {0}", size);
  }
  speed.copy_bytes = probe.copy_bytes > 0 ? probe.copy_bytes : kCopyBytesOnGpu;
  auto copy = device_copy_seconds(*backend.device, speed.copy_bytes, probe.seconds);
  if (!copy.ok()) return std::move(copy).error();
  speed.copy = 2.0 * static_cast<double>(speed.copy_bytes) / copy.value();
  return speed;
}

double floor_seconds(const Cost& cost, const MachineSpeed& machine, std::string_view compute) {
  const double peak = machine.peak(compute), bandwidth = machine.bandwidth();
  return std::max(peak > 0 ? cost.operations / peak : 0.0,
                  bandwidth > 0 ? cost.bytes / bandwidth : 0.0);
}

}  // namespace starling::peer
