#include "cuda/attention.cuh"

#include "cuda/attention_grid.cuh"
#include "cuda/attention_kernels.cuh"
#include "cuda/block_memory.h"
#include "cuda/plain_attention_kernels.cuh"

namespace starling::cuda {

namespace {

template <class T>
void plain(Stream stream, const model::Attention<>& args) {
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
          .blocks =
              grid(static_cast<unsigned>(shape.tokens - args.first), shape.heads, shape.sequences),
          .threads = kWarp,
          .shared_bytes = plain_attention_bytes(shape.head_width)},
         plain_attention_kernel<T>, attention);
}

template <unsigned kWidth, Multiplier kBy = Multiplier::kOneWarp>
void tiled(Stream stream, const model::Attention<>& args) {
  using Plan = ForwardPlan<kWidth, kBy>;
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
         attention_kernel<kWidth, kBy>, attention);
}

}  // namespace

void CudaAttention::forward(Stream stream, const model::Attention<>& args) {
  if (args.qkv.dtype == model::DType::kF32) return plain<float>(stream, args);
  if (warpgroups_) {
    if (args.shape.head_width == 64) return tiled<64, Multiplier::kWarpgroup>(stream, args);
    if (args.shape.head_width == 128) return tiled<128, Multiplier::kWarpgroup>(stream, args);
  }
  switch (args.shape.head_width) {
    case 32: return tiled<32>(stream, args);
    case 64: return tiled<64>(stream, args);
    case 96: return tiled<96>(stream, args);
    case 128: return tiled<128>(stream, args);
    default: return plain<bf16>(stream, args);
  }
}

}  // namespace starling::cuda
