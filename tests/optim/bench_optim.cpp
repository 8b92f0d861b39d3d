// How near to memory's speed this room's loops are: GB/s of every flat operation, outer rule and
// codec path, counted as STREAM does (what the algorithm must read and write, no write-allocate),
// beside two copies. Build with STARLING_BENCHMARKS=ON; optim/README.md tells how to run it.
//
// Names end in values/threads: 32 Ki values lie in the second cache, 64 Mi far beyond the third.
// Threads are not pinned.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/cpu_device.h"
#include "base/thread_team.h"
#include "base/vector_clones.h"
#include "optim/block_scales.h"
#include "optim/cpu_flat_ops.h"
#include "optim/fragment_codec.h"
#include "optim/outer_local.h"
#include "optim/outer_pair_gossip.h"
#include "optim/vector_math.h"

namespace starling::optim {

namespace {

constexpr std::size_t kNear = std::size_t{1} << 15;
constexpr std::size_t kFar = std::size_t{1} << 26;

// The same memory for all, allocated like the optimizer's.
class Arrays {
 public:
  // Each of `values` weights as small as usual; arrays differ little, as those of two peers do.
  static const Arrays& fresh(std::size_t values) {
    static const Arrays arrays;
    for (std::size_t array = 0; array < arrays.floats_.size(); ++array) {
      fill(array, arrays.first(array, values));
    }
    return arrays;
  }
  std::span<float> first(std::size_t array, std::size_t values) const {
    return floats_[array].first(values);
  }
  std::span<std::byte> push() const { return std::as_writable_bytes(floats_[4]); }
  std::span<std::byte> delta() const { return std::as_writable_bytes(floats_[5]); }

 private:
  Arrays() {
    constexpr std::size_t kHeaders = kFar / kStripeParameters * kPayloadHeaderBytes;
    for (std::size_t array = 0; array < floats_.size(); ++array) {
      buffers_[array] =
          device_.allocate(MemoryKind::kDevice, kFar * sizeof(float) + kHeaders).value();
      const DeviceSpan<float> memory = buffers_[array].as<float>();
      floats_[array] = {memory.data, memory.size};
    }
  }
  static void fill(std::size_t array, std::span<float> values) {
    const std::uint32_t own = 2 * static_cast<std::uint32_t>(array) + 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t word = static_cast<std::uint32_t>(i) * 0x9E3779B1U;
      word = (word ^ (word >> 15)) * 0x85EBCA77U;
      values[i] = 0x1p-36f * static_cast<float>(static_cast<std::int32_t>(word)) +
                  0x1p-42f * static_cast<float>(static_cast<std::int32_t>(word * own));
    }
  }

