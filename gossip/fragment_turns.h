// FragmentTurns: who has had a fragment for long while others wanted it, and leaves it to them for
// kFactor times as long: so that one peer, slow or hostile, has at most a quarter of the time of a
// fragment for which there is a queue. Longer than it had it, as it may begin again at once and a
// lease of many stripes may last for an hour.
//
// At most kRowsMax rows; the one that ends first makes room. No clock. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/conduct.h"

namespace starling::gossip {

class FragmentTurns {
 public:
  static constexpr std::size_t kRowsMax = 1024;
  static constexpr int kFactor = Conduct::kYieldFactor;

  void kept_others_out(Instant now, FragmentId fragment, PeerId peer, Duration held) {
    std::erase_if(until_, [now](const auto& row) { return row.second <= now; });
    Instant& until = until_[{fragment, peer}];
    until = std::max(until, now + kFactor * held);
    if (until_.size() <= kRowsMax) return;
    until_.erase(std::min_element(until_.begin(), until_.end(), [](const auto& a, const auto& b) {
      return a.second < b.second;
    }));
  }
  bool is_others(Instant now, FragmentId fragment, PeerId peer) const {
    const auto found = until_.find({fragment, peer});
    return found != until_.end() && now < found->second;
  }
  std::size_t size() const { return until_.size(); }

 private:
  std::map<std::pair<FragmentId, PeerId>, Instant> until_;
};

}  // namespace starling::gossip
