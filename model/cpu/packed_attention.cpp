#include "model/cpu/packed_attention.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "model/cpu/attention_rows.h"
#include "model/cpu/few_rows.h"

namespace starling::model {

namespace {

constexpr std::int64_t kBlock = 128;  // queries at a time in the backward, about

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// Around calls of a kernel.
class Multiplying {
 public:
  explicit Multiplying(const GemmKernel& kernel) : kernel_(kernel) { kernel_.begin(); }
  ~Multiplying() { kernel_.end(); }
  Multiplying(const Multiplying&) = delete;
  Multiplying& operator=(const Multiplying&) = delete;

 private:
  const GemmKernel& kernel_;
};

}  // namespace

struct PackedAttention::Panels {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;   // of one panel
  std::int64_t count = 0;  // of panels
  std::int64_t depth = 0;

  const std::byte* at(std::int64_t panel) const {
    return data + static_cast<std::size_t>(panel) * bytes;
  }
};

// Queries of one query head. The very first block of a key head sets the sums of the key's and
// value's gradients and the later ones add, so the first must see all keys.
struct PackedAttention::QueryBlock {
  HeadIndex at;
  std::int64_t first = 0, count = 0;
  bool adds = false;

  std::int64_t keys() const { return first + count; }
};

std::size_t PackedAttention::memory_bytes(const GemmKernel& kernel, const HeadShape& largest) {
  return PackedAttention(kernel, largest, nullptr).taken_;
}

PackedAttention::PackedAttention(const GemmKernel& kernel, const HeadShape& largest,
                                 std::byte* memory)
    : kernel_(kernel),
      tokens_(largest.tokens),
      width_(largest.head_width),
      row_(rounded_up(tokens_, kPanelColumns) + kPanelColumns),
      sum_row_(rounded_up(width_, kPanelColumns)),
      block_(rounded_up(std::min(kBlock, tokens_), kernel.left_rows)),
      memory_(memory) {
  STARLING_ASSERT(kPanelColumns % kernel.depth_step == 0);
  const auto panels = [&](std::int64_t columns, std::int64_t depth) {
    return static_cast<std::size_t>(rounded_up(columns, kPanelColumns) / kPanelColumns) *
           kernel_.right_bytes(depth);
  };
  const auto floats = [](std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  };
  const std::int64_t deepest = std::max({row_, sum_row_, block_});
  const std::int64_t key_rows = rounded_up(tokens_, kernel_.left_rows);
  keys_ = take(panels(tokens_, width_));
  values_ = take(std::max(panels(tokens_, width_), panels(width_, tokens_)));
  keys_across_ = take(panels(width_, tokens_));
  block_grads_ = take(panels(width_, block_));
  block_queries_ = take(panels(width_, block_));
  left_ = take(kernel_.left_bytes(deepest));
  left_too_ = take(kernel_.left_bytes(sum_row_));
  scores_ = reinterpret_cast<float*>(take(floats(kernel_.left_rows * row_)));
  tiles_ = reinterpret_cast<float*>(
      take(floats(kernel_.left_rows * std::max(sum_row_, 2 * kPanelColumns))));
  key_grads_ = reinterpret_cast<float*>(take(floats((key_rows + 1) * sum_row_)));
  value_grads_ = reinterpret_cast<float*>(take(floats(key_rows * sum_row_)));
  weights_ = reinterpret_cast<bf16*>(take(floats(block_ * row_) / 2));
  score_grads_ = reinterpret_cast<bf16*>(take(floats(block_ * row_) / 2));
}

std::byte* PackedAttention::take(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  std::byte* at = memory_ == nullptr ? nullptr : memory_ + taken_;
  taken_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return at;
}

// size.count: columns of the operand.
PackedAttention::Panels PackedAttention::pack(std::byte* to, const PanelSource<bf16>& source,
                                              PanelSize size) const {
  const Panels panels{to, kernel_.right_bytes(size.depth),
                      (size.count + kPanelColumns - 1) / kPanelColumns, size.depth};
  for (std::int64_t panel = 0; panel < panels.count; ++panel) {
    const std::int64_t column = panel * kPanelColumns;
    kernel_.pack_right_bf16(to + static_cast<std::size_t>(panel) * panels.bytes,
                            source.at(column, 0),
                            {std::min(kPanelColumns, size.count - column), size.depth});
  }
  return panels;
}

// Packed into `memory`, unless it will do as it lies.
LeftPanel PackedAttention::left(const PanelSource<bf16>& source, PanelSize size,
                                std::byte* memory) const {
  if (kernel_.reads_rows && !source.transposed && size.count == kernel_.left_rows &&
      size.depth % kernel_.depth_step == 0) {
    return {source.data, source.stride * std::int64_t{sizeof(bf16)}};
  }
  kernel_.pack_left_bf16(memory, source, size);
  return {memory, kernel_.padded_depth(size.depth) * std::int64_t{sizeof(bf16)}};
}

void PackedAttention::head(const Attention<>& args, HeadIndex at) {
  const HeadShape& shape = args.shape;
  const std::int64_t stride = shape.packed_width();
  const auto in = packed_head(args.qkv.as<bf16>().data, shape, at);
  if (shape.tokens - args.first <= kFewRows) return attend_few(args, at);
  const Multiplying multiplying(kernel_);
  const Panels keys = pack(keys_, {in.key, stride, false}, {shape.tokens, shape.head_width});
  const Panels values = pack(values_, {in.value, stride, true}, {shape.head_width, shape.tokens});
  for (std::int64_t first = args.first; first < shape.tokens; first += kernel_.left_rows) {
    attend_rows(args, at, first, keys, values);
  }
}

// As in generation: packing would cost more than it saves.
void PackedAttention::attend_few(const Attention<>& args, HeadIndex at) {
  const HeadShape& shape = args.shape;
  const std::int64_t stride = shape.packed_width(), out_row = shape.heads * shape.head_width;
  const auto in = packed_head(args.qkv.as<bf16>().data, shape, at);
  bf16* out =
      args.out.as<bf16>().data + at.sequence * shape.tokens * out_row + at.head * shape.head_width;
  float* log_sums = args.log_sums.data + (at.sequence * shape.heads + at.head) * shape.tokens;
  for (std::int64_t token = args.first; token < shape.tokens; ++token) {
    log_sums[token] = attend_row({.query = in.query + token * stride,
                                  .keys = in.key,
                                  .values = in.value,
                                  .stride = stride,
                                  .visible = token + 1,
                                  .width = shape.head_width,
                                  .scale = score_scale(shape)},
                                 key_grads_, out + token * out_row);
  }
}

// The queries of one tile of rows.
void PackedAttention::attend_rows(const Attention<>& args, HeadIndex at, std::int64_t first,
                                  const Panels& keys, const Panels& values) {
  const HeadShape& shape = args.shape;
  const std::int64_t width = shape.head_width, stride = shape.packed_width();
  const std::int64_t count = std::min(kernel_.left_rows, shape.tokens - first);
  const std::int64_t visible = rounded_up(first + count, kPanelColumns);
  const bf16* query = packed_head(args.qkv.as<bf16>().data, shape, at).query + first * stride;
  float* log_sums =
      args.log_sums.data + (at.sequence * shape.heads + at.head) * shape.tokens + first;

  const LeftPanel queries = left({query, stride, false}, {count, width}, left_);
  for (std::int64_t key = 0; key < visible; key += kPanelColumns) {
    kernel_.multiply(queries, keys.at(key / kPanelColumns), width, {scores_ + key, row_, count});
  }
  // Of the sums of the rows' weights, where tiles of scores would be.
  float* inverses = tiles_;
  float* outs = scores_;  // no longer needed then
  softmax_rows({.scores = scores_,
                .weights = weights_,
                .row = row_,
                .count = count,
                .visible = first + 1,
                .keys = visible,
                .scale = score_scale(shape)},
               inverses, log_sums);
  const LeftPanel weights = left({weights_, row_, false}, {count, visible}, left_);
  const std::int64_t depth = std::min(visible, kernel_.padded_depth(values.depth));
  const std::int64_t out_row = shape.heads * width;
  bf16* out =
      args.out.as<bf16>().data + (at.sequence * shape.tokens + first) * out_row + at.head * width;
  for (std::int64_t panel = 0; panel < values.count; ++panel) {
    const std::int64_t column = panel * kPanelColumns;
    kernel_.multiply(weights, values.at(panel), depth, {outs, kPanelColumns, count});
    store_scaled_rows({outs, kPanelColumns, count, std::min(kPanelColumns, width - column)},
                      inverses, out + column, out_row);
  }
}

void PackedAttention::head_backward(const AttentionBackward<>& args, HeadIndex at) {
  const HeadShape& shape = args.shape;
  const std::int64_t stride = shape.packed_width(), width = shape.head_width;
  const auto in =
      packed_head(args.qkv.as<bf16>().data, shape, {at.sequence, at.head * shape.group()});
  const Multiplying multiplying(kernel_);
  const Panels keys = pack(keys_, {in.key, stride, false}, {shape.tokens, width});
  const Panels values = pack(values_, {in.value, stride, false}, {shape.tokens, width});
  const Panels across = pack(keys_across_, {in.key, stride, true}, {width, shape.tokens});
  bool adds = false;
  for (std::int64_t block = (shape.tokens - 1) / block_; block >= 0; --block) {
    const std::int64_t first = block * block_;
    for (std::int64_t i = 0; i < shape.group(); ++i) {
      const HeadIndex query_head{at.sequence, at.head * shape.group() + i};
      backward_block(args, {query_head, first, std::min(block_, shape.tokens - first), adds}, keys,
                     values, across);
      adds = true;
    }
  }
  store_key_grads(args, at);
}

void PackedAttention::backward_block(const AttentionBackward<>& args, const QueryBlock& block,
                                     const Panels& keys, const Panels& values,
                                     const Panels& keys_across) {
  const HeadShape& shape = args.shape;
  const std::int64_t stride = shape.packed_width(), width = shape.head_width;
  for (std::int64_t row = 0; row < block.count; row += kernel_.left_rows) {
    weights_of_rows(args, block, row, keys, values);
    query_grad_of_rows(args, block, row, keys_across);
  }
  const bf16* query =
      packed_head(args.qkv.as<bf16>().data, shape, block.at).query + block.first * stride;
  const std::int64_t out_row = shape.heads * width;
  const bf16* out_grad = args.out_grad.as<bf16>().data +
                         (block.at.sequence * shape.tokens + block.first) * out_row +
                         block.at.head * width;
  add_key_grads(block, weights_,
                pack(block_grads_, {out_grad, out_row, true}, {width, block.count}), value_grads_);
  add_key_grads(block, score_grads_,
                pack(block_queries_, {query, stride, true}, {width, block.count}), key_grads_);
}

// Weights, and gradients of scores, of one tile of rows of the block.
void PackedAttention::weights_of_rows(const AttentionBackward<>& args, const QueryBlock& block,
                                      std::int64_t row, const Panels& keys, const Panels& values) {
  const HeadShape& shape = args.shape;
  const std::int64_t width = shape.head_width, stride = shape.packed_width();
  const std::int64_t out_row = shape.heads * width, first = block.first + row;
  const std::int64_t count = std::min(kernel_.left_rows, block.count - row);
  const std::int64_t token = block.at.sequence * shape.tokens + first;
  const bf16* query = packed_head(args.qkv.as<bf16>().data, shape, block.at).query + first * stride;
  const std::int64_t at_out = token * out_row + block.at.head * width;
  const bf16* out_grad = args.out_grad.as<bf16>().data + at_out;

  const LeftPanel queries = left({query, stride, false}, {count, width}, left_);
  const LeftPanel grads = left({out_grad, out_row, false}, {count, width}, left_too_);
  float* means = scores_;
  row_dots({out_grad, args.out.as<bf16>().data + at_out, out_row, count, width}, means);
  const float* log_sums =
      args.log_sums.data + (block.at.sequence * shape.heads + block.at.head) * shape.tokens + first;
  const std::int64_t visible = rounded_up(first + count, kPanelColumns);
  const std::int64_t end = rounded_up(block.keys(), kPanelColumns);
  for (std::int64_t key = 0; key < visible; key += kPanelColumns) {
    const ScoreTile tile{.scores = tiles_,
                         .weight_grads = tiles_ + kPanelColumns,
                         .tile_row = 2 * kPanelColumns,
                         .weights = weights_ + row * row_ + key,
                         .score_grads = score_grads_ + row * row_ + key,
                         .row = row_,
                         .count = count,
                         .visible = first + 1 - key,
                         .scale = score_scale(shape)};
    const std::int64_t panel = key / kPanelColumns;
    kernel_.multiply(queries, keys.at(panel), width, {tiles_, tile.tile_row, count});
    kernel_.multiply(grads, values.at(panel), width,
                     {tiles_ + kPanelColumns, tile.tile_row, count});
    softmax_backward_tile(tile, log_sums, means);
  }
  // What none of these rows sees, and others of the block do.
  for (std::int64_t i = row; i < row + count; ++i) {
    std::fill_n(weights_ + i * row_ + visible, end - visible, bf16{});
    std::fill_n(score_grads_ + i * row_ + visible, end - visible, bf16{});
  }
}

void PackedAttention::query_grad_of_rows(const AttentionBackward<>& args, const QueryBlock& block,
                                         std::int64_t row, const Panels& keys_across) {
  const HeadShape& shape = args.shape;
  const std::int64_t first = block.first + row, stride = shape.packed_width();
  const std::int64_t count = std::min(kernel_.left_rows, block.count - row);
  const std::int64_t visible = rounded_up(first + count, kPanelColumns);
  const LeftPanel grads = left({score_grads_ + row * row_, row_, false}, {count, visible}, left_);
  const std::int64_t depth = std::min(visible, kernel_.padded_depth(keys_across.depth));
  for (std::int64_t panel = 0; panel < keys_across.count; ++panel) {
    kernel_.multiply(grads, keys_across.at(panel), depth,
                     {tiles_ + panel * kPanelColumns, sum_row_, count});
  }
  bf16* out = packed_head(args.qkv_grad.as<bf16>().data, shape, block.at).query + first * stride;
  turn_back_rows({tiles_, sum_row_, count, shape.head_width}, args.rotations, first, out, stride);
}

// sums(key, i) += sum over the block's queries of weights(query, key) * rows(query, i): over those
// that see a key of the tile, which begin in the block with the key itself.
void PackedAttention::add_key_grads(const QueryBlock& block, const bf16* weights,
                                    const Panels& rows, float* sums) {
  for (std::int64_t key = 0; key < block.keys(); key += kernel_.left_rows) {
    const std::int64_t count = std::min(kernel_.left_rows, block.keys() - key);
    const std::int64_t own = std::max<std::int64_t>(0, key - block.first);
    const std::int64_t query = own - own % kernel_.depth_step, depth = block.count - query;
    const LeftPanel across =
        left({weights + query * row_ + key, row_, true}, {count, depth}, left_);
    for (std::int64_t panel = 0; panel < rows.count; ++panel) {
      float* to = sums + key * sum_row_ + panel * kPanelColumns;
      const std::byte* from = rows.at(panel) + right_depth_bytes(query);
      if (!block.adds) {
        kernel_.multiply(across, from, depth, {to, sum_row_, count});
      } else {
        kernel_.multiply(across, from, depth, {tiles_, kPanelColumns, count});
        add_rows({tiles_, kPanelColumns, count, kPanelColumns}, to, sum_row_);
      }
    }
  }
}

void PackedAttention::store_key_grads(const AttentionBackward<>& args, HeadIndex at) const {
  const HeadShape& shape = args.shape;
  const auto out =
      packed_head(args.qkv_grad.as<bf16>().data, shape, {at.sequence, at.head * shape.group()});
  turn_back_rows({key_grads_, sum_row_, shape.tokens, shape.head_width}, args.rotations, 0, out.key,
                 shape.packed_width());
  store_rows({value_grads_, sum_row_, shape.tokens, shape.head_width}, out.value,
             shape.packed_width());
}

}  // namespace starling::model
