// TokenShares: what each peer's tokens count for, at one moment. Add what each of its processes has
// signed, in any order, then settle().
//
// Nobody can check what a peer says of its own training, so what it counts for is bounded: at most
// kRatio times as much as this peer itself, or the upper quartile of the peers that have trained,
// whichever is more. So a quarter of the peers cannot raise the bound by lying, and more than a
// quarter that have faster machines are not clipped. Of fewer than four peers nobody can say who is
// unusual: there the median is taken, and kRatio twice, so that a GPU beside two processors counts
// in full and an absurd number still does not.
//
// How fast each says that it trains is bounded likewise (Core::speed_share()), but by kRatio once
// also among few: a peer that is slower than that by any factor has no weight to speak of.
//
// Costs one look into a table for each addition, for it is done ten times a second. Values only.
// Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace starling::gossip {

// The value that a quarter of the others exceed at most; the largest of fewer than four. Reorders
// `values`. 0 for none.
double upper_quartile(std::vector<double>& values);
// The same, but of fewer than four the median, and of two the smaller. Reorders `values`.
double usual_of(std::vector<double>& values);

class TokenShares {
 public:
  static constexpr double kRatio = 256;

  struct Share {
    PeerId peer;
    double tokens = 0;
  };

  // At most so many peers are added.
  explicit TokenShares(std::size_t peers_max);

  void add(PeerId peer, double tokens);
  // `own`: what this peer's own weights were trained with.
  void settle(double own);

  // After settle(): one share a peer, none above the limit.
  const std::vector<Share>& all() const { return shares_; }
  const std::vector<Share>& clipped() const { return clipped_; }  // as they were before
  double limit() const { return limit_; }
  double total() const;

 private:
  static constexpr std::uint32_t kEmpty = 0;

  std::size_t slot_of(PeerId peer) const;  // holds its place in shares_, counted from 1, or kEmpty

  std::vector<std::uint32_t> slots_;  // a hash table with open addressing; a power of two
  std::vector<Share> shares_;
  std::vector<Share> clipped_;
  double limit_ = 0;
};

}  // namespace starling::gossip
