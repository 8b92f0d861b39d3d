#include "peer/config/traffic_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace starling::peer {
namespace {

constexpr std::int64_t kHourSeconds = 3600;
constexpr std::int64_t kHoursKept = 24;  // before the current one
constexpr int kDayMinutes = 24 * 60;
constexpr std::int64_t kLinesEverySeconds = 60;
constexpr std::uint64_t kMuch = 100;  // one part in so many of the limit is worth lines at once
constexpr std::uint64_t kHourBytesMax = 1'000'000'000'000'000;  // no line moves more in an hour
// The sum over the day counts 24 hours and what has passed of the next: a pace of a 24th an hour
// would use it up.
constexpr double kEvenShare = 24 / 25.5;

std::int64_t hour_of(WallTime time) { return time.unix_seconds / kHourSeconds; }

// Takes a number and the mark behind it off the front of `text`; 0: the end of the text.
template <class Number>
std::optional<Number> take_number(std::string_view& text, char mark) {
  Number number{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (mark == '\0') return text.empty() ? std::optional(number) : std::nullopt;
  if (text.empty() || text.front() != mark) return std::nullopt;
  text.remove_prefix(1);
  return number;
}

// "7:05", with `mark` behind it.
std::optional<int> take_minute(std::string_view& text, char mark) {
  const auto hour = take_number<int>(text, ':');
  const auto minute = hour ? take_number<int>(text, mark) : std::nullopt;
  if (!minute || *hour < 0 || *hour > 23 || *minute < 0 || *minute > 59) return std::nullopt;
  return *hour * 60 + *minute;
}

}  // namespace

bool QuietHours::contains(int minute_of_day) const {
  if (always()) return true;
  const int since = (minute_of_day - from_minute + kDayMinutes) % kDayMinutes;
  return since < minutes();
}

int QuietHours::minutes() const {
  return always() ? kDayMinutes : (to_minute - from_minute + kDayMinutes) % kDayMinutes;
}

Result<std::optional<QuietHours>> parse_quiet_hours(std::string_view text) {
  if (text.empty()) return std::optional<QuietHours>();
  std::string_view rest = text;
  const auto from = take_minute(rest, '-');
  const auto to = from ? take_minute(rest, '\0') : std::nullopt;
  if (!to) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("\"{}\" is no span of hours; write it like \"22:00-07:30\"", text));
  }
  return std::optional(QuietHours{*from, *to});
}

void TrafficPlan::restore(std::string_view text, WallTime now) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto hour = take_number<std::int64_t>(line, ' ');
    const auto bytes = hour ? take_number<std::uint64_t>(line, '\0') : std::nullopt;
    const bool recent = hour && *hour <= hour_of(now) && *hour >= hour_of(now) - kHoursKept;
    if (!bytes || !recent) continue;
    const std::uint64_t counted = std::min(*bytes, kHourBytesMax);
    // They only grow, but a line may be cut short.
    Hour& known = hours_[*hour];
    known.bytes = known.written = std::max(known.bytes, counted);
  }
  if (limited()) recall_pace(now);
}

// An hour that went at the pace or below leaves nothing behind, one above it what was too much.
void TrafficPlan::recall_pace(WallTime now) {
  ahead_ = 0;
  ahead_at_ = now.unix_seconds;
  for (std::int64_t hour = hour_of(now) - kHoursKept; hour <= hour_of(now); ++hour) {
    const auto counted = hours_.find(hour);
    const double bytes = counted == hours_.end() ? 0 : static_cast<double>(counted->second.bytes);
    const std::int64_t passed = std::min(now.unix_seconds - hour * kHourSeconds, kHourSeconds);
    const double even = hour_share() * static_cast<double>(passed) / kHourSeconds;
    ahead_ = std::clamp(ahead_ + bytes - even, 0.0, 2 * hour_share());
  }
  judge_pace();
}

void TrafficPlan::count(WallTime now, std::uint64_t bytes) {
  forget(hour_of(now));
  hours_[hour_of(now)].bytes += bytes;
  if (limited()) keep_pace(now, bytes);
}

double TrafficPlan::hour_share() const {
  const int quiet = quiet_ ? quiet_->minutes() : 0;
  const int open_minutes = std::max(kDayMinutes - quiet, 1);
  return kEvenShare * static_cast<double>(bytes_per_day_) * 60 / open_minutes;
}

// Whatever was received at once, a state for example, costs no more than two hours' share.
void TrafficPlan::keep_pace(WallTime now, std::uint64_t bytes) {
  if (now.unix_seconds < ahead_at_) ahead_ = 0;  // the clock was set back
  const auto passed = static_cast<double>(std::max<std::int64_t>(0, now.unix_seconds - ahead_at_));
  ahead_at_ = now.unix_seconds;
  ahead_ = std::max(0.0, ahead_ - hour_share() * passed / kHourSeconds);
  ahead_ = std::min(ahead_ + static_cast<double>(bytes), 2 * hour_share());
  judge_pace();
}

void TrafficPlan::judge_pace() {
  if (ahead_ >= hour_share()) rests_ = true;
  if (ahead_ <= hour_share() / 2) rests_ = false;
}

bool TrafficPlan::lines_due(WallTime now) const {
  if (!limited()) return false;
  const bool late = now.unix_seconds - lines_at_ >= kLinesEverySeconds ||
                    now.unix_seconds < lines_at_;  // the clock was set back
  const std::uint64_t much = std::max<std::uint64_t>(1, bytes_per_day_ / kMuch);
  return std::any_of(hours_.begin(), hours_.end(), [&](const auto& entry) {
    const auto& [hour, counted] = entry;
    const std::uint64_t more = counted.bytes - counted.written;
    return more >= much || (more > 0 && (late || hour < hour_of(now)));
  });
}

std::string TrafficPlan::take_lines(WallTime now) {
  lines_at_ = now.unix_seconds;
  std::string lines;
  for (auto& [hour, counted] : hours_) {
    if (counted.bytes == counted.written) continue;
    lines += fmt::format("{}{} {}", lines.empty() ? "" : "\n", hour, counted.bytes);
    counted.written = counted.bytes;
  }
  return lines;
}

TrafficPlan::Verdict TrafficPlan::verdict(WallTime now) const {
  if (quiet_ && quiet_->contains(now.minute_of_day)) return Verdict::kQuiet;
  if (limited() && bytes_in_day(now) >= bytes_per_day_) return Verdict::kSpent;
  return rests_ ? Verdict::kPaced : Verdict::kOpen;
}

std::uint64_t TrafficPlan::bytes_in_day(WallTime now) const {
  std::uint64_t sum = 0;
  for (const auto& [hour, counted] : hours_) {
    if (hour <= hour_of(now) && hour >= hour_of(now) - kHoursKept) sum += counted.bytes;
  }
  return sum;
}

void TrafficPlan::forget(std::int64_t hour) {
  hours_.erase(hours_.begin(), hours_.lower_bound(hour - kHoursKept));
  hours_.erase(hours_.upper_bound(hour), hours_.end());
}

}  // namespace starling::peer
