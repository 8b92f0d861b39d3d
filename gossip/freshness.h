// Freshness: how far each fragment of this peer is behind what the swarm has learned, and what its
// weights count for because of that.
//
//   lag   += pace dt - tokens / rate of the fastest peer     at least 0, in seconds
//   lag   += pull (lag of the partner - own lag)              in an exchange, as the weights do
//   share  = 1 / (1 + discount (lag / round)^2)
//
// pace: how fast the conserved mean of all moves (rate_weight.h), over the fastest; pull: the share
// of the difference that the exchange moves this side by; round: the usual time between two
// publications of the fragment here.
//
// By rates alone all slow peers count alike. But one of them that has just met the fastest holds
// all that is known, and one that has not for long holds what was known then: where they meet in
// the middle, half of the news is lost at each meeting, and among many slow peers on thin lines it
// hardly spreads. As what is late by L differs from what is true by some L of progress, beside a
// scatter that a round makes, its weight falls with the square (a mean with the inverses of the
// squared errors, here with a bias). Equal peers keep lags of a step or so, which cost them
// (step / round)^2 of their weights. Ours; measured in scripts/evidence/adding_peers.
//
// A partner may say what it likes, of its lag and of its rate, by which all others may seem late.
// So lags count for kRoundsMax rounds at most: for being fresh nobody outweighs another by more
// than 1 + kRoundsMax^2, and one exchange with somebody who is makes good what a liar did. No
// clock. Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

class Freshness {
 public:
  static constexpr double kRoundsMax = 8;
  static constexpr double kRoundAtFirst = 30;  // seconds; of who begins late
  // Progress is looked at this often, at most: it costs a look at all peers' rates.
  static constexpr Duration kEvery = std::chrono::seconds(1);

  explicit Freshness(std::size_t fragments) : parts_(fragments) {}

  // All fragments are so many seconds late. How many rounds that is will turn out; until then they
  // are taken for kRoundAtFirst.
  void begin_late(double seconds);
  // Its weights are now those of somebody who was not late.
  void renew();

  bool due(Instant now) const { return !seen_ || now - *seen_ >= kEvery; }
  // `tokens`: trained here, since the process began. `fastest`: tokens per second, 0: not known,
  // and nobody is late.
  void on_progress(Instant now, std::uint64_t tokens, double pace, double fastest);
  void on_published(Instant now, FragmentId fragment);
  // `pull`: in [0, 1]. `lag`: the partner's, in seconds, at least 0.
  void on_mixed(FragmentId fragment, double pull, double lag);

  float lag(FragmentId fragment) const {  // seconds, at least 0
    return static_cast<float>(parts_.at(fragment.value).lag);
  }
  double share(FragmentId fragment, double discount) const;  // in (0, 1]
  // Seconds of what it began with that it has not met yet; mean over the fragments.
  double missed() const;

 private:
  struct Part {
    double lag = 0;
    double missed = 0;
    double round = 0;                        // seconds; 0: not known yet
    std::optional<Instant> published, seen;  // with something new in it; seen_ at that time
    std::uint64_t tokens = 0;                // likewise
    std::uint32_t again = 0;                 // published since, before progress was told of
    bool idle = false;                       // since then no progress was told
  };

  std::vector<Part> parts_;
  bool begun_late_ = false;
  std::optional<Instant> seen_;
  std::uint64_t tokens_ = 0;
};

}  // namespace starling::gossip
