// PartChoice: which part of the training data this peer reads next. It knows what this peer has
// read and what it was told of the others, and never waits for news: without any it still reads
// everything once before anything twice.
//
// The choice: the part least often read, a part that others are reading now counting as read once
// more (twice at most); among equals first those that are this peer's own among the live readers
// (PartView::ours), then those that it has read least itself, then in an order drawn from seed,
// stream and the number of passes. That a part was read far more often than the least read one is
// not believed: whose own it is reads it once in every pass, so that a lie does not keep it from
// being read.
//
// The choice is a function of what was learned and finished. Allocates at construction only.
// Thread: one owner, the trainer's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gossip/core.h"

namespace starling::gossip {

class PartChoice {
 public:
  // More passes ahead of the least read part than this are not believed.
  static constexpr int kAheadMax = 8;
  static constexpr int kClaimsCounted = 2;

  struct Order {
    std::uint64_t seed = 0;    // of the run
    std::uint64_t stream = 0;  // of this peer
  };
  // parts > 0
  PartChoice(std::uint16_t parts, const Order& order);

  // Goes on from what was known and read; both by part and of that size.
  void restore(std::span<const std::uint16_t> passes, std::span<const std::uint16_t> own_passes);

  void learn(std::uint16_t part, const PartView& view);
  void finish(std::uint16_t part);
  std::uint16_t next() const;

  std::uint16_t parts() const { return static_cast<std::uint16_t>(views_.size()); }
  std::uint16_t passes(std::uint16_t part) const { return views_.at(part).passes; }
  std::span<const std::uint16_t> own_passes() const { return own_passes_; }
  // How many parts have been read that often, as far as known.
  std::uint32_t never() const { return read_[0]; }
  std::uint32_t once() const { return read_[1]; }
  std::uint32_t more() const { return read_[2]; }

 private:
  void set_passes(std::uint16_t part, std::uint16_t passes);
  int least() const;

  const Order order_;
  std::vector<PartView> views_;
  std::vector<std::uint16_t> own_passes_;  // read by this peer
  std::vector<int> finished_at_;           // least() when this peer last finished the part
  std::uint32_t read_[3] = {0, 0, 0};
};

}  // namespace starling::gossip
