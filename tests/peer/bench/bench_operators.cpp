// What each operator of a step takes alone, again and again with the same operands: its rate of
// floating-point operations and of bytes, as peer/bench/operator_cost.h counts them. `starling
// bench step` has the same operators where a step calls them, with what others have left in the
// caches. Build with STARLING_BENCHMARKS=ON. Threads are not pinned.
//
// Names are operator/shape/arithmetic/threads, shapes those of `starling bench step`.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "base/thread_team.h"
#include "model/cpu/cpu_layer_ops.h"
#include "peer/bench/bench_step.h"
#include "peer/bench/operator_cost.h"
#include "peer/config/config.h"

namespace starling::peer {

namespace {

using model::Compute;
using model::DType;
using model::LayerOps;
using model::Shape;
using model::Tensor;
using model::TypedTensor;

constexpr Lane kLane = Lane::kCompute;
constexpr std::int64_t kHeadRows = 512;  // logits are never whole
constexpr float kEpsilon = 1e-5F;

// Floats of their own; random unless told otherwise.
struct Floats {
  explicit Floats(const Shape& of) : shape(of), values(static_cast<std::size_t>(of.elements())) {}
  Floats(const Shape& of, Rng& rng) : Floats(of) {
    for (float& value : values) value = rng.normal();
  }
  Tensor view() { return {values.data(), shape}; }
  model::ConstTensor view() const { return {values.data(), shape}; }

  Shape shape;
  std::vector<float> values;
};

// What operations keep as an activation.
struct Stored {
  Stored(const Shape& of, DType type, Rng& rng) : floats(of, rng) {
    for (const float value : floats.values) rounded.push_back(to_bf16(value));
    view = type == DType::kF32 ? TypedTensor(floats.view())
                               : TypedTensor(model::TensorView<bf16>{rounded.data(), of});
  }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  Floats floats;
  std::vector<bf16> rounded;
  TypedTensor view;
};

// Matrices, one after the other, as use_weights() wants them, or their gradients.
class Matrices {
 public:
  explicit Matrices(const PeerConfig& config) {
    const model::LlamaConfig& model = config.model;
    const std::int64_t width = model.width, head = width / model.heads;
    add({model.vocabulary, width});
    add({(model.heads + 2 * model.kv_heads) * head, width});
    add({width, width});
    add({2 * model.ffn, width});
    add({width, model.ffn});
    add({width});
    buffer_ = device_.allocate(MemoryKind::kDevice, elements_ * sizeof(float)).value();
  }
  DeviceSpan<float> all() { return buffer_.as<float>(); }
  Tensor embedding() { return at(0); }
  Tensor qkv() { return at(1); }
  Tensor output() { return at(2); }
  Tensor gate_up() { return at(3); }
  Tensor down() { return at(4); }
  Tensor gain() { return at(5); }

 private:
  void add(const Shape& shape) {
    places_.emplace_back(elements_, shape);
    elements_ += static_cast<std::size_t>(shape.elements());
  }
  Tensor at(std::size_t which) {
    return {all().data + places_[which].first, places_[which].second};
  }

  std::vector<std::pair<std::size_t, Shape>> places_;
  std::size_t elements_ = 0;
  CpuDevice device_;
  Buffer buffer_;
};

// Operands of a layer, of the embedding and of the head, and what computes with them.
struct Layer {
  Layer(const PeerConfig& from, int threads, Compute compute);

  template <class Args>
  Cost call(void (LayerOps::*op)(Lane, const Args&), const Args& args) {
    ((*ops).*op)(kLane, args);
    return cost_of(args);
  }
  model::TensorView<const std::int32_t> ids(std::int64_t count) const {
    return {tokens.data(), Shape{count}};
  }
  model::Rotations<> rotations() const { return {cosines.view(), sines.view()}; }
  // Of floats the gradients of the residual stream are already what the next product wants.
  TypedTensor rounded() {
    if (type == DType::kF32) return stream_grad.view();
    return stream_grad_rounded.view;
  }
  TypedTensor head_grad() {
    if (type == DType::kF32) return logits.view();
    return logits_grad.view;
  }

