// TrafficPlan: when this peer may exchange, by what its owner allows: so many bytes in any 24
// hours, spread over the hours that are not quiet, and not within certain hours of the day. While
// it may not, it trains on alone; pings and other small messages go on, so that it stays a member.
// A newcomer that still fetches waits: alone it would train from weights that nobody wants.
//
// Bytes are counted per hour of wall-clock time, in both directions, and the last 24 whole hours
// and the current one are summed: never more than the limit in any 24 hours but for what was under
// way when it was reached. So that a day's bytes last all day, exchanges also rest where they are
// an hour's share ahead of an even pace, until half of that is left (a bucket that leaks at that
// pace). The count outlives the process as lines of a file: `take_lines()` makes them, `restore()`
// reads them back; those that make no sense are skipped, as one that a crash cut short. How far
// ahead exchanges were is reckoned from the hours, as if each one's bytes had come evenly: whatever
// stands in the file, it makes them rest for two hours at most, or for the day that it says is
// spent.
//
// No clock: wall-clock times are arguments (peer/io/clock.h). They may jump either way; an hour in
// the future is forgotten. Thread: one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "peer/io/wall_time.h"

namespace starling::peer {

// Local time; `from` may be later than `to`: over midnight. Equal: the whole day.
struct QuietHours {
  int from_minute = 0, to_minute = 0;  // of the day, below 1440
  bool contains(int minute_of_day) const;
  int minutes() const;  // how long they are
  bool always() const { return from_minute == to_minute; }
};
// "22:00-07:30"; empty text: none.
Result<std::optional<QuietHours>> parse_quiet_hours(std::string_view text);

class TrafficPlan {
 public:
  // bytes_per_day 0: no limit.
  TrafficPlan(std::uint64_t bytes_per_day, std::optional<QuietHours> quiet)
      : bytes_per_day_(bytes_per_day), quiet_(quiet) {}

  // `text`: what take_lines() gave before, oldest first.
  void restore(std::string_view text, WallTime now);
  void count(WallTime now, std::uint64_t bytes);
  // Whether it is time for lines: a minute after the last ones, or sooner where an hour has ended
  // or a hundredth of the limit was counted since. Never without a limit.
  bool lines_due(WallTime now) const;
  // For the file, without a line feed at the end: the hours that have changed since the last time.
  // Later lines of an hour replace earlier ones. Empty: there are none.
  std::string take_lines(WallTime now);

  enum class Verdict : std::uint8_t { kOpen, kQuiet, kSpent, kPaced };
  Verdict verdict(WallTime now) const;
  std::uint64_t bytes_in_day(WallTime now) const;
  bool limited() const { return bytes_per_day_ > 0; }
  double hour_share() const;  // bytes: an hour's of those that are not quiet; 0: no limit

 private:
  struct Hour {
    std::uint64_t bytes = 0;
    std::uint64_t written = 0;  // as the last line has them
  };
  void forget(std::int64_t hour);
  void keep_pace(WallTime now, std::uint64_t bytes);
  void recall_pace(WallTime now);
  void judge_pace();

  std::uint64_t bytes_per_day_;
  std::optional<QuietHours> quiet_;
  std::map<std::int64_t, Hour> hours_;  // since the epoch, at most 25
  double ahead_ = 0;                    // bytes, of an even pace; at most two hours' share
  std::int64_t ahead_at_ = 0;
  std::int64_t lines_at_ = 0;
  bool rests_ = false;
};

}  // namespace starling::peer
