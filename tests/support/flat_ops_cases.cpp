#include "tests/support/flat_ops_cases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/rng.h"
#include "optim/adamw_math.h"
#include "tests/support/device_floats.h"

namespace starling::testing {

namespace {

constexpr std::size_t kSizes[] = {0, 1, 3, 4, 5, 17, 1023, 4096, 70001, 300007};
constexpr std::size_t kOffsets[] = {0, 1, 2, 3};  // all that 16 bytes can hold
constexpr std::size_t kGuard = 8;

// A range that begins `offset` floats after an aligned address, between guards.
class Range {
 public:
  Range(Device& device, std::size_t offset, const std::vector<float>& values)
      : device_(device), first_(kGuard + offset), size_(values.size()) {
    memory_ =
        device.allocate(MemoryKind::kDevice, (first_ + size_ + kGuard) * sizeof(float)).value();
    expected_.assign(first_ + size_ + kGuard, -7.0F);
    std::copy(values.begin(), values.end(), expected_.begin() + std::ptrdiff_t(first_));
    put_floats(device, memory_.as<float>(), expected_);
  }
  DeviceSpan<float> span() const { return memory_.as<float>().subspan(first_, size_); }
  std::vector<float> values() const { return floats_of(device_, span()); }
  std::vector<float> whole() const { return floats_of(device_, memory_.as<float>()); }
  // What all of the memory should hold once these are the values.
  std::vector<float> around(const std::vector<float>& values) const {
    std::vector<float> all = expected_;
    std::copy(values.begin(), values.end(), all.begin() + std::ptrdiff_t(first_));
    return all;
  }

 private:
  Device& device_;
  Buffer memory_;
  std::size_t first_, size_;
  std::vector<float> expected_;
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

template <class T>
Buffer on_device(Device& device, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  Buffer buffer = device.allocate(MemoryKind::kDevice, bytes.size()).value();
  device.copy_in(Lane::kCompute, buffer.as<std::byte>(), bytes);
  device.drain();
  return buffer;
}

// What is rounded: a range of bf16 between guards, and what all of its memory should hold.
class RoundedRange {
 public:
  RoundedRange(Device& device, std::size_t offset, std::size_t size)
      : device_(device),
        first_(kGuard + offset),
        size_(size),
        expected_(first_ + size + kGuard, bf16{0xABCD}),
        memory_(on_device(device, expected_)) {}
  DeviceSpan<bf16> span() const { return memory_.as<bf16>().subspan(first_, size_); }
  void expect(std::size_t i, float value) { expected_[first_ + i] = to_bf16(value); }
  bool is_as_expected() const {
    std::vector<std::byte> now(expected_.size() * sizeof(bf16));
    device_.copy_out(Lane::kCompute, now, memory_.as<std::byte>().subspan(0, now.size()));
    device_.drain();
    return now == bytes_of(expected_);
  }

