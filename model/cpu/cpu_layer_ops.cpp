#include "model/cpu/cpu_layer_ops.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "model/cpu/cpu_attention.h"
#include "model/cpu/cpu_gemm.h"
#include "model/cpu/cpu_parallel.h"
#include "model/cpu/cpu_rows.h"
#include "model/cpu/cpu_scratch.h"
#include "model/cpu/cpu_strips.h"
#include "model/cpu/few_rows.h"
#include "model/cpu/packed_attention.h"
#include "model/cpu/packed_gemm.h"

namespace starling::model {

namespace {

constexpr std::int64_t kTaskValues = 16384;  // what a worker takes at a time: some 10 us
constexpr std::int64_t kTaskColumns = 64;    // at least, so that no cache line has two writers
constexpr std::int64_t kStrip = 128;         // columns of a product that are stored at a time
constexpr std::int64_t kWidestStrip = 512;   // for which PackedGemm has room

class CpuLayerOps final : public LayerOps {
 public:
  CpuLayerOps(ThreadTeam& team, const GemmKernel* kernel) : team_(team), kernel_(kernel) {}

  DType activations() const override { return is_bf16() ? DType::kBf16 : DType::kF32; }
  std::size_t scratch_bytes(const StepShape& largest) const override {
    return CpuScratch(kernel_, team_.size(), largest).bytes();
  }

  Status reserve(const StepShape& largest) override {
    const CpuScratch plan(kernel_, team_.size(), largest);
    longest_ = {.tokens = 0};
    width_ = 0;
    heads_.clear();
    packed_.reset();
    scratch_ = Buffer();
    // As all large memory: in huge pages where there are such.
    auto scratch = CpuDevice().allocate(MemoryKind::kDevice, plan.bytes());
    if (!scratch.ok()) return plan.no_room(largest);
    scratch_ = std::move(scratch).value();
    auto* memory = scratch_.as<std::byte>().data;
    longest_ = largest.longest;
    width_ = largest.width;
    of_worker_ = plan.of_worker();
    gain_parts_ = reinterpret_cast<float*>(memory + plan.gain_parts_at());
    if (!is_bf16()) {
      depth_sums_ = {reinterpret_cast<float*>(memory), depth_sums(team_.size())};
      return ok_status();
    }
    packed_.emplace(*kernel_, team_, memory);
    deep_sums_ = reinterpret_cast<float*>(memory + plan.deep_sums_at());
    heads_.reserve(static_cast<std::size_t>(team_.size()));
    for (int worker = 0; worker < team_.size(); ++worker) {
      heads_.emplace_back(*kernel_, longest_, memory + plan.worker_at(worker));
    }
    return ok_status();
  }

  void zero(Lane, Tensor target) override {
    for_rows(target, [&](RowRange rows) {
      const std::int64_t width = target.columns();
      std::fill_n(target.data + rows.first * width, rows.count * width, 0.0F);
    });
  }

  void embed(Lane, const Embed<>& args) override {
    const std::int64_t width = args.out.columns();
    STARLING_ASSERT(args.weight.columns() == width);
    STARLING_ASSERT(args.tokens.elements() == args.out.rows());
    for_rows(args.out, [&](RowRange rows) {
      for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
        std::copy_n(args.weight.data + args.tokens.data[row] * width, width,
                    args.out.data + row * width);
      }
    });
  }

  void embed_backward(Lane, const EmbedBackward<>& args) override {
    STARLING_ASSERT(args.weight_grad.columns() == args.out_grad.columns());
    STARLING_ASSERT(args.tokens.elements() == args.out_grad.rows());
    for_columns(args.out_grad, [&](RowRange columns) { embed_backward_columns(args, columns); });
  }

  void rms_norm(Lane, const RmsNorm<>& args) override {
    STARLING_ASSERT(args.in.shape == args.out.shape);
    STARLING_ASSERT(args.gain.elements() == args.in.columns());
    STARLING_ASSERT(args.inverse_rms.elements() == args.in.rows());
    for_rows(args.in, [&](RowRange rows) { rms_norm_rows(args, rows); });
  }

  void rms_norm_backward(Lane lane, const RmsNormBackward<>& args) override {
    STARLING_ASSERT(args.in.shape == args.in_grad.shape);
    STARLING_ASSERT(args.in.shape == args.out_grad.shape);
    STARLING_ASSERT(args.gain.shape == args.gain_grad.shape);
    const std::int64_t rows = args.in.rows(), width = args.in.columns();
    STARLING_ASSERT(width <= width_);
    const std::int64_t grain = std::max(grain_of(args.in), divide_up(rows, kGainPartsMax));
    parallel_rows(team_, {.rows = rows, .grain = grain}, [&](RowRange part) {
      rms_norm_backward_rows(args, part, gain_parts_ + part.first / grain * width);
    });
    const ConstTensor parts{gain_parts_, {divide_up(rows, grain), width}};
    if (!args.adds) zero(lane, args.gain_grad);
    for_columns(parts, [&](RowRange columns) { add_rows_up(parts, columns, args.gain_grad.data); });
  }

