#include "tests/model/operator_cases.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "tests/model/case_values.h"
#include "tests/model/stored.h"

namespace starling::model {

namespace {

constexpr Lane kLane = Lane::kCompute;
std::int64_t between(Rng& rng, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(high - low + 1)));
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

// The gradients of the operands of in * weight^T.
template <class Real>
std::vector<Owned<Real>> linear_gradients(LayerOpsOf<Real>& ops, const Stored& in,
                                          const Owned<Real>& weight,
                                          const ConstTypedTensor& out_grad) {
  Stored in_grad(in.view().shape, ops.activations());
  Owned<Real> weight_grad = already<Real>(weight.shape);
  ops.linear_backward(kLane, {.in_grad = in_grad.view(),
                              .weight_grad = weight_grad.view(),
                              .out_grad = out_grad,
                              .in = in.view(),
                              .weight = weight.view()});
  return {in_grad.loaded<Real>(), minus_already(weight_grad)};
}

template <class Real>
OperatorCase<Real> linear_case(Rng& rng, const Sizes& sizes) {
  const Shape in_shape{sizes.tokens, sizes.width}, weight_shape{sizes.outputs, sizes.width};
  return {"linear",
          {random_tensor<Real>(rng, in_shape), random_tensor<Real>(rng, weight_shape)},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            const Stored left(in[0], ops.activations());
            Stored out({sizes.tokens, sizes.outputs}, ops.activations());
            ops.linear(kLane, {.out = out.view(), .in = left.view(), .weight = in[1].view()});
            return out.loaded<Real>();
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            const Stored gradient(out_grad, ops.activations());
            return linear_gradients<Real>(ops, Stored(in[0], ops.activations()), in[1],
                                          gradient.view());
          }};
}

// Its output is not an activation; so are logits, of Linear. The gradient of it is.
template <class Real>
OperatorCase<Real> linear_residual_case(Rng& rng, const Sizes& sizes) {
  const Shape in_shape{sizes.tokens, sizes.width}, weight_shape{sizes.outputs, sizes.width};
  const Shape out_shape{sizes.tokens, sizes.outputs};
  return {"linear_residual",
          {random_tensor<Real>(rng, in_shape), random_tensor<Real>(rng, weight_shape),
           random_tensor<Real>(rng, out_shape)},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            const Stored left(in[0], ops.activations());
            Owned<Real> out = unset<Real>(out_shape);
            ops.linear_residual(kLane, {.out = out.view(),
                                        .residual = in[2].view(),
                                        .in = left.view(),
                                        .weight = in[1].view()});
            return out;
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            const Stored gradient(out_grad, ops.activations());
            auto gradients = linear_gradients<Real>(ops, Stored(in[0], ops.activations()), in[1],
                                                    gradient.view());
            gradients.push_back(out_grad);
            return gradients;
          }};
}

template <class Real>
struct RotationTables {
  RotationTables(Rng& rng, const HeadShape& heads)
      : cosines({heads.tokens + 1, heads.head_width / 2}), sines(cosines.shape) {
    for (std::size_t i = 0; i < cosines.values.size(); ++i) {
      const double angle = 6.0 * rng.unit();
      cosines.values[i] = static_cast<Real>(static_cast<float>(std::cos(angle)));
      sines.values[i] = static_cast<Real>(static_cast<float>(std::sin(angle)));
    }
  }
  Rotations<Real> view() const { return {cosines.view(), sines.view()}; }

  Owned<Real> cosines, sines;
};

template <class Real>
Stored turned_qkv(LayerOpsOf<Real>& ops, const Stored& in, const Owned<Real>& weight,
                  const RotationTables<Real>& rotations, const HeadShape& heads) {
  Stored qkv({in.view().rows(), heads.packed_width()}, ops.activations());
  ops.linear_rope(kLane, {.qkv = qkv.view(),
                          .in = in.view(),
                          .weight = weight.view(),
                          .rotations = rotations.view(),
                          .shape = heads});
  return qkv;
}