 private:
  Device& device_;
  const std::size_t first_, size_;
  std::vector<bf16> expected_;
  const Buffer memory_;
};

std::vector<float> draw(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

optim::AdamWScalars scalars_of(int step) {
  return {.beta1 = 0.9F,
          .beta2 = 0.95F,
          .epsilon = 1e-8F,
          .decay_factor = 0.999F,
          .step_size = 1e-2F / (1 - std::pow(0.9F, float(step))),
          .moment2_root_scale = 1 / std::sqrt(1 - std::pow(0.95F, float(step))),
          .clip_norm = 1.0F};
}

// Where the ranges of one begin, in elements after an aligned address.
struct Offsets {
  std::size_t param = 0, gradient = 0, rounded = 0;
};

// The state of a few steps, and what it should be.
struct AdamWBench {
  AdamWBench(Device& on, std::size_t size, const Offsets& offsets,
             std::vector<std::size_t> decay_borders = {})
      : device(on),
        params(draw(size, 1)),
        gradients(draw(size, 2)),
        borders(std::move(decay_borders)),
        param(device, offsets.param, params),
        moment1(device, offsets.param, std::vector<float>(size)),
        moment2(device, offsets.param, std::vector<float>(size)),
        gradient(device, offsets.gradient, gradients),
        norm(device, 0, {0.0F}),
        rounded(device, offsets.rounded, size),
        border_memory(on_device(device, borders)),
        states(size) {
    for (std::size_t i = 0; i < size; ++i) states[i] = {params[i], 0.0F, 0.0F};
  }
  void step(const FlatOpsUnderTest& test, int number) {
    test.ops.squared_norm(Lane::kCompute, norm.span(), gradient.span());
    const float squared_norm = norm.values()[0];
    optim::AdamWScalars scalars = scalars_of(number);
    const DeviceSpan<bf16> wanted = rounds ? rounded.span() : DeviceSpan<bf16>();
    test.ops.adamw(Lane::kCompute, scalars,
                   {param.span(), moment1.span(), moment2.span(), gradient.span(), norm.span(),
                    border_memory.as<std::size_t>().subspan(0, borders.size()), wanted});
    if (!std::isfinite(squared_norm)) return;
    const float scale = optim::clip_scale(squared_norm, scalars.clip_norm);
    const float decay_factor = scalars.decay_factor;
    for (std::size_t i = 0; i < states.size(); ++i) {
      const auto passed = std::upper_bound(borders.begin(), borders.end(), i) - borders.begin();
      scalars.decay_factor = passed % 2 == 0 ? decay_factor : 1.0F;
      states[i] = optim::adamw_element(states[i], gradients[i] * scale, scalars);
      if (rounds) rounded.expect(i, states[i].param);
    }
  }
  void check() const {
    std::vector<float> expected[3];
    for (const optim::AdamWElement& state : states) {
      expected[0].push_back(state.param);
      expected[1].push_back(state.moment1);
      expected[2].push_back(state.moment2);
    }
    CHECK(param.whole() == param.around(expected[0]));
    CHECK(moment1.whole() == moment1.around(expected[1]));
    CHECK(moment2.whole() == moment2.around(expected[2]));
    CHECK(gradient.whole() == gradient.around(gradients));
    CHECK(rounded.is_as_expected());
  }

  Device& device;
  const std::vector<float> params, gradients;
  const std::vector<std::size_t> borders;
  const Range param, moment1, moment2, gradient, norm;
  RoundedRange rounded;
  const Buffer border_memory;
  bool rounds = true;
  std::vector<optim::AdamWElement> states;
};

}  // namespace

void check_element_wise(const FlatOpsUnderTest& test) {
  for (const std::size_t size : kSizes) {
    for (const std::size_t offset : kOffsets) {
      CAPTURE(size);
      CAPTURE(offset);
      const std::vector<float> start = draw(size, 3), added = draw(size, 4);
      const Range target(test.device, offset, start);
      // Aligned as the target is, and otherwise.
      for (const std::size_t source_offset : {offset, (offset + 1) % 4}) {
        const Range source(test.device, source_offset, added);
        std::vector<float> sums = start;
        for (std::size_t i = 0; i < size; ++i) sums[i] += 0.37F * added[i];
        put_floats(test.device, target.span(), start);
        test.ops.add_scaled(Lane::kCompute, target.span(), 0.37F, source.span(), {});
        CHECK(target.whole() == target.around(sums));
        CHECK(source.whole() == source.around(added));
        RoundedRange rounded(test.device, source_offset, size);
        for (std::size_t i = 0; i < size; ++i) rounded.expect(i, sums[i]);
        put_floats(test.device, target.span(), start);
        test.ops.add_scaled(Lane::kCompute, target.span(), 0.37F, source.span(), rounded.span());
        CHECK(target.whole() == target.around(sums));
        CHECK(rounded.is_as_expected());
      }
      test.ops.fill(Lane::kCompute, target.span(), 1.25F);
      CHECK(target.whole() == target.around(std::vector<float>(size, 1.25F)));
    }
  }
}

void check_squared_norm(const FlatOpsUnderTest& test) {
  for (const std::size_t size : kSizes) {
    for (const std::size_t offset : kOffsets) {
      CAPTURE(size);
      CAPTURE(offset);
      const std::vector<float> values = draw(size, 5);
      const Range source(test.device, offset, values);
      const Range target(test.device, 1, {99.0F});
      test.ops.squared_norm(Lane::kCompute, target.span(), source.span());
      double expected = 0;
      for (const float value : values) expected += static_cast<double>(value) * value;
      const float first = target.values()[0];
      CHECK(first == doctest::Approx(expected).epsilon(1e-7));
      CHECK(target.whole() == target.around({first}));
      test.ops.squared_norm(Lane::kCompute, target.span(), source.span());
      CHECK(target.values()[0] == first);
    }
  }
}

void check_adamw(const FlatOpsUnderTest& test) {
  for (const std::size_t size : kSizes) {
    for (const std::size_t offset : kOffsets) {
      const std::size_t other = (offset + 3) % 4;
      for (const Offsets& offsets :
           {Offsets{offset, offset, offset}, Offsets{offset, other, offset},
            Offsets{offset, offset, other}}) {
        CAPTURE(size);
        CAPTURE(offset);
        AdamWBench bench(test.device, size, offsets);
        for (int step = 1; step <= 3; ++step) {
          bench.rounds = step != 2;
          bench.step(test, step);
          bench.check();
        }
      }
    }
  }
}

void check_adamw_borders(const FlatOpsUnderTest& test) {
  constexpr std::size_t kSize = 70001;
  std::vector<std::size_t> many;
  Rng rng(8);
  for (std::size_t at = 0; at < kSize; at += 1 + rng.below(9)) many.push_back(at);
  for (const std::vector<std::size_t>& borders :
       {std::vector<std::size_t>{0}, {1}, {0, 1, 2, 3, 4}, {6, 7, 4096, 8193}, {kSize - 1}, many}) {
    for (const std::size_t offset : kOffsets) {
      CAPTURE(borders.size());
      CAPTURE(offset);
      AdamWBench bench(test.device, kSize, {offset, offset, offset}, borders);
      for (int step = 1; step <= 2; ++step) bench.step(test, step);
      bench.check();
    }
  }
}

void check_adamw_not_finite(const FlatOpsUnderTest& test) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38F}) {
    CAPTURE(bad);
    AdamWBench bench(test.device, 1000, {1, 1, 1});
    bench.step(test, 1);
    std::vector<float> gradients = bench.gradients;
    gradients[777] = bad;
    put_floats(test.device, bench.gradient.span(), gradients);
    bench.step(test, 2);
    put_floats(test.device, bench.gradient.span(), bench.gradients);
    bench.check();
  }
}

void check_pinned_source(const FlatOpsUnderTest& test) {
  const std::vector<float> start = draw(5001, 6), added = draw(5001, 7);
  const Range target(test.device, 0, start);
  const Buffer pinned =
      test.device.allocate(MemoryKind::kHostPinned, added.size() * sizeof(float)).value();
  const DeviceSpan<float> source = pinned.as<float>();
  std::copy(added.begin(), added.end(), source.data);
  test.ops.add_scaled(Lane::kCompute, target.span(), 1.0F, source, {});
  std::vector<float> sums = start;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += added[i];
  CHECK(target.whole() == target.around(sums));
}

}  // namespace starling::testing
