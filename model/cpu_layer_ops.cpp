#include "model/cpu_layer_ops.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/cpu_device.h"
#include "model/cpu_attention.h"
#include "model/cpu_gemm.h"
#include "model/cpu_parallel.h"
#include "model/cpu_rows.h"
#include "model/packed_gemm.h"

namespace starling::model {

namespace {

constexpr std::int64_t kTaskValues = 16384;  // what a worker takes at a time: some 10 us
constexpr std::int64_t kTaskColumns = 64;    // at least, so that no cache line has two writers
constexpr std::int64_t kStrip = 128;         // columns of a product that are stored at a time

class CpuLayerOps final : public LayerOps {
 public:
  CpuLayerOps(ThreadTeam& team, const GemmKernel* kernel) : team_(team) {
    if (kernel == nullptr) return;
    packed_.emplace(*kernel, team);
    for (int worker = 0; worker < team.size(); ++worker) {
      packed_alone_.push_back(std::make_unique<PackedGemm>(*kernel, alone_));
    }
  }

  void reserve(const HeadShape& largest) override {
    scratch_per_worker_ = attention_scratch(largest.tokens);
    // As all large memory: in huge pages where there are such.
    auto scratch = CpuDevice().allocate(
        MemoryKind::kDevice,
        sizeof(float) * static_cast<std::size_t>(scratch_per_worker_ * team_.size()));
    STARLING_ASSERT(scratch.ok());  // little beside the activations, which are there already
    scratch_ = std::move(scratch).value();
  }