  CpuDevice device_;
  std::array<Buffer, 6> buffers_;
  std::array<std::span<float>, 6> floats_;
};

std::size_t values_of(const benchmark::State& state) {
  return static_cast<std::size_t>(state.range(0));
}

// `bytes` per iteration of this thread.
void report(benchmark::State& state, double bytes) {
  state.counters["GB/s"] = benchmark::Counter(
      bytes * 1e-9 * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  benchmark::ClobberMemory();
}

template <class Work>
void repeat(benchmark::State& state, double bytes_per_value, const Work& work) {
  for (auto _ : state) {
    work();
    benchmark::ClobberMemory();
  }
  report(state, bytes_per_value * static_cast<double>(state.range(0)));
}

// --- copies: what the others are compared with ---

STARLING_VECTOR_CLONES
void copy_loop(float* __restrict target, const float* __restrict source, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) target[i] = source[i];
}

void copy_memcpy(float* target, const float* source, std::size_t count) {
  std::memcpy(target, source, count * sizeof(float));
}

template <class Copy>
void copy(benchmark::State& state, Copy run) {
  const std::size_t count = values_of(state) / static_cast<std::size_t>(state.threads());
  const std::size_t first = count * static_cast<std::size_t>(state.thread_index());
  static const Arrays& arrays = Arrays::fresh(kFar);
  float* const target = arrays.first(0, kFar).data() + first;
  const float* const source = arrays.first(1, kFar).data() + first;
  for (auto _ : state) {
    run(target, source, count);
    benchmark::ClobberMemory();
  }
  report(state, 8.0 * static_cast<double>(count));
}

// --- the trainer's ---

void fill(benchmark::State& state) {
  ThreadTeam team(static_cast<int>(state.range(1)));
  const auto ops = make_cpu_flat_ops(team);
  const auto target = Arrays::fresh(values_of(state)).first(3, values_of(state));
  repeat(state, 4.0, [&] { ops->fill(Lane::kCompute, {target.data(), target.size()}, 0.0f); });
}

void add_scaled(benchmark::State& state) {
  ThreadTeam team(static_cast<int>(state.range(1)));
  const auto ops = make_cpu_flat_ops(team);
  const Arrays& arrays = Arrays::fresh(values_of(state));
  const auto target = arrays.first(0, values_of(state));
  const auto source = arrays.first(1, values_of(state));
  float sign = 1.0f;
  repeat(state, 12.0, [&] {
    sign = -sign;
    ops->add_scaled(Lane::kCompute, {target.data(), target.size()}, sign,
                    {source.data(), source.size()}, {});
  });
}

void squared_norm(benchmark::State& state) {
  ThreadTeam team(static_cast<int>(state.range(1)));
  const auto ops = make_cpu_flat_ops(team);
  const auto source = Arrays::fresh(values_of(state)).first(1, values_of(state));
  float norm = 0.0f;
  repeat(state, 4.0, [&] {
    ops->squared_norm(Lane::kCompute, {&norm, 1}, {source.data(), source.size()});
  });
}

void adamw(benchmark::State& state) {
  ThreadTeam team(static_cast<int>(state.range(1)));
  const auto ops = make_cpu_flat_ops(team);
  const std::size_t count = values_of(state);
  const Arrays& arrays = Arrays::fresh(count);
  const auto span = [&](std::size_t array) {
    return DeviceSpan<float>{arrays.first(array, count).data(), count};
  };
  for (float& moment2 : arrays.first(2, count)) moment2 *= moment2;
  float norm = 1.0f;
  const AdamWScalars scalars{.beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .epsilon = 1e-8f,
                             .decay_factor = 1.0f,
                             .step_size = 1e-9f,
                             .moment2_root_scale = 1.0f,
                             .clip_norm = 1.0f};
  repeat(state, 28.0, [&] {
    ops->adamw(Lane::kCompute, scalars, {span(0), span(1), span(2), span(3), {&norm, 1}});
  });
}

// --- the mixer's: stripe by stripe, as it gets them ---

template <class Work>
void over_stripes(std::size_t values, const Work& work) {
  for (std::size_t first = 0; first < values; first += kStripeParameters) {
    work(first / kStripeParameters, first, std::min(kStripeParameters, values - first));
  }
}

void outer_step(benchmark::State& state, const OuterRule& rule, double bytes_per_value) {
  const Arrays& arrays = Arrays::fresh(values_of(state));
  repeat(state, bytes_per_value, [&] {
    over_stripes(values_of(state), [&](std::size_t, std::size_t first, std::size_t count) {
      const auto part = [&](std::size_t array) {
        return arrays.first(array, first + count).subspan(first);
      };
      rule.step({}, part(0), part(1), part(3));
    });
  });
}

void pair_gossip(benchmark::State& state) {
  // A rate so small that the weights stay where they are.
  outer_step(state, PairGossip({.momentum = 0.3f, .learning_rate = 0x1p-40f}), 24.0);
}

void local_training(benchmark::State& state) { outer_step(state, LocalTraining(), 20.0); }

void measure_values(benchmark::State& state) {
  const auto source = Arrays::fresh(values_of(state)).first(1, values_of(state));
  repeat(state, 4.0, [&] { benchmark::DoNotOptimize(measure(source)); });
}

// The exchange's corrections: the difference lies in the second cache, as the mixer's does.
void shift_weights(benchmark::State& state) {
  const Arrays& arrays = Arrays::fresh(values_of(state));
  float share = 0.5f;
  repeat(state, 12.0, [&] {
    share = -share;
    over_stripes(values_of(state), [&](std::size_t, std::size_t first, std::size_t count) {
      shift(arrays.first(0, first + count).subspan(first),
            arrays.first(1, first + count).subspan(first), share, arrays.first(2, count));
    });
  });
}

// Payloads of one format, and what makes them.
class Exchange {
 public:
  Exchange(WireFormat format, std::size_t values)
      : format_(format),
        values_(values),
        arrays_(Arrays::fresh(values)),
        scales_(std::min(values, kStripeParameters)),
        exponents_(scales_.blocks()) {
    std::vector<BlockReport> blocks(scales_.blocks());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const std::size_t first = b * kBlockParameters;
      const std::size_t count = std::min(kBlockParameters, scales_parameters() - first);
      const VectorStats stats =
          measure_sum(theirs().subspan(first, count), -1.0f, ours().subspan(first, count));
      blocks[b] = {stats.sum_of_squares, stats.max_abs, 0.0f};
    }
    scales_.observe(blocks, 1.0f, format);
  }
  double push_size() const { return per_value(push_bytes(format_, scales_parameters())); }
  double delta_size() const { return per_value(delta_bytes(format_, scales_parameters())); }

