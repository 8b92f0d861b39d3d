// BlockScales: how far peers usually differ, block by block, for one stripe; from it the steps of
// the modular codes.
//
// Per block an exponential moving average of the root mean square and of the largest difference
// over past exchanges with any partner, plus one root mean square for the stripe. Steps follow the
// largest differences too, because differences of weights have heavy tails. Where a block
// wrapped (was skipped), the step for the next exchange is at least twice the one that was too
// small. A block that rests is expected to differ by a 256th of what is usual, and one that never
// differed by all of that: so whoever begins to is let through within a few exchanges.
//
// Where most of a stripe wrapped, all of it differs more than it did, as in the first rounds of a
// run: doubling its steps, it would learn nothing for several exchanges. It is lost then: where
// most of its fragment is, that goes in floats once more, and what the next exchange of a lost
// stripe shows counts whole, block by block, up or down by kDifferenceGrowthMax at most.
//
// Values come from other peers: in one exchange a block's scale grows at most
// kDifferenceGrowthMax-fold, and never beyond kReachOfWeights times this peer's largest weight in
// it, however often somebody sends codes that wrap. Thread: one owner (the mixer). Never fails;
// restore() reports a damaged checkpoint.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "optim/stripe_sums.h"
#include "optim/usual_difference.h"
#include "optim/wire_format.h"

namespace starling::optim {

class BlockScales {
 public:
  // The weights of peers that learn together are of one size, block by block.
  static constexpr double kReachOfWeights = 8.0;
  static constexpr double kWeightMin = 1.0 / 1024;  // smaller ones count as this large

  explicit BlockScales(std::size_t parameters);

  // After an exchange: what make_delta or decode_delta say of the blocks, with the clip factor (the
  // scales follow the difference before clipping) and the format. Returns the root mean square of
  // the whole difference before clipping, nothing where all blocks were skipped.
  std::optional<double> observe(std::span<const BlockReport> blocks, float clip_factor,
                                WireFormat format = WireFormat::kF32);

  // Nothing was ever compared: the first exchange goes in bf16 or f32.
  bool cold() const noexcept { return !compared_; }
  bool lost() const noexcept { return lost_; }  // most blocks were skipped the last time
  double rms() const noexcept { return rms_; }  // of the stripe; zero: it never differed
  // It differs by this at least, as somebody showed who is not to be believed in more than that.
  void raise(double rms) noexcept { rms_ = std::max(rms_, rms); }
  // By how much a stripe that never differed is expected to: as others of its fragment.
  void guess(double rms) noexcept { guess_ = rms; }
  std::size_t blocks() const noexcept { return blocks_.size(); }

  // One step exponent per block for encode_push of `slow`; zeros in f32 and bf16.
  void exponents(WireFormat format, std::span<const float> slow, std::span<std::int8_t> out) const;

  // For checkpoints: state_floats() values, in any order of save and restore; `rms`: what to keep
  // of the stripe's. One that never differed comes back cold.
  std::size_t state_floats() const noexcept { return 1 + 2 * blocks_.size(); }
  void save(std::span<float> out, double rms) const;
  void save(std::span<float> out) const { save(out, rms_); }
  Status restore(std::span<const float> state);

 private:
  struct Scale {
    double rms = 0.0;  // both zero: never saw a difference
    double max_abs = 0.0;
  };
  void observe_skipped(Scale& scale, double reach) const;
  Scale expected(const Scale& scale) const;

  std::size_t parameters_;
  std::vector<Scale> blocks_;
  double rms_ = 0.0;
  double guess_ = 0.0;
  bool compared_ = false;
  bool lost_ = false;
};

}  // namespace starling::optim
