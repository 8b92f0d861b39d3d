#include "model/cpu/cpu_attention.h"

#include <algorithm>
#include <cmath>

#include "model/cpu/cpu_gemm.h"
#include "model/cpu/cpu_rows.h"
#include "model/cpu/cpu_values.h"

namespace starling::model {

namespace {

// One block of queries of one query head. The very first block of a key head sets the key and value
// gradients and the later ones add, so the first must see all keys.
struct QueryBlock {
  HeadIndex at;
  std::int64_t first = 0, count = 0;
  bool adds = false;
};

void backward_block(const AttentionBackward<>& args, const QueryBlock& block, float* scratch) {
  const HeadShape& shape = args.shape;
  const std::int64_t stride = shape.packed_width(), width = shape.head_width;
  const std::int64_t out_stride = shape.heads * width, keys = block.first + block.count;
  const std::int64_t row = whole_vectors(keys);
  const PackedHead<const float> in = packed_head(args.qkv.as<float>().data, shape, block.at);
  const PackedHead<float> grad = packed_head(args.qkv_grad.as<float>().data, shape, block.at);
  const std::int64_t first_row = block.at.sequence * shape.tokens + block.first;
  const float* out_grad =
      args.out_grad.as<float>().data + first_row * out_stride + block.at.head * width;
  const float* log_sums =
      args.log_sums.data + (block.at.sequence * shape.heads + block.at.head) * shape.tokens;
  const float* query = in.query + block.first * stride;
  float* weights = scratch;
  float* score_grads = weights + attention_scratch(shape.tokens) / 2;
  const float keep = block.adds ? 1.0F : 0.0F;

  gemm({.out = weights,
        .out_stride = row,
        .left = {query, stride, false},
        .right = {in.key, stride, true},
        .rows = block.count,
        .columns = keys,
        .inner = width});
  gemm({.out = score_grads,
        .out_stride = row,
        .left = {out_grad, out_stride, false},
        .right = {in.value, stride, true},
        .rows = block.count,
        .columns = keys,
        .inner = width});
  ScoreRows rows{weights, block.count, row, block.first + 1, score_scale(shape)};
  weights_again(rows, log_sums + block.first);
  rows.values = score_grads;
  softmax_backward_rows(rows, weights);
  gemm({.out = grad.value,
        .out_stride = stride,
        .left = {weights, row, true},
        .right = {out_grad, out_stride, false},
        .rows = keys,
        .columns = width,
        .inner = block.count,
        .keep = keep});
  gemm({.out = grad.key,
        .out_stride = stride,
        .left = {score_grads, row, true},
        .right = {query, stride, false},
        .rows = keys,
        .columns = width,
        .inner = block.count,
        .keep = keep});
  gemm({.out = grad.query + block.first * stride,
        .out_stride = stride,
        .left = {score_grads, row, false},
        .right = {in.key, stride, false},
        .rows = block.count,
        .columns = width,
        .inner = keys});
}

}  // namespace

std::int64_t attention_scratch(std::int64_t tokens) {
  return 2 * kQueryBlock * whole_vectors(tokens);
}

void attention_head(const Attention<>& args, HeadIndex at, float* scratch) {
  const HeadShape& shape = args.shape;
  const std::int64_t stride = shape.packed_width(), width = shape.head_width;
  const std::int64_t out_stride = shape.heads * width;
  const PackedHead<const float> in = packed_head(args.qkv.as<float>().data, shape, at);
  float* out =
      args.out.as<float>().data + at.sequence * shape.tokens * out_stride + at.head * width;
  float* log_sums = args.log_sums.data + (at.sequence * shape.heads + at.head) * shape.tokens;
  for (std::int64_t first = args.first; first < shape.tokens; first += kQueryBlock) {
    const std::int64_t count = std::min(kQueryBlock, shape.tokens - first);
    const std::int64_t keys = first + count, row = whole_vectors(keys);
    gemm({.out = scratch,
          .out_stride = row,
          .left = {in.query + first * stride, stride, false},
          .right = {in.key, stride, true},
          .rows = count,
          .columns = keys,
          .inner = width});
    softmax_rows({scratch, count, row, first + 1, score_scale(shape)}, log_sums + first);
    gemm({.out = out + first * out_stride,
          .out_stride = out_stride,
          .left = {scratch, row, false},
          .right = {in.value, stride, false},
          .rows = count,
          .columns = width,
          .inner = keys});
  }
}

void attention_head_backward(const AttentionBackward<>& args, HeadIndex at, float* scratch) {
  const HeadShape& shape = args.shape;
  const std::int64_t last_block = (shape.tokens - 1) / kQueryBlock;
  bool adds = false;
  for (std::int64_t block = last_block; block >= 0; --block) {
    const std::int64_t first = block * kQueryBlock;
    const std::int64_t count = std::min(kQueryBlock, shape.tokens - first);
    for (std::int64_t i = 0; i < shape.group(); ++i) {
      const HeadIndex query_head{at.sequence, at.head * shape.group() + i};
      backward_block(args, {query_head, first, count, adds}, scratch);
      adds = true;
    }
  }
}

}  // namespace starling::model
