#include "gossip/probes.h"

#include <algorithm>

#include "base/assert.h"

namespace starling::gossip {

bool Probes::begin(const Probe& probe) {
  if (open_.size() >= kOpenMax || !open_.emplace(probe.target, probe).second) return false;
  help_timers_.set(probe.target, probe.ask_others_at);
  end_timers_.set(probe.target, probe.ends_at);
  return true;
}

std::optional<Probe> Probes::answered(PeerId target) {
  const auto found = open_.find(target);
  if (found == open_.end()) return std::nullopt;
  const Probe probe = found->second;
  open_.erase(found);
  help_timers_.clear(target);
  end_timers_.clear(target);
  return probe;
}

void Probes::note_asked(PeerId target, const BoundedList<PeerId, kHelpersMax>& helpers) {
  const auto found = open_.find(target);
  if (found == open_.end()) return;
  found->second.helpers = helpers;
  found->second.asked = static_cast<std::uint32_t>(helpers.size());
}

bool Probes::note_helper(PeerId target, std::uint64_t nonce, PeerId helper) {
  const auto found = open_.find(target);
  if (found == open_.end() || found->second.nonce != nonce) return false;
  auto& helpers = found->second.helpers;
  const auto asked = std::find(helpers.begin(), helpers.end(), helper);
  if (asked == helpers.end()) return false;
  *asked = PeerId{};  // once
  ++found->second.heard;
  return true;
}

std::vector<Probe> Probes::due_for_help(Instant now) {
  std::vector<Probe> due;
  while (const auto target = help_timers_.pop_due(now)) due.push_back(open_.at(*target));
  return due;
}

std::vector<Probe> Probes::due_for_end(Instant now) {
  std::vector<Probe> due;
  while (const auto target = end_timers_.pop_due(now)) {
    due.push_back(open_.at(*target));
    open_.erase(*target);
    help_timers_.clear(*target);
  }
  return due;
}

bool Probes::owe(const ProbeDuty& duty, Instant until) {
  const auto same = [&duty](const auto& item) {
    return item.second.asker == duty.asker && item.second.target == duty.target;
  };
  if (duties_.size() >= kDutiesMax) return false;
  if (std::any_of(duties_.begin(), duties_.end(), same)) return false;
  duties_.emplace(next_duty_, duty);
  duty_timers_.set(next_duty_++, until);
  return true;
}

std::vector<ProbeDuty> Probes::duties_done(PeerId target) {
  std::vector<ProbeDuty> done;
  for (auto item = duties_.begin(); item != duties_.end();) {
    if (item->second.target != target) {
      ++item;
      continue;
    }
    done.push_back(item->second);
    duty_timers_.clear(item->first);
    item = duties_.erase(item);
  }
  return done;
}

std::vector<ProbeDuty> Probes::duties_due(Instant now) {
  std::vector<ProbeDuty> due;
  while (const auto key = duty_timers_.pop_due(now)) {
    due.push_back(duties_.at(*key));
    duties_.erase(*key);
  }
  return due;
}

std::optional<Instant> Probes::next_deadline() const {
  std::optional<Instant> next;
  for (const auto& timers : {help_timers_.next(), end_timers_.next(), duty_timers_.next()}) {
    if (timers && (!next || *timers < *next)) next = timers;
  }
  return next;
}

void Probes::shift(Duration by) {
  help_timers_.shift(by);
  end_timers_.shift(by);
  duty_timers_.shift(by);
}

void Probes::assert_invariants() const {
  STARLING_ASSERT(open_.size() <= kOpenMax);
  STARLING_ASSERT(duties_.size() <= kDutiesMax);
  STARLING_ASSERT(help_timers_.size() <= open_.size());
  STARLING_ASSERT(end_timers_.size() == open_.size());
  STARLING_ASSERT(duty_timers_.size() == duties_.size());
}

}  // namespace starling::gossip
