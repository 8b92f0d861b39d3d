// CallersReach: from how far away others come in on both lanes, which is from where this peer can
// be dialled. Who they are does not matter: their keys may cost nothing, but the handshake behind
// an address was made with whoever is there. A router or a container that rewrites the sources of
// connections makes callers look nearer than they are, never farther; but neighbours who call at
// public addresses look distant, and a firewall may lie around all of them.
//
// Counted: connections that stand, noted now and then, and those let in within the last kKept.
// Included by link*.cpp only. Time is an argument. Thread: one owner.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/host.h"
#include "base/time.h"
#include "gossip/net/link_sockets.h"

namespace starling::gossip {

class CallersReach {
 public:
  static constexpr Duration kKept = std::chrono::minutes(30);

  // One from `host`, an IP literal, is or has come in.
  void note(Instant now, LinkLane lane, std::string_view host) {
    const Reach from = reach_of(host);
    if (from <= Reach::kAnywhere) last_[index(lane)][static_cast<std::size_t>(from)] = now;
  }
  // The farthest from where both lanes are reached; kUnspecified: from nowhere.
  Reach farthest(Instant now) const {
    return std::min(of_lane(now, LinkLane::kControl), of_lane(now, LinkLane::kBulk));
  }
  // Where the swarm is, for all that names do not tell: the farthest that lines of ours lead to.
  void set_lines(Reach farthest) { lines_ = farthest; }
  Reach beside_lines(Instant now) const {
    const Reach from = farthest(now);
    return from >= lines_ ? from : Reach::kUnspecified;
  }

 private:
  static std::size_t index(LinkLane lane) { return static_cast<std::size_t>(lane); }
  Reach of_lane(Instant now, LinkLane lane) const {
    const auto& last = last_[index(lane)];
    for (std::size_t from = last.size(); from-- > 0;) {
      if (last[from] && now - *last[from] < kKept) return static_cast<Reach>(from);
    }
    return Reach::kUnspecified;
  }

  std::array<std::array<std::optional<Instant>, 4>, 2> last_;  // by lane and Reach
  Reach lines_ = Reach::kUnspecified;
};

}  // namespace starling::gossip