  void linear(Lane, const Linear<>& args) override { multiply(forward(args), args.out, false); }

  void linear_backward(Lane, const LinearBackward<>& args) override {
    add_weight_grad(args.weight_grad, args.out_grad, args.in, args.adds);
    multiply(backward(args.out_grad, args.weight), args.in_grad, false);
  }

  void linear_residual(Lane, const LinearResidual<>& args) override {
    STARLING_ASSERT(args.out.shape == args.residual.shape);
    const Factors factors = forward(args);
    if (is_bf16()) {
      multiply_into(factors, {.strip = kStrip}, args);
      return;
    }
    for_rows(args.out, [&](RowRange rows) {
      const std::int64_t width = args.out.columns(), first = rows.first * width;
      std::copy_n(args.residual.data + first, rows.count * width, args.out.data + first);
    });
    multiply(factors, args.out, true);
  }

  void linear_rope(Lane, const LinearRope<>& args) override {
    const HeadShape& shape = args.shape;
    check(shape, args.qkv);
    check(args.rotations, shape);
    const Factors factors = forward(args);
    const std::int64_t heads = std::max<std::int64_t>(1, kStrip / shape.head_width);
    if (comes_whole(factors) && shape.head_width <= kWidestStrip) {
      multiply_into(factors, {.strip = heads * shape.head_width}, args);
      return;
    }
    multiply(factors, args.qkv, false);
    turn(args.qkv, args.rotations, shape, 1.0F);
  }

  void attention(Lane, const Attention<>& args) override {
    const HeadShape& shape = args.shape;
    check(shape, args.qkv);
    check(shape, args.out, args.log_sums);
    team_.run(shape.sequences * shape.heads, [&](std::int64_t task, int worker) {
      const HeadIndex at{task / shape.heads, task % shape.heads};
      if (is_bf16()) {
        heads_[static_cast<std::size_t>(worker)].head(args, at);
      } else {
        attention_head(args, at, scratch_of(worker));
      }
    });
  }

  void attention_backward(Lane, const AttentionBackward<>& args) override {
    const HeadShape& shape = args.shape;
    check(shape, args.qkv);
    check(shape, args.qkv_grad);
    check(shape, args.out_grad, args.log_sums);
    check(shape, args.out, args.log_sums);
    check(args.rotations, shape);
    team_.run(shape.sequences * shape.kv_heads, [&](std::int64_t task, int worker) {
      const HeadIndex at{task / shape.kv_heads, task % shape.kv_heads};
      if (is_bf16()) {
        heads_[static_cast<std::size_t>(worker)].head_backward(args, at);
      } else {
        attention_head_backward(args, at, scratch_of(worker));
      }
    });
    if (!is_bf16()) turn(args.qkv_grad, args.rotations, shape, -1.0F);
  }

  void linear_swiglu(Lane, const LinearSwiGlu<>& args) override {
    STARLING_ASSERT(args.gate_up.rows() == args.gated.rows());
    STARLING_ASSERT(args.gate_up.columns() == 2 * args.gated.columns());
    const Factors factors = forward(args);
    if (comes_whole(factors)) {
      multiply_into(factors, {.strip = kStrip / 2, .paired = true}, args);
      return;
    }
    multiply(factors, args.gate_up, false);
    for_rows(args.gate_up, [&](RowRange rows) { swiglu_rows(args, rows); });
  }

  void swiglu_linear_backward(Lane, const SwiGluLinearBackward<>& args) override {
    STARLING_ASSERT(args.gate_up.shape == args.gate_up_grad.shape);
    STARLING_ASSERT(args.gate_up.rows() == args.gated.rows());
    STARLING_ASSERT(args.gate_up.columns() == 2 * args.gated.columns());
    const Factors factors = backward(args.out_grad, args.weight);
    if (comes_whole(factors)) {
      multiply_into(factors, {.strip = kStrip}, args);
    } else {
      multiply(factors, args.gated, false);
      for_rows(args.gate_up, [&](RowRange rows) { swiglu_backward_rows(args, rows); });
    }
    add_weight_grad(args.weight_grad, args.out_grad, args.gated, args.adds);
  }