template <class Real>
OperatorCase<Real> linear_rope_case(Rng& rng, const HeadShape& heads, std::int64_t width) {
  const RotationTables<Real> rotations(rng, heads);
  return {"linear_rope",
          {random_tensor<Real>(rng, {heads.sequences * heads.tokens, width}),
           random_tensor<Real>(rng, {heads.packed_width(), width})},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            const Stored left(in[0], ops.activations());
            return turned_qkv(ops, left, in[1], rotations, heads).template loaded<Real>();
          },
          nullptr};
}

// Between the product before it and the one after it.
template <class Real>
OperatorCase<Real> swiglu_case(Rng& rng, const Sizes& sizes) {
  const std::int64_t ffn = sizes.width + 3;
  const Shape packed{sizes.tokens, 2 * ffn}, gated_shape{sizes.tokens, ffn};
  struct Kept {
    Stored in, gate_up, gated;
  };
  const auto forward = [=](LayerOpsOf<Real>& ops, const auto& in) {
    Kept kept{Stored(in[0], ops.activations()), Stored(packed, ops.activations()),
              Stored(gated_shape, ops.activations())};
    ops.linear_swiglu(kLane, {.gate_up = kept.gate_up.view(),
                              .gated = kept.gated.view(),
                              .in = std::as_const(kept.in).view(),
                              .weight = in[1].view()});
    return kept;
  };
  const auto small = [&](const Shape& shape) {
    Owned<Real> weight = random_tensor<Real>(rng, shape);
    for (Real& value : weight.values) value /= std::sqrt(static_cast<Real>(shape.dims[1]));
    return weight;
  };
  const Owned<Real> in = random_tensor<Real>(rng, {sizes.tokens, sizes.width});
  const Owned<Real> gate_up = small({2 * ffn, sizes.width}), down = small({sizes.outputs, ffn});
  return {"swiglu",
          {in, gate_up, down},
          [=](LayerOpsOf<Real>& ops, const auto& inputs) {
            const Kept kept = forward(ops, inputs);
            Owned<Real> out = unset<Real>({sizes.tokens, sizes.outputs});
            ops.linear(kLane,
                       {.out = out.view(), .in = kept.gated.view(), .weight = inputs[2].view()});
            return out;
          },
          [=](LayerOpsOf<Real>& ops, const auto& inputs, const Owned<Real>& out_grad) {
            const Kept kept = forward(ops, inputs);
            const Stored gradient(out_grad, ops.activations());
            Stored gate_up_grad(packed, ops.activations()), again(gated_shape, ops.activations());
            Owned<Real> down_grad = already<Real>(inputs[2].shape);
            ops.swiglu_linear_backward(kLane, {.gate_up_grad = gate_up_grad.view(),
                                               .gated = again.view(),
                                               .weight_grad = down_grad.view(),
                                               .out_grad = gradient.view(),
                                               .gate_up = kept.gate_up.view(),
                                               .weight = inputs[2].view()});
            auto gradients =
                linear_gradients<Real>(ops, kept.in, inputs[1], std::as_const(gate_up_grad).view());
            gradients.push_back(minus_already(down_grad));
            return gradients;
          }};
}

// Its output here is scale * (sum of losses), of which the operation gives the gradient: apart, and
// where it is of Real, the same in place.
template <class Real>
OperatorCase<Real> cross_entropy_case(Rng& rng, const Sizes& sizes) {
  const auto targets = random_tokens(rng, sizes.tokens, sizes.outputs);
  constexpr Real kScale = static_cast<Real>(0.25);
  struct Found {
    Owned<Real> losses, gradient;
  };
  const auto run = [=](LayerOpsOf<Real>& ops, Owned<Real> logits, bool in_place) {
    Owned<Real> losses = unset<Real>({sizes.tokens});
    Stored apart(logits.shape, ops.activations());
    ops.cross_entropy(kLane, {.gradient = in_place ? TypedTensor(logits.view()) : apart.view(),
                              .losses = losses.view(),
                              .logits = logits.view(),
                              .targets = view_of(targets),
                              .scale = kScale});
    return Found{losses, in_place ? logits : apart.loaded<Real>()};
  };
  return {"cross_entropy",
          {random_tensor<Real>(rng, {sizes.tokens, sizes.outputs})},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            Owned<Real> sum({1});
            for (const Real loss : run(ops, in[0], false).losses.values) {
              sum.values[0] += kScale * loss;
            }
            return sum;
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            Found found = run(ops, in[0], false);
            if (ops.activations() == dtype_of<Real>()) {
              const Found in_place = run(ops, in[0], true);
              CHECK(in_place.losses.values == found.losses.values);
              CHECK(in_place.gradient.values == found.gradient.values);
            }
            for (Real& gradient : found.gradient.values) gradient *= out_grad.values[0];
            return std::vector{found.gradient};
          }};
}

}  // namespace

