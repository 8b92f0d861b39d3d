// ClockOffsets: how far the clocks of a few peers are from this machine's, for people to know
// (`starling doctor`). Nothing in a swarm goes by it.
//
// NTP's arithmetic (RFC 5905, section 8) on a Ping and its Pong: asked at t1 and heard at t4 by our
// clock, answered at t2 = t3 by theirs, which is ahead by t2 - (t1 + t4) / 2. However the time
// between is divided among the two ways and the answering, that is wrong by (t4 - t1) / 2 at most.
// t4 - t1 is told by the steady clock, which nobody sets meanwhile. Of all answers the quickest
// counts. A lie is believed: it can only make a peer look ill.
//
// Keeps a row for each peer that is watched, and nothing of others. Thread: one owner.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/time.h"

namespace starling::gossip {

// Times of day are microseconds since 1970, UTC, from 1 (0: not told) to this, in the year 2255:
// the difference of any two is far from the end of a Duration.
inline constexpr std::uint64_t kTimeOfDayMax = std::uint64_t{1} << 53;
std::uint64_t to_time_of_day(Duration since_1970);  // the nearest that there is

struct ClockOffset {
  Duration ahead{};  // theirs of ours; negative: it is behind
  Duration within{};
};

class ClockOffsets {
 public:
  void watch(std::span<const PeerId> peers);  // these beside those before
  void on_ping(Instant now, PeerId to, std::uint64_t nonce);
  // `ours` was read just before `now`; `theirs` may be what it likes.
  struct Answer {
    std::uint64_t nonce = 0;
    std::uint64_t ours = 0, theirs = 0;
  };
  void on_pong(Instant now, PeerId from, const Answer& answer);
  // Nothing: it is not watched, has not answered or does not tell the time.
  std::optional<ClockOffset> of(PeerId peer) const;

 private:
  // On a long line several pings are under way, of which only those that are remembered count.
  static constexpr std::size_t kAskedMax = 16;
  struct Asked {
    std::uint64_t nonce = 0;
    Instant at{};
  };
  struct Row {
    std::array<Asked, kAskedMax> asked{};
    std::size_t count = 0;  // of all that were asked
    std::optional<ClockOffset> offset{};
  };
  std::map<PeerId, Row> rows_;
};

}  // namespace starling::gossip
