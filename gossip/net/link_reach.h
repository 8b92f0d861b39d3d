// CallersReach: from how far away others come in on both lanes, which is from where this peer can
// be dialled. Who they are does not matter: their keys may cost nothing, but the handshake behind
// an address was made with whoever is there. A router or a container that rewrites the sources of
// connections makes callers look nearer than they are, never farther; but neighbours who call at
// public addresses look distant, and a firewall may lie around all of them.
//
// Counted: connections that stand, noted now and then, and those made within the last kKept.
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
    note_in(last_[index(lane)], now, host);
  }
  // A line of ours leads there: so far the swarm reaches, where names do not tell.
  void note_line(Instant now, std::string_view host) { note_in(lines_, now, host); }
  // The farthest from where both lanes are reached; kUnspecified: from nowhere.
  Reach farthest(Instant now) const {
    return std::min(of(last_[index(LinkLane::kControl)], now),
                    of(last_[index(LinkLane::kBulk)], now));
  }
  // kUnspecified also where lines lead farther.
  Reach beside_lines(Instant now) const {
    const Reach from = farthest(now);
    return from >= of(lines_, now) ? from : Reach::kUnspecified;
  }

 private:
  using Times = std::array<std::optional<Instant>, 4>;  // the last, by Reach
  static std::size_t index(LinkLane lane) { return static_cast<std::size_t>(lane); }
  static void note_in(Times& times, Instant now, std::string_view host) {
    const Reach reach = reach_of(host);
    if (reach <= Reach::kAnywhere) times[static_cast<std::size_t>(reach)] = now;
  }
  static Reach of(const Times& times, Instant now) {
    for (std::size_t reach = times.size(); reach-- > 0;) {
      if (times[reach] && now - *times[reach] < kKept) return static_cast<Reach>(reach);
    }
    return Reach::kUnspecified;
  }

  std::array<Times, 2> last_;  // of callers, by lane
  Times lines_;
};

}  // namespace starling::gossip
