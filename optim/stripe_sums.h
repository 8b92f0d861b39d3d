// What the codec finds out about the stripe of an exchange while it passes over it, block by block
// and as a whole, so that nobody has to pass over it again: BlockScales learns from the blocks, the
// admission gate from the sizes. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "optim/vector_math.h"

namespace starling::optim {

// The difference within one block.
struct BlockReport {
  double sum_of_squares = 0.0;
  float max_abs = 0.0f;
  // Above zero where the block was skipped: the largest difference that its codes could carry.
  float skipped_reach = 0.0f;
  // Of this peer's weights in the block; infinite: nobody looked at them.
  float own_largest = std::numeric_limits<float>::infinity();
};

struct StripeSums {
  double difference = 0.0;  // sum of squares; of skipped blocks nothing
  double max_abs = 0.0;     // of the difference
  double own = 0.0;         // sum of squares of this peer's weights, where they were asked for
  std::uint32_t blocks_skipped = 0;

  BlockReport add(const VectorStats& block) {
    difference += block.sum_of_squares;
    max_abs = std::max<double>(max_abs, block.max_abs);
    return {.sum_of_squares = block.sum_of_squares, .max_abs = block.max_abs};
  }
  BlockReport skip(float reach) {
    ++blocks_skipped;
    return {.skipped_reach = reach};
  }
};

}  // namespace starling::optim
