// CudaAttention: which kernels compute attention, and with what grid and scratch. On the tensor
// cores for bf16 and heads of 32, 64, 96 or 128; others by the plain kernels. Inside
// cuda_layer_ops.cu only.
#pragma once

#include "cuda/attention_backward_kernels.cuh"
#include "cuda/attention_kernels.cuh"
#include "cuda/plain_attention_kernels.cuh"
#include "cuda/scratch.h"
#include "model/layer_ops.h"

namespace starling::cuda {

class CudaAttention {
 public:
  explicit CudaAttention(Device& device) : row_dots_(device, "attention's backward") {}

  void forward(Stream stream, const model::Attention<>& args) {
    if (args.qkv.dtype == model::DType::kF32) return plain<float>(stream, args);
    switch (args.shape.head_width) {
      case 32: return tiled<32>(stream, args);
      case 64: return tiled<64>(stream, args);
      case 96: return tiled<96>(stream, args);
      case 128: return tiled<128>(stream, args);
      default: return plain<bf16>(stream, args);
    }
  }

  void backward(Stream stream, const model::AttentionBackward<>& args) {
    if (args.qkv.dtype == model::DType::kF32) return plain_backward<float>(stream, args);
    switch (args.shape.head_width) {
      case 32: return tiled_backward<32>(stream, args);
      case 64: return tiled_backward<64>(stream, args);
      case 96: return tiled_backward<96>(stream, args);
      case 128: return tiled_backward<128>(stream, args);
      default: return plain_backward<bf16>(stream, args);
    }
  }

 private:
  static Heads heads_of(const model::HeadShape& shape) {
    return {shape.tokens, shape.heads, shape.kv_heads, shape.head_width};
  }
  static float scale_of(const model::HeadShape& shape) {
    return 1.0F / sqrtf(static_cast<float>(shape.head_width));
  }
  static dim3 grid(unsigned blocks, std::int64_t heads, std::int64_t sequences) {
    return {blocks, static_cast<unsigned>(heads), static_cast<unsigned>(sequences)};
  }

  template <class T>
  static void plain(Stream stream, const model::Attention<>& args) {
    const model::HeadShape& shape = args.shape;
    const PlainAttention<T> attention{.out = args.out.as<T>().data,
                                      .log_sums = args.log_sums.data,
                                      .qkv = args.qkv.as<T>().data,
                                      .out_grad = nullptr,
                                      .row_dots = nullptr,
                                      .cosines = nullptr,
                                      .sines = nullptr,
                                      .heads = heads_of(shape),
                                      .first = args.first,
                                      .scale = scale_of(shape)};
    launch({.stream = stream,
            .operation = "attention",
            .blocks = grid(static_cast<unsigned>(shape.tokens - args.first), shape.heads,
                           shape.sequences),
            .threads = kWarp,
            .shared_bytes = plain_attention_bytes(shape.head_width)},
           plain_attention_kernel<T>, attention);
  }

  template <unsigned kWidth>
  static void tiled(Stream stream, const model::Attention<>& args) {
    using Plan = ForwardPlan<kWidth>;
    const model::HeadShape& shape = args.shape;
    const AttentionForward attention{.out = args.out.as<bf16>().data,
                                     .log_sums = args.log_sums.data,
                                     .qkv = args.qkv.as<bf16>().data,
                                     .heads = heads_of(shape),
                                     .first = args.first,
                                     .scale = scale_of(shape)};
    launch({.stream = stream,
            .operation = "attention",
            .blocks = grid(blocks_for(shape.tokens - args.first, Plan::kQueries), shape.heads,
                           shape.sequences),
            .threads = Plan::kThreads,
            .shared_bytes = Plan::kSharedBytes},
           attention_kernel<kWidth>, attention);
  }

  template <class T>
  float* row_dots(Stream stream, const model::AttentionBackward<>& args) {
    const std::int64_t rows = args.log_sums.elements();
    float* dots = row_dots_.at_least<float>(rows);
    launch({.stream = stream,
            .operation = "attention_backward",
            .blocks = {blocks_for(rows, 4), 1, 1},
            .threads = 4 * kWarp},
           row_dots_kernel<T>, dots, args.out_grad.as<T>().data, args.out.as<T>().data,
           heads_of(args.shape), rows);
    return dots;
  }

  template <class T>
  void plain_backward(Stream stream, const model::AttentionBackward<>& args) {
    const model::HeadShape& shape = args.shape;
    const PlainAttention<T> attention{.out = args.qkv_grad.as<T>().data,
                                      .log_sums = const_cast<float*>(args.log_sums.data),
                                      .qkv = args.qkv.as<T>().data,
                                      .out_grad = args.out_grad.as<T>().data,
                                      .row_dots = row_dots<T>(stream, args),
                                      .cosines = args.rotations.cosines.data,
                                      .sines = args.rotations.sines.data,
                                      .heads = heads_of(shape),
                                      .first = 0,
                                      .scale = scale_of(shape)};
    Launch how{.stream = stream,
               .operation = "attention_backward",
               .blocks = grid(static_cast<unsigned>(shape.tokens), shape.heads, shape.sequences),
               .threads = kWarp,
               .shared_bytes = plain_attention_bytes(shape.head_width)};
    launch(how, plain_query_gradient_kernel<T>, attention);
    how.blocks.y = static_cast<unsigned>(shape.kv_heads);
    launch(how, plain_key_gradient_kernel<T>, attention);
  }

  template <unsigned kWidth>
  void tiled_backward(Stream stream, const model::AttentionBackward<>& args) {
    using Plan = BackwardPlan<kWidth>;
    const model::HeadShape& shape = args.shape;
    const AttentionGradients gradients{.qkv_grad = args.qkv_grad.as<bf16>().data,
                                       .out_grad = args.out_grad.as<bf16>().data,
                                       .log_sums = args.log_sums.data,
                                       .row_dots = row_dots<bf16>(stream, args),
                                       .qkv = args.qkv.as<bf16>().data,
                                       .cosines = args.rotations.cosines.data,
                                       .sines = args.rotations.sines.data,
                                       .heads = heads_of(shape),
                                       .scale = scale_of(shape)};
    Launch how{.stream = stream,
               .operation = "attention_backward",
               .blocks = grid(blocks_for(shape.tokens, Plan::kRows), shape.heads, shape.sequences),
               .threads = Plan::kThreads,
               .shared_bytes = Plan::kQueryBytes};
    launch(how, query_gradient_kernel<kWidth>, gradients);
    how.blocks.y = static_cast<unsigned>(shape.kv_heads);
    how.shared_bytes = Plan::kKeyBytes;
    launch(how, key_gradient_kernel<kWidth>, gradients);
  }

  Scratch row_dots_;
};

}  // namespace starling::cuda
