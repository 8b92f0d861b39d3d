// PartnerTurns: a partner begins an exchange of a fragment once in a round of this peer's own, or
// again after half of the others have had theirs. Partners are drawn by chance, so honest ones
// seldom come twice in that time (and find another then); who comes on purpose, again and again,
// would pull this peer farther than all others together pull it back.
//
// A row for each partner since the last round; beyond kRowsMax the first to come is forgotten. No
// clock. Thread: one owner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/ids.h"

namespace starling::gossip {

class PartnerTurns {
 public:
  static constexpr std::size_t kRowsMax = 64;

  explicit PartnerTurns(std::size_t fragments) : came_(fragments) {}

  // `others`: alive.
  bool may_begin(FragmentId fragment, PeerId peer, std::uint64_t others) const {
    const auto& came = came_.at(fragment.value);
    const auto found = std::find(came.begin(), came.end(), peer);
    const auto since = static_cast<std::uint64_t>(came.end() - found);  // it among them
    return found == came.end() || since > others / 2;
  }
  void on_begun(FragmentId fragment, PeerId peer) {
    auto& came = came_.at(fragment.value);
    std::erase(came, peer);
    came.push_back(peer);
    if (came.size() > kRowsMax) came.pop_front();
  }
  void on_round(FragmentId fragment) { came_.at(fragment.value).clear(); }

 private:
  std::vector<std::deque<PeerId>> came_;  // by fragment, the last to come at the end
};

}  // namespace starling::gossip
