// TokenSketch: the tokens of a swarm of any size in 128 numbers.
//
// Process p with w tokens stands for the numbers E(p, k) / w, where the E are exponential variates
// that follow from p and k alone. The smallest of them over all processes is again exponential,
// with the sum of all tokens as its rate, so (K - 1) / (sum of the K minima) estimates that sum
// without bias, with a relative error of 1 / sqrt(K - 2) (Mosk-Aoyama and Shah: "Computing
// separable functions via gossip", PODC 2006; Baquero et al.: "Extrema propagation", IEEE TPDS
// 23(4), 2012). Minima may be merged in any order and any number of times; as counts only grow they
// only fall, so the estimate never shrinks, keeps what the dead have trained, and becomes the same
// everywhere. The error is one draw for the life of a swarm, not noise from moment to moment.
// Thread: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "gossip/messages.h"

namespace starling::gossip {

class TokenSketch {
 public:
  using Minima = BoundedList<float, kMinimaMax>;

  explicit TokenSketch(const PeerKey& self);

  void set_own(std::uint64_t tokens);
  void add(const PeerKey& process, std::uint64_t tokens);  // slow
  // Numbers that cannot be minima (not positive, or too few) are ignored. True if any was news.
  bool merge(const Minima& minima);
  Minima minima() const;
  double estimate() const;  // 0: nobody has trained anything

 private:
  std::array<float, kMinimaMax> own_{};  // E(self, k)
  std::uint64_t own_tokens_ = 0;
  std::array<float, kMinimaMax> minima_{};
};

}  // namespace starling::gossip
