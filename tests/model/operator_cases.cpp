#include "tests/model/operator_cases.h"

#include <cmath>
#include <limits>

namespace starling::model {

namespace {

constexpr Lane kLane = Lane::kCompute;
// What is there already where a gradient is added to; and what must not survive where it is set.
constexpr double kAlready = 0.5;

std::int64_t between(Rng& rng, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
}

template <class Real>
Owned<Real> unset(const Shape& shape) {
  return Owned<Real>(shape, std::numeric_limits<Real>::quiet_NaN());
}

template <class Real>
Owned<Real> already(const Shape& shape) {
  return Owned<Real>(shape, static_cast<Real>(kAlready));
}

template <class Real>
Owned<Real> minus_already(Owned<Real> sum) {
  for (Real& value : sum.values) value -= static_cast<Real>(kAlready);
  return sum;
}

std::vector<std::int32_t> random_tokens(Rng& rng, std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(between(rng, 0, vocabulary - 1)));
  }
  return tokens;
}

TensorView<const std::int32_t> view_of(const std::vector<std::int32_t>& tokens) {
  return {tokens.data(), Shape{std::ssize(tokens)}};
}

struct Sizes {
  std::int64_t tokens, width, outputs;
};

Sizes random_sizes(Rng& rng, CaseSize size) {
  if (size == CaseSize::kSmall) return {between(rng, 1, 4), between(rng, 1, 5), between(rng, 1, 5)};
  return {between(rng, 1, 150), between(rng, 1, 200), between(rng, 1, 130)};
}

HeadShape random_heads(Rng& rng, CaseSize size) {
  const bool small = size == CaseSize::kSmall;
  HeadShape shape;
  shape.sequences = between(rng, 1, small ? 2 : 3);
  shape.tokens = between(rng, 1, small ? 5 : 150);
  shape.kv_heads = between(rng, 1, 2);
  shape.heads = shape.kv_heads * between(rng, 1, 3);
  shape.head_width = 2 * between(rng, 1, small ? 2 : 20);
  return shape;
}

template <class Real>
OperatorCase<Real> embed_case(Rng& rng, const Sizes& sizes) {
  const auto tokens = random_tokens(rng, sizes.tokens, sizes.outputs);
  const Shape out_shape{sizes.tokens, sizes.width}, weight_shape{sizes.outputs, sizes.width};
  return {
      "embed",
      {random_tensor<Real>(rng, weight_shape)},
      [=](LayerOpsOf<Real>& ops, const auto& in) {
        Owned<Real> out = unset<Real>(out_shape);
        ops.embed(kLane, {.out = out.view(), .weight = in[0].view(), .tokens = view_of(tokens)});
        return out;
      },
      [=](LayerOpsOf<Real>& ops, const auto&, const Owned<Real>& out_grad) {
        Owned<Real> weight = already<Real>(weight_shape);
        ops.embed_backward(
            kLane,
            {.weight_grad = weight.view(), .out_grad = out_grad.view(), .tokens = view_of(tokens)});
        return std::vector{minus_already(weight)};
      }};
}

template <class Real>
OperatorCase<Real> rms_norm_case(Rng& rng, const Sizes& sizes) {
  const Shape shape{sizes.tokens, sizes.width}, row{sizes.tokens};
  const auto forward = [=](LayerOpsOf<Real>& ops, const auto& in, Owned<Real>& inverse_rms) {
    Owned<Real> out = unset<Real>(shape);
    ops.rms_norm(kLane, {.out = out.view(),
                         .inverse_rms = inverse_rms.view(),
                         .in = in[0].view(),
                         .gain = in[1].view(),
                         .epsilon = 0.01F});
    return out;
  };
  return {"rms_norm",
          {random_tensor<Real>(rng, shape), random_tensor<Real>(rng, {sizes.width})},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            Owned<Real> inverse_rms = unset<Real>(row);
            return forward(ops, in, inverse_rms);
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            Owned<Real> inverse_rms = unset<Real>(row);
            forward(ops, in, inverse_rms);
            Owned<Real> in_grad = already<Real>(shape), gain = already<Real>({sizes.width});
            ops.rms_norm_backward(kLane, {.in_grad = in_grad.view(),
                                          .gain_grad = gain.view(),
                                          .out_grad = out_grad.view(),
                                          .in = in[0].view(),
                                          .gain = in[1].view(),
                                          .inverse_rms = std::as_const(inverse_rms).view()});
            return std::vector{minus_already(in_grad), minus_already(gain)};
          }};
}

