#include "cuda/scratch.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <new>
#include <string>

#include "base/cpu_device.h"
#include "cuda/layer_ops.cuh"
#include "model/llama.h"
#include "tests/cuda/host_products.h"
#include "tests/cuda/llama_step.h"

namespace starling::cuda {

namespace {

using model::DType;

// A device of host memory, of which there is no more than `room` bytes.
class SmallDevice final : public Device {
 public:
  explicit SmallDevice(std::size_t room) : room_(room) {}

  std::string_view name() const override { return "small"; }
  Result<Buffer> allocate(MemoryKind /*kind*/, std::size_t bytes) override {
    if (bytes == 0) return Buffer();
    if (bytes > room_ - taken_) return Error(ErrorCode::kExhausted, "lower batch.tokens");
    ++allocations_;
    taken_ += bytes;
    return Buffer(::operator new(bytes, kAlignment), bytes, this, release);
  }
  void copy_out(Lane lane, std::span<std::byte> target,
                DeviceSpan<const std::byte> source) override {
    host_.copy_out(lane, target, source);
  }
  void copy_in(Lane lane, DeviceSpan<std::byte> target,
               std::span<const std::byte> source) override {
    host_.copy_in(lane, target, source);
  }
  void copy(Lane lane, DeviceSpan<std::byte> target, DeviceSpan<const std::byte> source) override {
    host_.copy(lane, target, source);
  }
  Fence record(Lane lane) override { return host_.record(lane); }
  bool reached(Fence fence) override { return host_.reached(fence); }
  void hold(Lane lane, Fence fence) override { host_.hold(lane, fence); }
  void drain() override {}

  std::size_t taken() const { return taken_; }
  int allocations() const { return allocations_; }

 private:
  static constexpr std::align_val_t kAlignment{256};
  static void release(void* device, void* data, std::size_t bytes) noexcept {
    static_cast<SmallDevice*>(device)->taken_ -= bytes;
    ::operator delete(data, kAlignment);
  }

  CpuDevice host_;
  const std::size_t room_;
  std::size_t taken_ = 0;
  int allocations_ = 0;
};

std::unique_ptr<model::LayerOps> ops_on(Device& device, DType activations) {
  return make_kernel_layer_ops({.device = &device,
                                .stream = [](Lane) { return Stream{}; },
                                .products = std::make_unique<HostProducts>()},
                               activations);
}

// Calls all of it each time, and counts how often it was told to forget.
class CountedRepeats final : public Repeats {
 public:
  explicit CountedRepeats(int& forgotten) : forgotten_(forgotten) {}
  void run(Lane, const model::RepeatKey&, const std::function<void()>& body) override { body(); }
  void forget() override { ++forgotten_; }

 private:
  int& forgotten_;
};

constexpr std::size_t kEnough = std::size_t{1} << 30;
constexpr model::StepShape kShape{.longest = {.tokens = 64, .heads = 3, .head_width = 32},
                                  .rows = 256,
                                  .width = 96,
                                  .parameters = 12345};

}  // namespace

TEST_CASE("CUDA's operations take the memory that they tell, and no more of it in a step") {
  for (const DType activations : {DType::kF32, DType::kBf16}) {
    CAPTURE(static_cast<int>(activations));
    SmallDevice device(kEnough);
    const auto ops = ops_on(device, activations);
    REQUIRE(ops->reserve(kShape).ok());
    CHECK(device.taken() == ops->scratch_bytes(kShape));
    const std::size_t in_both = 4 * (512 * 96 + 256 * 3);
    const std::size_t rounded = activations == DType::kBf16 ? 2 * 12345 : 0;
    CHECK(device.taken() == in_both + rounded);

    const int before = device.allocations();
    CpuDevice of_model;
    step_difference(of_model, *ops);  // makes three models, which reserve, and take steps
    CHECK(device.allocations() - before == 3 * (activations == DType::kBf16 ? 3 : 2));
  }
}

TEST_CASE("CUDA's operations that find no room say so at the start, and take a smaller shape") {
  model::StepShape half = kShape;
  half.rows /= 2;
  const std::size_t needed = [] {
    SmallDevice device(kEnough);
    return ops_on(device, DType::kBf16)->scratch_bytes(kShape);
  }();
  SmallDevice device(needed - 1);
  const auto ops = ops_on(device, DType::kBf16);
  const Status refused = ops->reserve(kShape);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code() == ErrorCode::kExhausted);
  CHECK(refused.error().message().find("scratch for") != std::string::npos);
  CHECK(refused.error().message().find("lower batch.tokens") != std::string::npos);
  CHECK(ops->reserve(half).ok());
  CHECK(device.taken() == ops->scratch_bytes(half));
}