  void push() {
    over_stripes(values_, [&](std::size_t stripe, std::size_t first, std::size_t count) {
      const auto slow = ours().subspan(first, count);
      scales_.exponents(format_, slow, exponents_);
      const bool ok = encode_push(format_, stripe, slow, exponents_, push_of(stripe, count)).ok();
      STARLING_ASSERT(ok);
    });
  }
  void make() {
    over_stripes(values_, [&](std::size_t stripe, std::size_t first, std::size_t count) {
      auto made = make_delta(stripe, push_of(stripe, count), theirs().subspan(first, count), 0.0f,
                             delta_of(stripe, count));
      STARLING_ASSERT(made.ok());
      STARLING_ASSERT(made.value().blocks_skipped == 0);
    });
  }
  void decode() {
    over_stripes(values_, [&](std::size_t stripe, std::size_t first, std::size_t count) {
      const bool ok =
          decode_delta(delta_of(stripe, count), difference().subspan(first, count)).ok();
      STARLING_ASSERT(ok);
    });
  }

 private:
  std::size_t scales_parameters() const { return std::min(values_, kStripeParameters); }
  double per_value(std::size_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(scales_parameters());
  }
  std::span<float> ours() const { return arrays_.first(0, values_); }
  std::span<float> theirs() const { return arrays_.first(1, values_); }
  std::span<float> difference() const { return arrays_.first(3, values_); }
  std::span<std::byte> push_of(std::size_t stripe, std::size_t count) const {
    const std::size_t bytes = push_bytes(format_, count);
    return arrays_.push().subspan(stripe * bytes, bytes);
  }
  std::span<std::byte> delta_of(std::size_t stripe, std::size_t count) const {
    const std::size_t bytes = delta_bytes(format_, count);
    return arrays_.delta().subspan(stripe * bytes, bytes);
  }

  const WireFormat format_;
  const std::size_t values_;
  const Arrays& arrays_;
  BlockScales scales_;
  std::vector<std::int8_t> exponents_;
};

void push(benchmark::State& state, WireFormat format) {
  Exchange exchange(format, values_of(state));
  repeat(state, 4.0 + exchange.push_size(), [&] { exchange.push(); });
}

void delta(benchmark::State& state, WireFormat format) {
  Exchange exchange(format, values_of(state));
  exchange.push();
  repeat(state, 4.0 + exchange.push_size() + exchange.delta_size(), [&] { exchange.make(); });
}

void decode(benchmark::State& state, WireFormat format) {
  Exchange exchange(format, values_of(state));
  exchange.push();
  exchange.make();
  repeat(state, 4.0 + exchange.delta_size(), [&] { exchange.decode(); });
}

// --- all of them ---

void add(const std::string& name, void (*run)(benchmark::State&), bool threaded = false) {
  auto* const added = benchmark::RegisterBenchmark(name.c_str(), run);
  added->UseRealTime()->ArgsProduct({{kNear, kFar}, {1}});
  if (threaded) added->Args({kFar, 2});
}

template <class Copy>
void add_copy(const char* name, Copy run) {
  for (const int threads : {1, 2}) {
    auto* const added =
        benchmark::RegisterBenchmark(name, [run](benchmark::State& state) { copy(state, run); });
    added->UseRealTime()->Arg(kFar)->Threads(threads);
    if (threads == 1) added->Arg(kNear);
  }
}

void add_all() {
  add_copy("copy_memcpy", copy_memcpy);
  add_copy("copy_loop", copy_loop);
  add("fill", fill, true);
  add("add_scaled", add_scaled, true);
  add("squared_norm", squared_norm, true);
  add("adamw", adamw, true);
  add("outer/pair-gossip", pair_gossip);
  add("outer/local", local_training);
  add("measure", measure_values);
  add("shift", shift_weights);
  for (const WireFormat format : kWireFormats) {
    const std::string name(to_string(format));
    const auto add_codec = [&](const char* path, auto run) {
      benchmark::RegisterBenchmark((path + name).c_str(),
                                   [run, format](benchmark::State& state) { run(state, format); })
          ->UseRealTime()
          ->ArgsProduct({{kNear, kFar}, {1}});
    };
    add_codec("push/", push);
    add_codec("delta/", delta);
    add_codec("decode/", decode);
  }
}

}  // namespace

}  // namespace starling::optim

int main(int argc, char** argv) {
  starling::optim::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