  void cross_entropy(Lane, const CrossEntropy<>& args) override {
    STARLING_ASSERT(args.gradient.shape == args.logits.shape);
    STARLING_ASSERT(args.losses.elements() == args.logits.rows());
    STARLING_ASSERT(args.targets.elements() == args.logits.rows());
    for_rows(args.logits, [&](RowRange rows) { cross_entropy_rows(args, rows); });
  }

 private:
  bool is_bf16() const { return kernel_ != nullptr; }

  // Of a product: sums over the depth of left(row, k) * right(column, k).
  struct Factor {
    ConstTypedTensor values;
    bool transposed = false;  // stored depth by depth
  };
  struct Factors {
    Factor left, right;
    std::int64_t rows, columns, depth;
  };
  struct Cut {  // as Product has it
    std::int64_t strip;
    bool paired = false;
  };

  template <class Args>
  static Factors forward(const Args& args) {
    const TypedTensor out = out_of(args);
    const std::int64_t inputs = args.in.columns(), outputs = out.columns();
    STARLING_ASSERT(args.in.rows() == out.rows());
    STARLING_ASSERT((args.weight.shape == Shape{outputs, inputs}));
    return {{args.in}, {args.weight}, out.rows(), outputs, inputs};
  }
  static TypedTensor out_of(const Linear<>& args) { return args.out; }
  static TypedTensor out_of(const LinearResidual<>& args) { return args.out; }
  static TypedTensor out_of(const LinearRope<>& args) { return args.qkv; }
  static TypedTensor out_of(const LinearSwiGlu<>& args) { return args.gate_up; }

  static Factors backward(const ConstTypedTensor& out_grad, const ConstTensor& weight) {
    STARLING_ASSERT(out_grad.columns() == weight.rows());
    return {{out_grad}, {weight, true}, out_grad.rows(), weight.columns(), weight.rows()};
  }

  void add_weight_grad(const Tensor& weight_grad, const ConstTypedTensor& out_grad,
                       const ConstTypedTensor& in, bool adds) {
    STARLING_ASSERT(out_grad.rows() == in.rows());
    STARLING_ASSERT((weight_grad.shape == Shape{out_grad.columns(), in.columns()}));
    const Factors factors{
        {out_grad, true}, {in, true}, out_grad.columns(), in.columns(), in.rows()};
    if (!is_bf16()) return gemm_by_depth(team_, gemm_of(factors, weight_grad, adds), depth_sums_);
    packed_->run_by_depth(product_of(factors, {kStrip}),
                          [&](const Strip& strip) { store_strip(strip, adds, weight_grad); });
  }

  // Packed, and its sums come in one piece.
  bool comes_whole(const Factors& of) const { return is_bf16() && of.depth <= kPackedDepth; }
  static ProductOperand operand(const Factor& of) {
    const std::int64_t stride = of.values.columns();
    if (of.values.dtype == DType::kBf16) {
      return PanelSource<bf16>{of.values.as<bf16>().data, stride, of.transposed};
    }
    return PanelSource<float>{of.values.as<float>().data, stride, of.transposed};
  }
  static Product product_of(const Factors& of, const Cut& cut) {
    return {operand(of.left), operand(of.right), of.rows,   of.columns,
            of.depth,         cut.strip,         cut.paired};
  }
  // What becomes of the sums is the operation's.
  template <class Args>
  void multiply_into(const Factors& of, const Cut& cut, const Args& args) {
    run(product_of(of, cut), [&](const Strip& strip) { store_strip(strip, args); });
  }
  void run(const Product& product, const StripStore& store) {
    if (is_few_rows(product)) return multiply_few_rows(team_, product, store);
    STARLING_ASSERT(packed_.has_value());
    packed_->run(product, store);
  }

  // out = the product, or is added to.
  void multiply(const Factors& of, const TypedTensor& out, bool adds) {
    if (!is_bf16()) return parallel_gemm(team_, gemm_of(of, out.as<float>(), adds));
    const Product product = product_of(of, {kStrip});
    if (out.dtype == DType::kBf16 && !comes_whole(of)) return multiply_deep(product, out);
    run(product, [&](const Strip& strip) { store_strip(strip, adds, out); });
  }
  // Sums that come in parts, and are rounded once: some rows at a time.
  void multiply_deep(const Product& product, const TypedTensor& out) {
    const std::int64_t at_once = kDeepSums / product.columns;
    STARLING_ASSERT(at_once > 0);
    for (std::int64_t first = 0; first < product.rows; first += at_once) {
      Product some = product;
      some.rows = std::min(at_once, product.rows - first);
      some.left = product.left.at(first, 0);
      const Tensor sums{deep_sums_, {some.rows, product.columns}};
      run(some, [&](const Strip& strip) { store_strip(strip, false, sums); });
      const TypedTensor to = out.row_range(first, some.rows);
      for_rows(sums, [&](RowRange rows) { round_rows(sums, to, rows); });
    }
  }
  static Gemm gemm_of(const Factors& of, const Tensor& to, bool adds) {
    const ConstTensor left = of.left.values.as<float>(), right = of.right.values.as<float>();
    return {.out = to.data,
            .out_stride = to.columns(),
            .left = {left.data, left.columns(), of.left.transposed},
            .right = {right.data, right.columns(), !of.right.transposed},
            .rows = of.rows,
            .columns = of.columns,
            .inner = of.depth,
            .keep = adds ? 1.0F : 0.0F};
  }

