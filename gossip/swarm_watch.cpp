#include "gossip/swarm_watch.h"

#include <algorithm>

#include "gossip/gentle_merge.h"

namespace starling::gossip {

void SwarmWatch::on_found(Instant now, PeerId peer) {
  const auto missed = std::find_if(lost_.begin(), lost_.end(),
                                   [peer](const Move& move) { return move.peer == peer; });
  if (missed != lost_.end()) {
    lost_.erase(missed);  // nobody was told
    back_at_ = now;
  } else {
    note(found_, now, peer);
    missed_.erase(peer);
  }
}

void SwarmWatch::on_struck_off(PeerId peer, bool present) {
  const auto is_it = [peer](const Move& move) { return move.peer == peer; };
  const bool just_lost = std::erase_if(lost_, is_it) > 0;
  std::erase_if(found_, is_it);
  const auto missed = missed_.find(peer);
  const bool was_there = present || just_lost || missed != missed_.end();
  if (state_ == State::kWhole || !was_there) return;
  if (were_there_ > 0) --were_there_;
  if (missed == missed_.end()) return;
  if (missed->second && lost_before_ > 0) --lost_before_;
  missed_.erase(missed);
}

void SwarmWatch::note(std::deque<Move>& moves, Instant now, PeerId peer) {
  moves.push_back({now, peer});
  if (moves.size() > kNotedMax) moves.pop_front();
}

void SwarmWatch::forget(std::deque<Move>& moves, Instant now) {
  while (!moves.empty() && now - moves.front().at > kWindow) moves.pop_front();
}

void SwarmWatch::forget_lost(Instant now) {
  for (const Move& move : lost_) {
    if (now - move.at <= kWindow) break;
    if (state_ != State::kWhole) missed_.try_emplace(move.peer, false);
  }
  forget(lost_, now);
}

// Nothing more for a while, or it goes on for so long that it must be told now.
bool SwarmWatch::quiet(const std::deque<Move>& moves, Instant now, Instant back_at) {
  const Instant moved = std::max(moves.back().at, back_at);
  return now - moved >= kQuiet || now - moves.front().at >= kWindow / 2;
}

void SwarmWatch::shift(Duration by) {
  for (Move& move : lost_) move.at += by;
  for (Move& move : found_) move.at += by;
  split_at_ += by;
  back_at_ += by;
}

void SwarmWatch::become_whole() {
  state_ = State::kWhole;
  were_there_ = lost_before_ = 0;
  missed_.clear();
}

void SwarmWatch::fall_apart(Instant now, State state, std::uint64_t were_there) {
  state_ = state;
  were_there_ = std::max(were_there_, were_there);
  split_at_ = now;
  for (const Move& move : lost_) missed_[move.peer] = true;
  lost_.clear();
  found_.clear();
}

bool SwarmWatch::is_over(Instant now, std::uint64_t present) const {
  if (state_ == State::kWhole || present == 0) return false;
  const double nearly_all = kNearlyAll * static_cast<double>(were_there_);
  return static_cast<double>(present) >= nearly_all || now - split_at_ > GentleMerge::kSplitMost;
}

std::optional<SwarmChanged> SwarmWatch::look(Instant now, std::uint64_t present) {
  forget_lost(now);
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
  if (state_ != State::kAlone && lost >= kLeast && quiet(lost_, now, back_at_) &&
      static_cast<double>(lost) >= kShare * static_cast<double>(were_there)) {
    fall_apart(now, State::kSplit, were_there);
    lost_before_ = were_there_ - present;
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
