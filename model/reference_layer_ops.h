// ReferenceLayerOps: every operation as the plainest loop that says what it means. It is what the
// fast executions are compared with, and in double it is itself compared with finite differences.
// Host memory only, one thread, no care for speed. Sums are in Real; what is an activation is
// rounded once, where it is stored.
#pragma once

#include "model/layer_ops.h"

namespace starling::model {

template <class Real>
class ReferenceLayerOps final : public LayerOpsOf<Real> {
 public:
  explicit ReferenceLayerOps(DType activations = dtype_of<Real>()) : activations_(activations) {}

  // Its values are for a while in vectors, which are not counted.
  std::size_t scratch_bytes(const StepShape&) const override { return 0; }
  Status reserve(const StepShape&) override { return ok_status(); }
  DType activations() const override { return activations_; }

  void zero(Lane lane, TensorView<Real> target) override;
  void embed(Lane lane, const Embed<Real>& args) override;
  void embed_backward(Lane lane, const EmbedBackward<Real>& args) override;
  void rms_norm(Lane lane, const RmsNorm<Real>& args) override;
  void rms_norm_backward(Lane lane, const RmsNormBackward<Real>& args) override;
  void linear(Lane lane, const Linear<Real>& args) override;
  void linear_backward(Lane lane, const LinearBackward<Real>& args) override;
  void linear_residual(Lane lane, const LinearResidual<Real>& args) override;
  void linear_rope(Lane lane, const LinearRope<Real>& args) override;
  void attention(Lane lane, const Attention<Real>& args) override;
  void attention_backward(Lane lane, const AttentionBackward<Real>& args) override;
  void linear_swiglu(Lane lane, const LinearSwiGlu<Real>& args) override;
  void swiglu_linear_backward(Lane lane, const SwiGluLinearBackward<Real>& args) override;
  void cross_entropy(Lane lane, const CrossEntropy<Real>& args) override;

 private:
  const DType activations_;
};

extern template class ReferenceLayerOps<float>;
extern template class ReferenceLayerOps<double>;

}  // namespace starling::model
