#include "gossip/swarm_watch.h"

#include <algorithm>

#include "gossip/gentle_merge.h"

namespace starling::gossip {

void SwarmWatch::note(std::deque<Instant>& times, Instant now) {
  times.push_back(now);
  if (times.size() > kNotedMax) times.pop_front();
}

void SwarmWatch::forget(std::deque<Instant>& times, Instant now) {
  while (!times.empty() && now - times.front() > kWindow) times.pop_front();
}

// Nothing more for a while, or it goes on for so long that it must be told now.
bool SwarmWatch::quiet(const std::deque<Instant>& times, Instant now) {
  return now - times.back() >= kQuiet || now - times.front() >= kWindow / 2;
}

void SwarmWatch::shift(Duration by) {
  for (Instant& time : lost_) time += by;
  for (Instant& time : found_) time += by;
  split_at_ += by;
}

void SwarmWatch::become_whole() {
  state_ = State::kWhole;
  were_there_ = lost_before_ = 0;
}

void SwarmWatch::fall_apart(Instant now, State state, std::uint64_t were_there) {
  state_ = state;
  were_there_ = std::max(were_there_, were_there);
  split_at_ = now;
  found_.clear();
}

bool SwarmWatch::is_over(Instant now, std::uint64_t present) const {
  if (state_ == State::kWhole || present == 0) return false;
  const double nearly_all = kNearlyAll * static_cast<double>(were_there_);
  return static_cast<double>(present) >= nearly_all || now - split_at_ > GentleMerge::kSplitMost;
}

std::optional<SwarmChanged> SwarmWatch::look(Instant now, std::uint64_t present) {
  forget(lost_, now);
  forget(found_, now);
  const std::uint64_t lost = lost_.size();
  const std::uint64_t found = found_.size();
  const auto report = [present](SwarmChange change, std::uint64_t moved, std::uint64_t of) {
    const double share = of == 0 ? 0 : static_cast<double>(moved) / static_cast<double>(of);
    return SwarmChanged{change, present, moved, std::min(share, 1.0)};
  };
  const auto enough = [found](std::uint64_t of) {
    return found > 0 && static_cast<double>(found) >= kShare * static_cast<double>(of);
  };
  had_company_ = had_company_ || present > 0;
  const bool healed = lost_before_ > 0 && enough(lost_before_);
  if (!healed && is_over(now, present)) become_whole();

  if (state_ != State::kAlone && present == 0 && had_company_) {
    lost_before_ = std::max(lost_before_, lost);
    fall_apart(now, State::kAlone, lost_before_);
    return lost == 0 ? std::nullopt : std::optional(report(SwarmChange::kAlone, lost, lost));
  }
  const std::uint64_t were_there = present + lost;
  if (state_ != State::kAlone && lost >= kLeast && quiet(lost_, now) &&
      static_cast<double>(lost) >= kShare * static_cast<double>(were_there)) {
    fall_apart(now, State::kSplit, were_there);
    lost_before_ = were_there_ - present;
    lost_.clear();
    return report(SwarmChange::kSplit, lost, were_there);
  }
  const bool grown = state_ == State::kWhole && found >= kLeast && enough(present);
  if (!(healed || grown) || !quiet(found_, now)) return std::nullopt;
  become_whole();
  lost_.clear();
  found_.clear();
  return report(SwarmChange::kHealed, found, present);
}

}  // namespace starling::gossip