TEST_CASE("a shape that no block of the GPU can hold is refused with the setting, at any memory") {
  const auto reserve_on = [](std::size_t shared_bytes, const model::StepShape& shape) {
    CpuDevice device;
    return make_kernel_layer_ops({.device = &device,
                                  .stream = [](Lane) { return Stream{}; },
                                  .products = std::make_unique<HostProducts>(),
                                  .shared_bytes_max = shared_bytes},
                                 DType::kBf16)
        ->reserve(shape);
  };
  const auto problem = [&](const model::StepShape& shape) {
    const Status refused = reserve_on(99 << 10, shape);  // of a GPU for games
    REQUIRE(!refused.ok());
    CHECK(refused.error().code() == ErrorCode::kInvalidConfig);
    return refused.error().message();
  };
  model::StepShape wide = kShape, one_head = kShape;
  wide.width = 25089;
  one_head.longest.head_width = 12641;
  CHECK(problem(wide).find("model.width = 25089") != std::string::npos);
  CHECK(problem(one_head).find("raise model.heads") != std::string::npos);
  wide.width -= 1;
  one_head.longest.head_width -= 1;
  CHECK(reserve_on(99 << 10, wide).ok());
  CHECK(reserve_on(99 << 10, one_head).ok());
}

TEST_CASE("a model whose operations find no room is not made, and says why") {
  const model::LlamaConfig config{
      .vocabulary = 61, .width = 64, .layers = 1, .heads = 2, .kv_heads = 1, .ffn = 72};
  const auto layout = model::ParamLayout::plan(config, 1).value();
  CpuDevice of_model;
  SmallDevice device(1 << 10);
  const auto ops = ops_on(device, DType::kBf16);
  const auto made =
      model::Llama::create(config, layout, {.sequences = 1, .tokens = 8}, of_model, *ops);
  REQUIRE(!made.ok());
  CHECK(made.error().code() == ErrorCode::kExhausted);
  CHECK(made.error().message().find("lower batch.tokens") != std::string::npos);
}

TEST_CASE("what repeats is forgotten before it could use scratch that has moved, and only then") {
  SmallDevice device(kEnough);
  int forgotten = 0, called = 0;
  const auto ops = make_kernel_layer_ops({.device = &device,
                                          .stream = [](Lane) { return Stream{}; },
                                          .products = std::make_unique<HostProducts>(),
                                          .repeats = std::make_unique<CountedRepeats>(forgotten)},
                                         DType::kBf16);
  const auto repeat = [&] { ops->repeat(Lane::kCompute, {}, [&] { ++called; }); };
  REQUIRE(ops->reserve(kShape).ok());
  repeat();
  const int at_first = forgotten;
  repeat();
  CHECK(forgotten == at_first);
  model::StepShape wider = kShape;
  wider.width *= 2;
  REQUIRE(ops->reserve(wider).ok());
  CHECK(forgotten == at_first);  // nothing of it was enqueued since
  repeat();
  CHECK(forgotten == at_first + 1);
  CHECK(called == 3);
}

}  // namespace starling::cuda