  PeerConfig config;
  Rng rng{1};
  CpuDevice device;
  ThreadTeam team;
  std::unique_ptr<LayerOps> ops;
  DType type;
  std::int64_t rows, width, vocabulary, head_rows;
  model::HeadShape heads;
  Matrices weights, gradients;
  std::vector<std::int32_t> tokens;
  Floats stream, mid, stream_grad, inverse_rms, log_sums, cosines, sines, logits, losses;
  Stored normed, qkv, attended, gate_up, gated;
  Stored normed_grad, qkv_grad, attended_grad, gate_up_grad, stream_grad_rounded, logits_grad;
};

Layer::Layer(const PeerConfig& from, int threads, Compute compute)
    : config(from),
      team(threads),
      ops(model::make_cpu_layer_ops(team, compute)),
      type(ops->activations()),
      rows(config.batch.sequences * config.batch.tokens),
      width(config.model.width),
      vocabulary(config.model.vocabulary),
      head_rows(std::min(rows, kHeadRows)),
      heads{.sequences = config.batch.sequences,
            .tokens = config.batch.tokens,
            .heads = config.model.heads,
            .kv_heads = config.model.kv_heads,
            .head_width = width / config.model.heads},
      weights(config),
      gradients(config),
      stream({rows, width}, rng),
      mid({rows, width}),
      stream_grad({rows, width}, rng),
      inverse_rms({rows}),
      log_sums({heads.sequences, heads.heads, heads.tokens}),
      cosines({heads.tokens, heads.head_width / 2}),
      sines(cosines.shape),
      logits({head_rows, vocabulary}, rng),
      losses({head_rows}),
      normed({rows, width}, type, rng),
      qkv({rows, heads.packed_width()}, type, rng),
      attended({rows, width}, type, rng),
      gate_up({rows, 2 * config.model.ffn}, type, rng),
      gated({rows, config.model.ffn}, type, rng),
      normed_grad({rows, width}, type, rng),
      qkv_grad({rows, heads.packed_width()}, type, rng),
      attended_grad({rows, width}, type, rng),
      gate_up_grad({rows, 2 * config.model.ffn}, type, rng),
      stream_grad_rounded({rows, width}, type, rng),
      logits_grad({head_rows, vocabulary}, type, rng) {
  for (std::int64_t row = 0; row < rows; ++row) {
    tokens.push_back(static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(vocabulary))));
  }
  const DeviceSpan<float> matrices = weights.all();
  const float scale = 1 / std::sqrt(static_cast<float>(width));
  for (std::size_t i = 0; i < matrices.size; ++i) {
    matrices.data[i] = scale * static_cast<float>(rng.normal());
  }
  std::fill_n(gradients.all().data, gradients.all().size, 0.0F);
  for (std::size_t i = 0; i < cosines.values.size(); ++i) {
    const double angle = 6 * rng.unit();
    cosines.values[i] = static_cast<float>(std::cos(angle));
    sines.values[i] = static_cast<float>(std::sin(angle));
  }
  model::HeadShape longest = heads;
  longest.sequences = 1;
  const Status room = ops->reserve({.longest = longest,
                                    .rows = rows,
                                    .width = width,
                                    .parameters = static_cast<std::int64_t>(matrices.size)});
  STARLING_ASSERT(room.ok());
  ops->use_weights(kLane, {matrices.data, matrices.size});
}

struct Operator {
  std::string_view name;
  Cost (*call)(Layer& it);
};

