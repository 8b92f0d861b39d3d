#include "gossip/swarm_watch.h"

#include <algorithm>

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
  had_company_ = had_company_ || present > 0;
  if (state_ == State::kAlone && present > 0 && lost_before_ == 0) state_ = State::kWhole;

  if (state_ != State::kAlone && present == 0 && had_company_) {
    state_ = State::kAlone;
    lost_before_ = std::max(lost_before_, lost);
    found_.clear();
    return lost == 0 ? std::nullopt : std::optional(report(SwarmChange::kAlone, lost, lost));
  }
  const std::uint64_t were_there = present + lost;
  if (state_ != State::kAlone && lost >= kLeast && quiet(lost_, now) &&
      static_cast<double>(lost) >= kShare * static_cast<double>(were_there)) {
    state_ = State::kSplit;
    lost_before_ += lost;
    lost_.clear();
    found_.clear();
    return report(SwarmChange::kSplit, lost, were_there);
  }
  const auto enough = [&](std::uint64_t of) {
    return found > 0 && static_cast<double>(found) >= kShare * static_cast<double>(of);
  };
  const bool healed = state_ != State::kWhole && enough(std::max<std::uint64_t>(lost_before_, 1));
  const bool grown = state_ == State::kWhole && found >= kLeast && enough(present);
  if (!(healed || grown) || !quiet(found_, now)) return std::nullopt;
  state_ = State::kWhole;
  lost_before_ = 0;
  lost_.clear();
  found_.clear();
  return report(SwarmChange::kHealed, found, present);
}

}  // namespace starling::gossip