template <class Real>
OperatorCase<Real> linear_case(Rng& rng, const Sizes& sizes) {
  const Shape in_shape{sizes.tokens, sizes.width}, weight_shape{sizes.outputs, sizes.width};
  return {"linear",
          {random_tensor<Real>(rng, in_shape), random_tensor<Real>(rng, weight_shape)},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            Owned<Real> out = unset<Real>({sizes.tokens, sizes.outputs});
            ops.linear(kLane, {.out = out.view(), .in = in[0].view(), .weight = in[1].view()});
            return out;
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            Owned<Real> in_grad = unset<Real>(in_shape), weight = already<Real>(weight_shape);
            ops.linear_backward(kLane, {.in_grad = in_grad.view(),
                                        .weight_grad = weight.view(),
                                        .out_grad = out_grad.view(),
                                        .in = in[0].view(),
                                        .weight = in[1].view()});
            return std::vector{in_grad, minus_already(weight)};
          }};
}

template <class Real>
OperatorCase<Real> rope_case(Rng& rng, const HeadShape& heads) {
  const Shape table{heads.tokens + 1, heads.head_width / 2};
  Owned<Real> cosines(table), sines(table);
  for (std::size_t i = 0; i < cosines.values.size(); ++i) {
    const double angle = 6.0 * rng.unit();
    cosines.values[i] = static_cast<Real>(static_cast<float>(std::cos(angle)));
    sines.values[i] = static_cast<Real>(static_cast<float>(std::sin(angle)));
  }
  const auto turn = [=](LayerOpsOf<Real>& ops, Owned<Real> qkv, Rotation rotation) {
    ops.rope(kLane, {.qkv = qkv.view(),
                     .cosines = cosines.view(),
                     .sines = sines.view(),
                     .shape = heads,
                     .rotation = rotation});
    return qkv;
  };
  return {
      "rope",
      {random_tensor<Real>(rng, {heads.sequences * heads.tokens, heads.packed_width()})},
      [=](LayerOpsOf<Real>& ops, const auto& in) { return turn(ops, in[0], Rotation::kForward); },
      [=](LayerOpsOf<Real>& ops, const auto&, const Owned<Real>& out_grad) {
        return std::vector{turn(ops, out_grad, Rotation::kBackward)};
      }};
}

template <class Real>
OperatorCase<Real> attention_case(Rng& rng, const HeadShape& heads) {
  const std::int64_t tokens = heads.sequences * heads.tokens;
  const Shape packed{tokens, heads.packed_width()};
  const auto forward = [=](LayerOpsOf<Real>& ops, const auto& in, Owned<Real>& log_sums) {
    ops.reserve(heads);
    Owned<Real> out = unset<Real>({tokens, heads.heads * heads.head_width});
    log_sums = unset<Real>({heads.sequences, heads.heads, heads.tokens});
    ops.attention(
        kLane,
        {.out = out.view(), .log_sums = log_sums.view(), .qkv = in[0].view(), .shape = heads});
    return out;
  };
  return {"attention",
          {random_tensor<Real>(rng, packed)},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            Owned<Real> log_sums;
            return forward(ops, in, log_sums);
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            Owned<Real> log_sums, qkv_grad = unset<Real>(packed);
            forward(ops, in, log_sums);
            ops.attention_backward(kLane, {.qkv_grad = qkv_grad.view(),
                                           .out_grad = out_grad.view(),
                                           .log_sums = std::as_const(log_sums).view(),
                                           .qkv = in[0].view(),
                                           .shape = heads});
            return std::vector{qkv_grad};
          }};
}

