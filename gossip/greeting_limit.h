// GreetingLimit: how many signatures of strangers are checked: of greetings, and of what they show
// of another process with the reader's key. A bad one costs whoever sends it nothing and its reader
// a tenth of a millisecond, and of a stranger nothing is kept that could be held against it. So of
// those who have not been met so many are checked in all, and nobody's for kBarredFor after one
// that was in vain, be it a bad one or a good one for whom there is no room: a few keys cannot use
// up what is there for all.
//
// Beyond that a message is dropped unread; an honest peer greets again. What it remembers is
// bounded by what it checks: kAtOnce and kBarredFor's worth of kPerSecond. No clock: `now` is an
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
  static constexpr Duration kBarredFor = std::chrono::seconds(30);

  explicit GreetingLimit(Instant now) : checks_(kPerSecond, kAtOnce, now) {}

  // False: it is not to be checked now.
  bool take(Instant now, PeerId stranger) {
    while (!since_.empty() && now - since_.front().first >= kBarredFor) {
      barred_.erase(since_.front().second);
      since_.pop_front();
    }
    if (barred_.contains(stranger) || !checks_.may_take(now)) return false;
    checks_.take(now, 1);
    return true;
  }
  // What was taken for it was in vain.
  void bar(Instant now, PeerId stranger) {
    if (barred_.insert(stranger).second) since_.emplace_back(now, stranger);
  }

 private:
  TokenBucket checks_;
  std::set<PeerId> barred_;
  std::deque<std::pair<Instant, PeerId>> since_;  // the same, oldest first
};

}  // namespace starling::gossip
