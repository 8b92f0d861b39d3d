// GreetingLimit: how many signatures of strangers are checked. A greeting with a bad one costs
// whoever sends it nothing and its reader a tenth of a millisecond, and of a stranger nothing is
// kept that could be held against it. So of those who have not been met so many are checked in all,
// and nobody's for kForgedFor after a bad one: a few keys cannot use up what is there for all.
//
// Beyond that a greeting is dropped unread; an honest peer greets again. What it remembers is
// bounded by what it checks: kAtOnce and kForgedFor's worth of kPerSecond. No clock: `now` is an
// argument and never goes back. Thread: one owner.
#pragma once

#include <deque>
#include <set>
#include <utility>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/token_bucket.h"

namespace starling::gossip {

class GreetingLimit {
 public:
  static constexpr double kPerSecond = 100;  // a hundredth of a processor
  static constexpr double kAtOnce = 500;     // a swarm that starts together
  static constexpr Duration kForgedFor = std::chrono::seconds(30);

  explicit GreetingLimit(Instant now) : checks_(kPerSecond, kAtOnce, now) {}

  // False: it is not to be checked now.
  bool take(Instant now, PeerId stranger) {
    while (!forged_.empty() && now - forged_.front().first >= kForgedFor) {
      forgers_.erase(forged_.front().second);
      forged_.pop_front();
    }
    if (forgers_.contains(stranger) || !checks_.may_take(now)) return false;
    checks_.take(now, 1);
    return true;
  }
  // What was taken for it was no signature of its own.
  void note_forged(Instant now, PeerId stranger) {
    if (forgers_.insert(stranger).second) forged_.emplace_back(now, stranger);
  }
  std::size_t forgers() const { return forgers_.size(); }

 private:
  TokenBucket checks_;
  std::set<PeerId> forgers_;
  std::deque<std::pair<Instant, PeerId>> forged_;  // the same, oldest first
};

}  // namespace starling::gossip
