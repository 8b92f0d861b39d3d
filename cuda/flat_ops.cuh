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
    const FlatCut cut = cut_of({target.data}, target.size);
    if (cut.size > 0) launch(how(lane, "fill", cut), fill_kernel, cut, target.data, value);
  }

  void add_scaled(Lane lane, DeviceSpan<float> target, float scale,
                  DeviceSpan<const float> source) override {
    STARLING_ASSERT(target.size == source.size);
    const FlatCut cut = cut_of({target.data, source.data}, target.size);
    if (cut.size == 0) return;
    launch(how(lane, "add_scaled", cut), add_scaled_kernel, cut, target.data, scale, source.data);
  }

  void squared_norm(Lane lane, DeviceSpan<float> target, DeviceSpan<const float> source) override {
    STARLING_ASSERT(target.size == 1);
    const FlatCut cut = cut_of({source.data}, source.size);
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
    const AdamWPointers at{range.param.data, range.moment1.data, range.moment2.data,
                           range.gradient.data, range.squared_norm.data};
    const FlatCut cut = cut_of({at.param, at.moment1, at.moment2, at.gradient}, range.param.size);
    if (cut.size > 0) launch(how(lane, "adamw", cut), adamw_kernel, cut, scalars, at);
  }

 private:
  static constexpr std::size_t kLanes = 3;

  static FlatCut cut_of(std::initializer_list<const float*> ranges, std::size_t size) {
    constexpr std::size_t kBytes = kFlatPack * sizeof(float);
    const auto misaligned = [](const float* at) {
      return reinterpret_cast<std::uintptr_t>(at) % kBytes;
    };
    const std::size_t off = misaligned(*ranges.begin());
    for (const float* range : ranges) {
      if (misaligned(range) != off) return {.size = size, .head = size};
    }
    const std::size_t head = std::min((kBytes - off) % kBytes / sizeof(float), size);
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