  void turn(const TypedTensor& qkv, const Rotations<>& rotations, const HeadShape& shape,
            float sign) {
    for_rows(qkv, [&](RowRange rows) { rope_rows({qkv, rotations, shape, sign}, rows); });
  }

  template <class View>
  static std::int64_t grain_of(const View& values) {
    return std::max<std::int64_t>(1, kTaskValues / values.columns());
  }
  template <class View, class Body>
  void for_rows(const View& values, const Body& body) const {
    parallel_rows(team_, {.rows = values.rows(), .grain = grain_of(values)}, body);
  }
  // Where all rows add into the same ones.
  template <class T, class Body>
  void for_columns(const TensorView<T>& values, const Body& body) const {
    const std::int64_t grain = std::max(kTaskColumns, kTaskValues / values.rows());
    parallel_rows(team_, {.rows = values.columns(), .grain = grain}, body);
  }

  static void check(const HeadShape& shape, const ConstTypedTensor& qkv) {
    STARLING_ASSERT(qkv.rows() == shape.sequences * shape.tokens);
    STARLING_ASSERT(qkv.columns() == shape.packed_width());
  }
  static void check(const Rotations<>& rotations, const HeadShape& shape) {
    STARLING_ASSERT(rotations.cosines.rows() >= shape.tokens);
    STARLING_ASSERT(rotations.cosines.columns() == shape.head_width / 2);
    STARLING_ASSERT(rotations.cosines.shape == rotations.sines.shape);
  }
  void check(const HeadShape& shape, const ConstTypedTensor& out,
             const ConstTensor& log_sums) const {
    STARLING_ASSERT(out.rows() == shape.sequences * shape.tokens);
    STARLING_ASSERT(out.columns() == shape.heads * shape.head_width);
    STARLING_ASSERT(log_sums.elements() == shape.sequences * shape.heads * shape.tokens);
    STARLING_ASSERT(shape.tokens <= longest_.tokens);
    STARLING_ASSERT(shape.head_width <= longest_.head_width);
  }

  // For floats: attention of one worker.
  float* scratch_of(int worker) {
    const std::size_t at = static_cast<std::size_t>(worker) * of_worker_;
    return reinterpret_cast<float*>(scratch_.as<std::byte>().data + at);
  }

  ThreadTeam& team_;
  const GemmKernel* kernel_;  // null: products of floats
  // As reserved.
  HeadShape longest_{.tokens = 0};
  std::int64_t width_ = 0;
  std::size_t of_worker_ = 0;
  Buffer scratch_;
  std::span<float> depth_sums_;                         // products of floats; else empty
  float *gain_parts_ = nullptr, *deep_sums_ = nullptr;  // in scratch_; the second for bf16
  // For bf16, in scratch_: products, and attention of each worker.
  std::optional<PackedGemm> packed_;
  std::vector<PackedAttention> heads_;
};

}  // namespace

bool has_bf16() { return !gemm_kernels().empty(); }
bool bf16_is_faster() { return last_kernel_is_faster(); }

std::size_t cpu_scratch_bytes(Compute compute, int threads, const StepShape& largest) {
  // Of AMX, but that it does nothing.
  static constexpr GemmKernel kElsewhere{"elsewhere", 32,      32,      32,      false,   nullptr,
                                         nullptr,     nullptr, nullptr, nullptr, nullptr, nullptr};
  const GemmKernel* kernel = nullptr;
  if (compute == Compute::kBf16) kernel = has_bf16() ? gemm_kernels().back() : &kElsewhere;
  return CpuScratch(kernel, threads, largest).bytes();
}

std::unique_ptr<LayerOps> make_cpu_layer_ops(ThreadTeam& team, Compute compute) {
  if (compute == Compute::kFp32) return std::make_unique<CpuLayerOps>(team, nullptr);
  STARLING_ASSERT(has_bf16());
  return make_cpu_layer_ops(team, *gemm_kernels().back());
}

std::unique_ptr<LayerOps> make_cpu_layer_ops(ThreadTeam& team, const GemmKernel& kernel) {
  return std::make_unique<CpuLayerOps>(team, &kernel);
}

}  // namespace starling::model
