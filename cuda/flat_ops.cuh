// KernelFlatOps: FlatOps by the kernels of flat_kernels.cuh. The GPU's (cuda_flat_ops.cu) and, for
// tests, one on the emulator: they differ in the streams alone. Streams::of(lane) gives a Stream;
// `scratch` has room for scratch_bytes() on the device. Allocates nothing.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/device.h"
#include "cuda/flat_kernels.cuh"
#include "optim/flat_ops.h"

namespace starling::cuda {

template <class Streams>
class KernelFlatOps final : public optim::FlatOps {
 public:
  // `blocks_max`: what fills the device; more would only wait.
  KernelFlatOps(Streams streams, unsigned blocks_max, Buffer scratch)
      : streams_(std::move(streams)), blocks_max_(blocks_max), scratch_(std::move(scratch)) {
    STARLING_ASSERT(scratch_.bytes() >= scratch_bytes());
  }

  // Of each lane a row, so that lanes do not disturb each other.
  static constexpr std::size_t scratch_bytes() { return kLanes * kNormBlocksMax * sizeof(double); }

  void fill(Lane lane, DeviceSpan<float> target, float value) override {
    const FlatCut cut = cut_of({phase(target.data)}, target.size);
    if (cut.size > 0) launch(how(lane, "fill", cut), fill_kernel, cut, target.data, value);
  }

  void add_scaled(Lane lane, DeviceSpan<float> target, float scale, DeviceSpan<const float> source,
                  DeviceSpan<bf16> rounded) override {
    STARLING_ASSERT(target.size == source.size);
    STARLING_ASSERT(rounded.size == 0 || rounded.size == target.size);
    bf16* const out = rounded.size > 0 ? rounded.data : nullptr;
    const FlatCut cut = cut_of(
        {phase(target.data), phase(source.data), out != nullptr ? phase(out) : phase(target.data)},
        target.size);
    if (cut.size == 0) return;
    launch(how(lane, "add_scaled", cut), add_scaled_kernel, cut, target.data, scale, source.data,
           out);
  }

  void squared_norm(Lane lane, DeviceSpan<float> target, DeviceSpan<const float> source) override {
    STARLING_ASSERT(target.size == 1);
    const FlatCut cut = cut_of({phase(source.data)}, source.size);
    double* sums = scratch_.as<double>().data + static_cast<std::size_t>(lane) * kNormBlocksMax;
    Launch first = how(lane, "squared_norm", cut);
    first.blocks.x = blocks_for(cut, kNormBlocksMax);
    launch(first, square_sums_kernel, cut, sums, source.data);
    Launch second = first;
    second.blocks.x = 1;
    launch(second, add_sums_kernel, static_cast<const double*>(sums), first.blocks.x, target.data);
  }

  void adamw(Lane lane, const optim::AdamWScalars& scalars,
             const optim::AdamWRange& range) override {
    STARLING_ASSERT(range.moment1.size == range.param.size);
    STARLING_ASSERT(range.moment2.size == range.param.size);
    STARLING_ASSERT(range.gradient.size == range.param.size);
    STARLING_ASSERT(range.squared_norm.size == 1);
    STARLING_ASSERT(range.rounded.size == 0 || range.rounded.size == range.param.size);
    const bool rounds = range.rounded.size > 0;
    const AdamWPointers at{.param = range.param.data,
                           .moment1 = range.moment1.data,
                           .moment2 = range.moment2.data,
                           .gradient = range.gradient.data,
                           .squared_norm = range.squared_norm.data,
                           .borders = range.borders.data,
                           .border_count = range.borders.size,
                           .rounded = rounds ? range.rounded.data : nullptr};
    const FlatCut cut = cut_of({phase(at.param), phase(at.moment1), phase(at.moment2),
                                phase(at.gradient), rounds ? phase(at.rounded) : phase(at.param)},
                               range.param.size);
    if (cut.size > 0) launch(how(lane, "adamw", cut), adamw_kernel, cut, scalars, at);
  }

 private:
  static constexpr std::size_t kLanes = 3;

  // Elements between the last place where a pack may begin and `at`.
  template <class T>
  static std::size_t phase(const T* at) {
    return reinterpret_cast<std::uintptr_t>(at) / sizeof(T) % kFlatPack;
  }

  static FlatCut cut_of(std::initializer_list<std::size_t> phases, std::size_t size) {
    const std::size_t off = *phases.begin();
    for (const std::size_t phase : phases) {
      if (phase != off) return {.size = size, .head = size};
    }
    const std::size_t head = std::min((kFlatPack - off) % kFlatPack, size);
    return {.size = size, .head = head, .packs = (size - head) / kFlatPack};
  }

  static unsigned blocks_for(const FlatCut& cut, unsigned most) {
    const std::size_t packed = cut.packs * kFlatPack;
    const std::size_t threads = std::max(cut.packs, cut.size - packed);
    const std::size_t wanted = (threads + kFlatThreads - 1) / kFlatThreads;
    return static_cast<unsigned>(std::clamp<std::size_t>(wanted, 1, most));
  }

  Launch how(Lane lane, const char* operation, const FlatCut& cut) {
    Launch launch{.stream = streams_.of(lane), .operation = operation, .threads = kFlatThreads};
    launch.blocks.x = blocks_for(cut, blocks_max_);
    return launch;
  }

  Streams streams_;
  const unsigned blocks_max_;
  Buffer scratch_;
};

}  // namespace starling::cuda
