#include "cuda/attention.cuh"
#include "cuda/attention_backward_kernels.cuh"
#include "cuda/attention_grid.cuh"
#include "cuda/block_memory.h"
#include "cuda/packs.cuh"
#include "cuda/plain_attention_kernels.cuh"

namespace starling::cuda {

namespace {

template <int kCount, class T>
void launch_row_dots(Stream stream, const model::AttentionBackward<>& args, float* dots) {
  const std::int64_t rows = args.log_sums.elements(), width = args.shape.head_width;
  unsigned lanes = 1;
  while (lanes < kWarp && lanes * kCount < width) lanes *= 2;
  launch({.stream = stream,
          .operation = "attention_backward",
          .blocks = {blocks_for(rows, kRowDotsThreads / lanes), 1, 1},
          .threads = kRowDotsThreads},
         row_dots_kernel<kCount, T>, dots, args.out_grad.as<T>().data, args.out.as<T>().data,
         heads_of(args.shape), rows, lanes);
}

template <class T>
const float* row_dots(Stream stream, const model::AttentionBackward<>& args, Scratch& room) {
  float* dots = room.at_least<float>(args.log_sums.elements());
  const bool packs = in_packs(args.shape.head_width, {args.out_grad.data, args.out.data});
  with_count(packs, [&](auto count) { launch_row_dots<count, T>(stream, args, dots); });
  return dots;
}

template <class T>
void plain_backward(Stream stream, const model::AttentionBackward<>& args, Scratch& room) {
  const model::HeadShape& shape = args.shape;
  const PlainAttention<T> attention{.out = args.qkv_grad.as<T>().data,
                                    .log_sums = const_cast<float*>(args.log_sums.data),
                                    .qkv = args.qkv.as<T>().data,
                                    .out_grad = args.out_grad.as<T>().data,
                                    .row_dots = row_dots<T>(stream, args, room),
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

template <unsigned kWidth, Multiplier kBy = Multiplier::kOneWarp>
void tiled_backward(Stream stream, const model::AttentionBackward<>& args, Scratch& room) {
  using Plan = BackwardPlan<kWidth, kBy>;
  const model::HeadShape& shape = args.shape;
  const AttentionGradients gradients{.qkv_grad = args.qkv_grad.as<bf16>().data,
                                     .out_grad = args.out_grad.as<bf16>().data,
                                     .out = args.out.as<bf16>().data,
                                     .log_sums = args.log_sums.data,
                                     .row_dots = room.at_least<float>(args.log_sums.elements()),
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
  launch(how, query_gradient_kernel<kWidth, kBy>, gradients);
  how.blocks.y = static_cast<unsigned>(shape.kv_heads);
  how.shared_bytes = Plan::kKeyBytes;
  launch(how, key_gradient_kernel<kWidth, kBy>, gradients);
}

}  // namespace

void CudaAttention::backward(Stream stream, const model::AttentionBackward<>& args) {
  if (args.qkv.dtype == model::DType::kF32) return plain_backward<float>(stream, args, row_dots_);
  if (warpgroups_) {
    if (args.shape.head_width == 64) {
      return tiled_backward<64, Multiplier::kWarpgroup>(stream, args, row_dots_);
    }
    if (args.shape.head_width == 128) {
      return tiled_backward<128, Multiplier::kWarpgroup>(stream, args, row_dots_);
    }
  }
  switch (args.shape.head_width) {
    case 32: return tiled_backward<32>(stream, args, row_dots_);
    case 64: return tiled_backward<64>(stream, args, row_dots_);
    case 96: return tiled_backward<96>(stream, args, row_dots_);
    case 128: return tiled_backward<128>(stream, args, row_dots_);
    default: return plain_backward<bf16>(stream, args, row_dots_);
  }
}

}  // namespace starling::cuda
