// CodeChoice: in which code weights should travel: in fewer bits while the limits of the line's
// owner hold exchanges back, as they are configured while there is room.
//
//   fewer       the line has been full for kFullFor without a break, mostly of exchanges; or the
//               day's pace makes exchanges rest for the second time, after they alone were above
//               it: rests that a served state causes, or what is forwarded, do not count
//   configured  what kRoomFor took would have been within kRoomShare of every limit, had it been
//               `ratio` times as much. Time in which exchanges rest or are not allowed at all shows
//               nothing
//
// Time comes from outside. Thread: one owner.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/time.h"

namespace starling::peer {

class CodeChoice {
 public:
  static constexpr Duration kFullFor = std::chrono::minutes(5);
  static constexpr Duration kRoomFor = std::chrono::hours(4);
  static constexpr double kRoomShare = 0.8;

  struct Limits {                               // bytes per second, 0: none
    double upload = 0, download = 0, pace = 0;  // pace: of both directions
  };
  struct Bytes {  // so far
    std::uint64_t out = 0, in = 0;
    std::uint64_t exchanged = 0;  // of both, for exchanges
  };
  struct Sight {
    Bytes bytes;
    bool line_full = false;
    bool rests = false;   // exchanges, for the day's pace
    bool allowed = true;  // false: quiet hours, or the day is spent
  };

  // `ratio`: bits of the configured code over those of the one with fewer.
  CodeChoice(const Limits& limits, double ratio) : limits_(limits), ratio_(ratio) {}

  // True: fewer bits. Call it about once a second.
  bool look(Instant now, const Sight& sight) {
    const Mark here{now, sight.bytes};
    if (!open_since_) open_since_ = here;
    if (!std::exchange(was_full_, sight.line_full)) full_since_ = here;
    const bool rested = std::exchange(rests_, sight.rests);
    if (sight.rests && !rested && above_pace(*open_since_, here)) ++rests_seen_;
    if (sight.rests || !sight.allowed) open_since_ = here;
    if (!fewer_) {
      const bool full = sight.line_full && now - full_since_.at >= kFullFor;
      fewer_ = (full && mostly_exchanges(full_since_, here)) || rests_seen_ >= kRestsAreMany;
      room_since_.reset();
    } else if (has_room(here, sight)) {
      fewer_ = false;
      rests_seen_ = 0;
      full_since_ = here;
    }
    return fewer_;
  }

 private:
  struct Mark {
    Instant at{};
    Bytes bytes;
  };
  static constexpr int kRestsAreMany = 2;

  static bool mostly_exchanges(const Mark& since, const Mark& here) {
    const std::uint64_t all = here.bytes.out - since.bytes.out + here.bytes.in - since.bytes.in;
    return 2 * (here.bytes.exchanged - since.bytes.exchanged) > all;
  }

  bool above_pace(const Mark& since, const Mark& here) const {
    const auto exchanged = static_cast<double>(here.bytes.exchanged - since.bytes.exchanged);
    return exchanged > limits_.pace * to_seconds(here.at - since.at);
  }

  bool has_room(const Mark& here, const Sight& sight) {
    if (!room_since_ || sight.rests || !sight.allowed) room_since_ = here;
    if (here.at - room_since_->at < kRoomFor) return false;
    const Mark since = std::exchange(*room_since_, here);
    const auto fits = [&](std::uint64_t bytes, double limit) {
      const double most = kRoomShare * limit * to_seconds(here.at - since.at);
      return limit <= 0 || ratio_ * static_cast<double>(bytes) <= most;
    };
    const std::uint64_t out = here.bytes.out - since.bytes.out;
    const std::uint64_t in = here.bytes.in - since.bytes.in;
    return fits(out, limits_.upload) && fits(in, limits_.download) && fits(out + in, limits_.pace);
  }

  const Limits limits_;
  const double ratio_;
  bool fewer_ = false;
  bool was_full_ = false, rests_ = false;
  int rests_seen_ = 0;  // that exchanges themselves caused, since the code changed
  Mark full_since_;
  std::optional<Mark> open_since_;  // exchanges were allowed and did not rest
  std::optional<Mark> room_since_;
};

}  // namespace starling::peer