  void zero(Lane, Tensor target) override {
    std::fill(target.data, target.data + target.elements(), 0.0F);
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

  void rms_norm_backward(Lane, const RmsNormBackward<>& args) override {
    STARLING_ASSERT(args.in.shape == args.in_grad.shape);
    STARLING_ASSERT(args.in.shape == args.out_grad.shape);
    STARLING_ASSERT(args.gain.shape == args.gain_grad.shape);
    for_rows(args.in, [&](RowRange rows) { rms_norm_backward_rows(args, rows); });
    for_columns(args.in, [&](RowRange columns) { gain_grad_columns(args, columns); });
  }

  void linear(Lane, const Linear<>& args) override {
    const std::int64_t inputs = args.in.columns(), outputs = args.out.columns();
    STARLING_ASSERT(args.in.rows() == args.out.rows());
    STARLING_ASSERT((args.weight.shape == Shape{outputs, inputs}));
    multiply({.left = {args.in.data, inputs, false},
              .right = {args.weight.data, inputs, false},
              .rows = args.in.rows(),
              .columns = outputs,
              .depth = inputs},
             args.out, Keep::kNothing);
  }

  void linear_backward(Lane, const LinearBackward<>& args) override {
    const std::int64_t inputs = args.in.columns(), outputs = args.out_grad.columns();
    const std::int64_t tokens = args.in.rows();
    STARLING_ASSERT(args.in.shape == args.in_grad.shape);
    STARLING_ASSERT(args.out_grad.rows() == tokens);
    STARLING_ASSERT((args.weight.shape == Shape{outputs, inputs}));
    STARLING_ASSERT(args.weight.shape == args.weight_grad.shape);
    multiply({.left = {args.out_grad.data, outputs, true},
              .right = {args.in.data, inputs, true},
              .rows = outputs,
              .columns = inputs,
              .depth = tokens},
             args.weight_grad, Keep::kSums);
    multiply({.left = {args.out_grad.data, outputs, false},
              .right = {args.weight.data, inputs, true},
              .rows = tokens,
              .columns = inputs,
              .depth = outputs},
             args.in_grad, Keep::kNothing);
  }

  void rope(Lane, const Rope<>& args) override {
    STARLING_ASSERT(args.qkv.rows() == args.shape.sequences * args.shape.tokens);
    STARLING_ASSERT(args.qkv.columns() == args.shape.packed_width());
    STARLING_ASSERT(args.cosines.rows() >= args.shape.tokens);
    STARLING_ASSERT(args.cosines.columns() == args.shape.head_width / 2);
    STARLING_ASSERT(args.cosines.shape == args.sines.shape);
    for_rows(args.qkv, [&](RowRange rows) { rope_rows(args, rows); });
  }

  void attention(Lane, const Attention<>& args) override {
    const HeadShape& shape = args.shape;
    check(shape, args.qkv, args.out);
    STARLING_ASSERT(args.log_sums.elements() == shape.sequences * shape.heads * shape.tokens);
    team_.run(shape.sequences * shape.heads, [&](std::int64_t task, int worker) {
      attention_head(args, {task / shape.heads, task % shape.heads}, worker_of(worker));
    });
  }

  void attention_backward(Lane, const AttentionBackward<>& args) override {
    const HeadShape& shape = args.shape;
    check(shape, args.qkv, args.out_grad);
    STARLING_ASSERT(args.qkv.shape == args.qkv_grad.shape);
    STARLING_ASSERT(args.log_sums.elements() == shape.sequences * shape.heads * shape.tokens);
    team_.run(shape.sequences * shape.kv_heads, [&](std::int64_t task, int worker) {
      attention_head_backward(args, {task / shape.kv_heads, task % shape.kv_heads},
                              worker_of(worker));
    });
  }

  void swiglu(Lane, const SwiGlu<>& args) override {
    STARLING_ASSERT(args.gate_up.rows() == args.out.rows());
    STARLING_ASSERT(args.gate_up.columns() == 2 * args.out.columns());
    for_rows(args.gate_up, [&](RowRange rows) { swiglu_rows(args, rows); });
  }

  void swiglu_backward(Lane, const SwiGluBackward<>& args) override {
    STARLING_ASSERT(args.gate_up.shape == args.gate_up_grad.shape);
    STARLING_ASSERT(args.gate_up.rows() == args.out_grad.rows());
    STARLING_ASSERT(args.gate_up.columns() == 2 * args.out_grad.columns());
    for_rows(args.gate_up, [&](RowRange rows) { swiglu_backward_rows(args, rows); });
  }

  void residual_add(Lane, const ResidualAdd<>& args) override {
    STARLING_ASSERT(args.out.shape == args.left.shape);
    STARLING_ASSERT(args.out.shape == args.right.shape);
    for_rows(args.out, [&](RowRange rows) { residual_add_rows(args, rows); });
  }

  void cross_entropy(Lane, const CrossEntropy<>& args) override {
    STARLING_ASSERT(args.losses.elements() == args.logits.rows());
    STARLING_ASSERT(args.targets.elements() == args.logits.rows());
    for_rows(args.logits, [&](RowRange rows) { cross_entropy_rows(args, rows); });
  }

 private:
  enum class Keep : std::uint8_t { kNothing, kSums };  // of what is in `out`
  struct Factors {
    PanelSource<float> left, right;
    std::int64_t rows, columns, depth;
  };
  void multiply(const Factors& of, const Tensor& out, Keep keep) {
    if (packed_ && std::min(of.rows, of.depth) >= kPackedMin) {
      packed_->run({of.left, of.right, of.rows, of.columns, of.depth, kStrip},
                   [&](const Strip& strip) {
                     store_strip(strip, keep == Keep::kSums, out.data, out.columns());
                   });
      return;
    }
    parallel_gemm(team_, {.out = out.data,
                          .out_stride = out.columns(),
                          .left = {of.left.data, of.left.stride, of.left.transposed},
                          .right = {of.right.data, of.right.stride, !of.right.transposed},
                          .rows = of.rows,
                          .columns = of.columns,
                          .inner = of.depth,
                          .keep = keep == Keep::kSums ? 1.0F : 0.0F});
  }

  template <class T, class Body>
  void for_rows(const TensorView<T>& values, const Body& body) const {
    const std::int64_t grain = std::max<std::int64_t>(1, kTaskValues / values.columns());
    parallel_rows(team_, {.rows = values.rows(), .grain = grain}, body);
  }
  // Where all rows add into the same ones.
  template <class T, class Body>
  void for_columns(const TensorView<T>& values, const Body& body) const {
    const std::int64_t grain = std::max(kTaskColumns, kTaskValues / values.rows());
    parallel_rows(team_, {.rows = values.columns(), .grain = grain}, body);
  }

  void check(const HeadShape& shape, const ConstTensor& qkv, const ConstTensor& out) const {
    STARLING_ASSERT(qkv.rows() == shape.sequences * shape.tokens);
    STARLING_ASSERT(qkv.columns() == shape.packed_width());
    STARLING_ASSERT(out.rows() == qkv.rows());
    STARLING_ASSERT(out.columns() == shape.heads * shape.head_width);
    STARLING_ASSERT(scratch_per_worker_ >= attention_scratch(shape.tokens));
  }

  AttentionWorker worker_of(int worker) {
    return {scratch_.as<float>().data + worker * scratch_per_worker_,
            packed_ ? packed_alone_[static_cast<std::size_t>(worker)].get() : nullptr};
  }

  ThreadTeam& team_;
  // For bf16: by all workers, and by each on its own.
  std::optional<PackedGemm> packed_;
  ThreadTeam alone_{1};
  std::vector<std::unique_ptr<PackedGemm>> packed_alone_;
  std::int64_t scratch_per_worker_ = 0;
  Buffer scratch_;
};

}  // namespace

bool has_bf16() { return !gemm_kernels().empty(); }
bool bf16_is_faster() { return last_kernel_is_faster(); }

std::unique_ptr<LayerOps> make_cpu_layer_ops(ThreadTeam& team, Compute compute) {
  if (compute == Compute::kFp32) return std::make_unique<CpuLayerOps>(team, nullptr);
  STARLING_ASSERT(has_bf16());
  return std::make_unique<CpuLayerOps>(team, gemm_kernels().back());
}

}  // namespace starling::model
