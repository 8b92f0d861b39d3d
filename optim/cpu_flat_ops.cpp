#include "optim/cpu_flat_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "base/vector_clones.h"
#include "optim/vector_math.h"

namespace starling::optim {

namespace {

// Ranges are cut into parts whose borders depend on the size alone, never on the threads: that is
// what makes sums reproducible. Multiples of kGrain keep the parts on their own cache lines.
constexpr std::size_t kPartsMax = 256;
constexpr std::size_t kGrain = 4096;
// Up to this one thread does it: a run in which all take part costs about 1 us while the team is
// awake (bench_thread_team).
constexpr std::size_t kSerialMax = std::size_t{1} << 13;

// From here on (64 MiB) no cache would keep it until it is read.
constexpr std::size_t kFarMin = std::size_t{1} << 24;

STARLING_VECTOR_CLONES
void adamw_loop(const AdamWScalars& scalars, float gradient_scale, const AdamWRange& range) {
  const AdamWScalars fixed = scalars;
  float* __restrict param = range.param.data;
  float* __restrict moment1 = range.moment1.data;
  float* __restrict moment2 = range.moment2.data;
  const float* __restrict gradient = range.gradient.data;
  const std::size_t count = range.param.size;
  for (std::size_t i = 0; i < count; ++i) {
    const AdamWElement next =
        adamw_element({param[i], moment1[i], moment2[i]}, gradient[i] * gradient_scale, fixed);
    param[i] = next.param;
    moment1[i] = next.moment1;
    moment2[i] = next.moment2;
  }
}

// Without borders and what is rounded.
AdamWRange part_of(const AdamWRange& range, std::size_t first, std::size_t count) {
  return {range.param.subspan(first, count), range.moment1.subspan(first, count),
          range.moment2.subspan(first, count), range.gradient.subspan(first, count),
          range.squared_norm};
}

// Calls work(first, count, decays) for every run of elements between borders.
template <class Work>
void for_each_run(std::span<const std::size_t> borders, std::size_t first, std::size_t count,
                  const Work& work) {
  const std::size_t end = first + count;
  auto next = std::upper_bound(borders.begin(), borders.end(), first);
  while (first < end) {
    const std::size_t run_end = next == borders.end() ? end : std::min(*next, end);
    work(first, run_end - first, (next - borders.begin()) % 2 == 0);
    first = run_end;
    if (next != borders.end()) ++next;
  }
}

class CpuFlatOps final : public FlatOps {
 public:
  explicit CpuFlatOps(ThreadTeam& team) : team_(team) {}

  void fill(Lane /*lane*/, DeviceSpan<float> target, float value) override {
    for_each_part(target.size, [&](std::size_t, std::size_t first, std::size_t count) {
      if (target.size >= kFarMin) {
        fill_past_caches({target.data + first, count}, value);
      } else {
        std::fill_n(target.data + first, count, value);
      }
    });
  }

  void add_scaled(Lane /*lane*/, DeviceSpan<float> target, float scale,
                  DeviceSpan<const float> source, DeviceSpan<bf16> rounded) override {
    STARLING_ASSERT(target.size == source.size);
    STARLING_ASSERT(rounded.size == 0 || rounded.size == target.size);
    for_each_part(target.size, [&](std::size_t, std::size_t first, std::size_t count) {
      optim::add_scaled({target.data + first, count}, scale, {source.data + first, count});
      if (rounded.size > 0) round(target, rounded, first, count);
    });
  }

  void squared_norm(Lane /*lane*/, DeviceSpan<float> target,
                    DeviceSpan<const float> source) override {
    STARLING_ASSERT(target.size == 1);
    std::array<double, kPartsMax> sums{};
    for_each_part(source.size, [&](std::size_t part, std::size_t first, std::size_t count) {
      sums[part] = measure({source.data + first, count}).sum_of_squares;
    });
    double total = 0.0;
    for (const double sum : sums) total += sum;
    target.data[0] = static_cast<float>(total);
  }

  void adamw(Lane /*lane*/, const AdamWScalars& scalars, const AdamWRange& range) override {
    STARLING_ASSERT(range.moment1.size == range.param.size);
    STARLING_ASSERT(range.moment2.size == range.param.size);
    STARLING_ASSERT(range.gradient.size == range.param.size);
    STARLING_ASSERT(range.squared_norm.size == 1);
    STARLING_ASSERT(range.rounded.size == 0 || range.rounded.size == range.param.size);
    const float squared_norm = range.squared_norm.data[0];
    if (!std::isfinite(squared_norm)) return;
    const float gradient_scale = clip_scale(squared_norm, scalars.clip_norm);
    AdamWScalars kept = scalars;
    kept.decay_factor = 1.0f;
    const auto do_run = [&](std::size_t first, std::size_t count, bool decays) {
      adamw_loop(decays ? scalars : kept, gradient_scale, part_of(range, first, count));
    };
    for_each_part(range.param.size, [&](std::size_t, std::size_t first, std::size_t count) {
      for_each_run({range.borders.data, range.borders.size}, first, count, do_run);
      if (range.rounded.size > 0) round(range.param, range.rounded, first, count);
    });
  }

 private:
  static void round(DeviceSpan<const float> values, DeviceSpan<bf16> rounded, std::size_t first,
                    std::size_t count) {
    const float* from = values.data + first;
    std::transform(from, from + count, rounded.data + first, to_bf16);
  }
  // Calls work(part, first, count) for every part, on several threads if it is worth it.
  template <class Work>
  void for_each_part(std::size_t size, const Work& work) const {
    const std::size_t grains = (size + kGrain - 1) / kGrain;
    const std::size_t part_size = (grains + kPartsMax - 1) / kPartsMax * kGrain;
    const auto parts = size == 0 ? 0 : static_cast<std::int64_t>((size - 1) / part_size + 1);
    const auto do_part = [&](std::int64_t part, int /*worker*/) {
      const std::size_t first = static_cast<std::size_t>(part) * part_size;
      work(static_cast<std::size_t>(part), first, std::min(part_size, size - first));
    };
    if (size > kSerialMax) return team_.run(parts, do_part);
    for (std::int64_t part = 0; part < parts; ++part) do_part(part, 0);
  }

  ThreadTeam& team_;
};

}  // namespace

std::unique_ptr<FlatOps> make_cpu_flat_ops(ThreadTeam& team) {
  return std::make_unique<CpuFlatOps>(team);
}

}  // namespace starling::optim