// In the order of a step: what one leaves, the next one takes.
constexpr Operator kOperators[] = {
    {"embed",
     [](Layer& it) {
       return it.call(
           &LayerOps::embed,
           {.out = it.stream.view(), .weight = it.weights.embedding(), .tokens = it.ids(it.rows)});
     }},
    {"rms_norm",
     [](Layer& it) {
       return it.call(&LayerOps::rms_norm, {.out = it.normed.view,
                                            .inverse_rms = it.inverse_rms.view(),
                                            .in = it.stream.view(),
                                            .gain = it.weights.gain(),
                                            .epsilon = kEpsilon});
     }},
    {"linear_rope",
     [](Layer& it) {
       return it.call(&LayerOps::linear_rope, {.qkv = it.qkv.view,
                                               .in = it.normed.view,
                                               .weight = it.weights.qkv(),
                                               .rotations = it.rotations(),
                                               .shape = it.heads});
     }},
    {"attention",
     [](Layer& it) {
       return it.call(&LayerOps::attention, {.out = it.attended.view,
                                             .log_sums = it.log_sums.view(),
                                             .qkv = it.qkv.view,
                                             .shape = it.heads});
     }},
    {"linear_residual",
     [](Layer& it) {
       return it.call(&LayerOps::linear_residual, {.out = it.mid.view(),
                                                   .residual = it.stream.view(),
                                                   .in = it.attended.view,
                                                   .weight = it.weights.output()});
     }},
    {"linear_swiglu",
     [](Layer& it) {
       return it.call(&LayerOps::linear_swiglu, {.gate_up = it.gate_up.view,
                                                 .gated = it.gated.view,
                                                 .in = it.normed.view,
                                                 .weight = it.weights.gate_up()});
     }},
    {"linear",
     [](Layer& it) {
       return it.call(&LayerOps::linear, {.out = it.logits.view(),
                                          .in = it.normed.view.row_range(0, it.head_rows),
                                          .weight = it.weights.embedding()});
     }},
    {"cross_entropy",
     [](Layer& it) {
       return it.call(&LayerOps::cross_entropy, {.gradient = it.head_grad(),
                                                 .losses = it.losses.view(),
                                                 .logits = it.logits.view(),
                                                 .targets = it.ids(it.head_rows)});
     }},
    {"linear_backward",
     [](Layer& it) {
       return it.call(&LayerOps::linear_backward,
                      {.in_grad = it.normed_grad.view.row_range(0, it.head_rows),
                       .weight_grad = it.gradients.embedding(),
                       .out_grad = it.head_grad(),
                       .in = it.normed.view.row_range(0, it.head_rows),
                       .weight = it.weights.embedding()});
     }},
    {"rms_norm_backward",
     [](Layer& it) {
       return it.call(&LayerOps::rms_norm_backward, {.in_grad = it.stream_grad.view(),
                                                     .in_grad_rounded = it.rounded(),
                                                     .gain_grad = it.gradients.gain(),
                                                     .out_grad = it.normed_grad.view,
                                                     .in = it.stream.view(),
                                                     .gain = it.weights.gain(),
                                                     .inverse_rms = it.inverse_rms.view()});
     }},
    {"swiglu_linear_backward",
     [](Layer& it) {
       return it.call(&LayerOps::swiglu_linear_backward, {.gate_up_grad = it.gate_up_grad.view,
                                                          .gated = it.gated.view,
                                                          .weight_grad = it.gradients.down(),
                                                          .out_grad = it.rounded(),
                                                          .gate_up = it.gate_up.view,
                                                          .weight = it.weights.down()});
     }},
    {"attention_backward",
     [](Layer& it) {
       return it.call(&LayerOps::attention_backward, {.qkv_grad = it.qkv_grad.view,
                                                      .out_grad = it.attended_grad.view,
                                                      .out = it.attended.view,
                                                      .log_sums = it.log_sums.view(),
                                                      .qkv = it.qkv.view,
                                                      .rotations = it.rotations(),
                                                      .shape = it.heads});
     }},
    {"embed_backward",
     [](Layer& it) {
       return it.call(&LayerOps::embed_backward, {.weight_grad = it.gradients.embedding(),
                                                  .out_grad = it.stream_grad.view(),
                                                  .tokens = it.ids(it.rows)});
     }},
};

void run(benchmark::State& state, const Operator& measured, std::string_view shape, Compute compute,
         int threads) {
  auto config = parse_config(bench_shape_text(shape), std::string(shape), {});
  Layer layer(config.value(), threads, compute);
  for (const Operator& each : kOperators) each.call(layer);
  Cost cost;
  for (auto _ : state) cost = measured.call(layer);
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(cost.operations, Counter::kIsIterationInvariantRate);
  state.counters["bytes/s"] = Counter(cost.bytes, Counter::kIsIterationInvariantRate);
}

void add_operators(std::string_view shape, Compute compute) {
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (const Operator& each : kOperators) {
    for (int threads = 1; threads <= std::min(processors, 2); ++threads) {
      const std::string name = std::string(each.name) + '/' + std::string(shape) +
                               (compute == Compute::kBf16 ? "/bf16/" : "/fp32/") +
                               std::to_string(threads);
      const auto body = [&each, shape, compute, threads](benchmark::State& state) {
        run(state, each, shape, compute, threads);
      };
      benchmark::RegisterBenchmark(name.c_str(), body)
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace

}  // namespace starling::peer

int main(int argc, char** argv) {
  using starling::model::Compute;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const char* shape : {"tiny", "small", "124M"}) {
    starling::peer::add_operators(shape, Compute::kFp32);
    if (starling::model::has_bf16()) starling::peer::add_operators(shape, Compute::kBf16);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
