// The operator cases of RMSNorm.
#include <doctest/doctest.h>

#include <utility>

#include "tests/model/case_values.h"
#include "tests/model/operator_cases.h"
#include "tests/model/stored.h"

namespace starling::model {

namespace {
constexpr Lane kLane = Lane::kCompute;
}

template <class Real>
OperatorCase<Real> rms_norm_case(Rng& rng, const Shape& shape) {
  const Shape row{shape.dims[0]};
  const std::int64_t width = shape.dims[1];
  const auto forward = [=](LayerOpsOf<Real>& ops, const auto& in, Owned<Real>& inverse_rms) {
    REQUIRE(ops.reserve({.longest = {}, .width = width}).ok());
    Stored out(shape, ops.activations());
    ops.rms_norm(kLane, {.out = out.view(),
                         .inverse_rms = inverse_rms.view(),
                         .in = in[0].view(),
                         .gain = in[1].view(),
                         .epsilon = 0.01F});
    return out.loaded<Real>();
  };
  return {"rms_norm",
          {random_tensor<Real>(rng, shape), random_tensor<Real>(rng, {width})},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            Owned<Real> inverse_rms = unset<Real>(row);
            return forward(ops, in, inverse_rms);
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            Owned<Real> inverse_rms = unset<Real>(row);
            forward(ops, in, inverse_rms);
            Owned<Real> in_grad = already<Real>(shape), gain = already<Real>({width});
            const Stored gradient(out_grad, ops.activations());
            Stored rounded(shape, ops.activations());
            const bool is_apart = ops.activations() != dtype_of<Real>();
            ops.rms_norm_backward(
                kLane, {.in_grad = in_grad.view(),
                        .in_grad_rounded = is_apart ? rounded.view() : TypedTensor(in_grad.view()),
                        .gain_grad = gain.view(),
                        .out_grad = gradient.view(),
                        .in = in[0].view(),
                        .gain = in[1].view(),
                        .inverse_rms = std::as_const(inverse_rms).view()});
            const Stored expected(in_grad, ops.activations());
            if (is_apart) CHECK(rounded.loaded<Real>().values == expected.loaded<Real>().values);
            return std::vector{minus_already(in_grad), minus_already(gain)};
          }};
}

// Its outputs side by side: the sum, its norm, and what the norm divided by. Its backward is that
// of LinearResidual and RmsNorm.
template <class Real>
OperatorCase<Real> linear_residual_norm_case(Rng& rng, const Shape& out_shape,
                                             std::int64_t inputs) {
  const std::int64_t tokens = out_shape.dims[0], outputs = out_shape.dims[1];
  const Shape in_shape{tokens, inputs}, weight_shape{outputs, inputs};
  return {"linear_residual_norm",
          {random_tensor<Real>(rng, in_shape), random_tensor<Real>(rng, weight_shape),
           random_tensor<Real>(rng, out_shape), random_tensor<Real>(rng, {outputs})},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            const Stored left(in[0], ops.activations());
            Owned<Real> sum = unset<Real>(out_shape), inverse_rms = unset<Real>({tokens});
            Stored normed(out_shape, ops.activations());
            ops.linear_residual_norm(kLane, {.out = sum.view(),
                                             .normed = normed.view(),
                                             .inverse_rms = inverse_rms.view(),
                                             .residual = in[2].view(),
                                             .in = left.view(),
                                             .weight = in[1].view(),
                                             .gain = in[3].view(),
                                             .epsilon = 0.01F});
            Owned<Real> all({2 * sum.view().elements() + tokens});
            all.values.clear();
            for (const auto& part : {sum, normed.template loaded<Real>(), inverse_rms}) {
              all.values.insert(all.values.end(), part.values.begin(), part.values.end());
            }
            return all;
          },
          {}};
}

template OperatorCase<float> rms_norm_case(Rng&, const Shape&);
template OperatorCase<double> rms_norm_case(Rng&, const Shape&);
template OperatorCase<float> linear_residual_norm_case(Rng&, const Shape&, std::int64_t);
template OperatorCase<double> linear_residual_norm_case(Rng&, const Shape&, std::int64_t);

}  // namespace starling::model