// With the product before it, whose rotation its backward undoes.
template <class Real>
OperatorCase<Real> attention_case(Rng& rng, const HeadShape& heads, std::int64_t width) {
  const std::int64_t tokens = heads.sequences * heads.tokens;
  const RotationTables<Real> rotations(rng, heads);
  struct Kept {
    Stored in, qkv, out;
    Owned<Real> log_sums;
  };
  const auto forward = [=](LayerOpsOf<Real>& ops, const auto& in) {
    REQUIRE(ops.reserve({.longest = heads}).ok());
    const DType dtype = ops.activations();
    const Stored left(in[0], dtype);
    Kept kept{left, turned_qkv(ops, left, in[1], rotations, heads),
              Stored({tokens, heads.heads * heads.head_width}, dtype),
              unset<Real>({heads.sequences, heads.heads, heads.tokens})};
    ops.attention(kLane, {.out = kept.out.view(),
                          .log_sums = kept.log_sums.view(),
                          .qkv = std::as_const(kept.qkv).view(),
                          .shape = heads});
    return kept;
  };
  // Scores of all sizes: neither all alike, nor one alone that counts.
  Owned<Real> weight = random_tensor<Real>(rng, {heads.packed_width(), width});
  for (Real& value : weight.values) value /= std::sqrt(static_cast<Real>(width));
  return {"attention",
          {random_tensor<Real>(rng, {tokens, width}), weight},
          [=](LayerOpsOf<Real>& ops, const auto& in) {
            return forward(ops, in).out.template loaded<Real>();
          },
          [=](LayerOpsOf<Real>& ops, const auto& in, const Owned<Real>& out_grad) {
            const Kept kept = forward(ops, in);
            const Stored gradient(out_grad, ops.activations());
            Stored qkv_grad(kept.qkv.view().shape, ops.activations());
            ops.attention_backward(kLane, {.qkv_grad = qkv_grad.view(),
                                           .out_grad = gradient.view(),
                                           .out = kept.out.view(),
                                           .log_sums = kept.log_sums.view(),
                                           .qkv = kept.qkv.view(),
                                           .rotations = rotations.view(),
                                           .shape = heads});
            return linear_gradients<Real>(ops, kept.in, in[1], std::as_const(qkv_grad).view());
          }};
}

template <class Real>
std::vector<OperatorCase<Real>> operator_cases(Rng& rng, CaseSize size) {
  std::vector<OperatorCase<Real>> cases;
  cases.push_back(embed_case<Real>(rng, random_sizes(rng, size)));
  const Sizes normed = random_sizes(rng, size);
  cases.push_back(rms_norm_case<Real>(rng, {normed.tokens, normed.width}));
  cases.push_back(linear_case<Real>(rng, random_sizes(rng, size)));
  cases.push_back(linear_residual_case<Real>(rng, random_sizes(rng, size)));
  const Sizes added = random_sizes(rng, size);
  cases.push_back(linear_residual_norm_case<Real>(rng, {added.tokens, added.outputs}, added.width));
  const auto width = [&] { return random_sizes(rng, size).width; };
  const HeadShape turned = random_heads(rng, size), heads = random_heads(rng, size);
  cases.push_back(linear_rope_case<Real>(rng, turned, width()));
  cases.push_back(attention_case<Real>(rng, heads, width()));
  cases.push_back(swiglu_case<Real>(rng, random_sizes(rng, size)));
  cases.push_back(cross_entropy_case<Real>(rng, random_sizes(rng, size)));
  return cases;
}

template std::vector<OperatorCase<float>> operator_cases(Rng&, CaseSize);
template std::vector<OperatorCase<double>> operator_cases(Rng&, CaseSize);
template OperatorCase<float> attention_case(Rng&, const HeadShape&, std::int64_t);
template OperatorCase<double> attention_case(Rng&, const HeadShape&, std::int64_t);

}  // namespace starling::model