template <class Real>
OperatorCase<Real> swiglu_case(Rng& rng, const Sizes& sizes) {
  const Shape packed{sizes.tokens, 2 * sizes.width};
  return {"swiglu",
          {random_tensor<Real>(rng, packed)},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            Owned<Real> out = unset<Real>({sizes.tokens, sizes.width});
            ops.swiglu(kLane, {.out = out.view(), .gate_up = in[0].view()});
            return out;
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            Owned<Real> grad = unset<Real>(packed);
            ops.swiglu_backward(kLane, {.gate_up_grad = grad.view(),
                                        .out_grad = out_grad.view(),
                                        .gate_up = in[0].view()});
            return std::vector{grad};
          }};
}

template <class Real>
OperatorCase<Real> residual_case(Rng& rng, const Sizes& sizes) {
  const Shape shape{sizes.tokens, sizes.width};
  return {"residual_add",
          {random_tensor<Real>(rng, shape), random_tensor<Real>(rng, shape)},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            Owned<Real> out = unset<Real>(shape);
            ops.residual_add(kLane,
                             {.out = out.view(), .left = in[0].view(), .right = in[1].view()});
            return out;
          },
          // Both branches receive the gradient as it is: no operation.
          [](LayerOpsOf<Real>&, const auto&, const Owned<Real>& out_grad) {
            return std::vector{out_grad, out_grad};
          }};
}

// Its output here is scale * (sum of losses), of which the operation gives the gradient.
template <class Real>
OperatorCase<Real> cross_entropy_case(Rng& rng, const Sizes& sizes) {
  const auto targets = random_tokens(rng, sizes.tokens, sizes.outputs);
  constexpr Real kScale = static_cast<Real>(0.25);
  const auto run = [=](LayerOpsOf<Real>& ops, Owned<Real>& logits) {
    Owned<Real> losses = unset<Real>({sizes.tokens});
    ops.cross_entropy(kLane, {.logits = logits.view(),
                              .losses = losses.view(),
                              .targets = view_of(targets),
                              .scale = kScale});
    return losses;
  };
  return {"cross_entropy",
          {random_tensor<Real>(rng, {sizes.tokens, sizes.outputs})},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            Owned<Real> logits = in[0], sum({1});
            for (const Real loss : run(ops, logits).values) sum.values[0] += kScale * loss;
            return sum;
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            Owned<Real> logits = in[0];
            run(ops, logits);
            for (Real& gradient : logits.values) gradient *= out_grad.values[0];
            return std::vector{logits};
          }};
}

}  // namespace

template <class Real>
Owned<Real> random_tensor(Rng& rng, const Shape& shape) {
  Owned<Real> tensor(shape);
  for (Real& value : tensor.values) value = static_cast<Real>(rng.normal());
  return tensor;
}

template <class Real>
std::vector<OperatorCase<Real>> operator_cases(Rng& rng, CaseSize size) {
  std::vector<OperatorCase<Real>> cases;
  cases.push_back(embed_case<Real>(rng, random_sizes(rng, size)));
  cases.push_back(rms_norm_case<Real>(rng, random_sizes(rng, size)));
  cases.push_back(linear_case<Real>(rng, random_sizes(rng, size)));
  cases.push_back(rope_case<Real>(rng, random_heads(rng, size)));
  cases.push_back(attention_case<Real>(rng, random_heads(rng, size)));
  cases.push_back(swiglu_case<Real>(rng, random_sizes(rng, size)));
  cases.push_back(residual_case<Real>(rng, random_sizes(rng, size)));
  cases.push_back(cross_entropy_case<Real>(rng, random_sizes(rng, size)));
  return cases;
}

template <class Actual, class Expected>
double relative_error(const std::vector<Actual>& actual, const std::vector<Expected>& expected) {
  STARLING_ASSERT(actual.size() == expected.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - static_cast<double>(expected[i]);
    error += difference * difference;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  // Where nothing is expected, the error itself.
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

template std::vector<OperatorCase<float>> operator_cases(Rng&, CaseSize);
template std::vector<OperatorCase<double>> operator_cases(Rng&, CaseSize);
template Owned<float> random_tensor(Rng&, const Shape&);
template Owned<double> random_tensor(Rng&, const Shape&);
template double relative_error(const std::vector<float>&, const std::vector<float>&);
template double relative_error(const std::vector<float>&, const std::vector<double>&);
template double relative_error(const std::vector<double>&, const std::vector<double>&);

}  // namespace starling::model
