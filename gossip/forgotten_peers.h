// ForgottenPeers: what a PeerTable still knows of peers whose rows made room for others, and may
// come back by hearsay: which of their exchanges was answered last, so that none begins a second
// time, and since when those who were doubted are, so that nobody doubts and buries them again and
// again.
//
// At most `rows_max` of them, of others nothing; whoever was forgotten longest ago makes room.
// Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "base/ids.h"
#include "base/time.h"
#include "gossip/messages.h"

namespace starling::gossip {

class ForgottenPeers {
 public:
  explicit ForgottenPeers(std::size_t rows_max) : rows_max_(rows_max) {}

  // `offers_seen`: the highest counter of an exchange of that process that was answered; `doubted`:
  // it was suspected or dead, or had left; `alive_at`: no sign of life since then is known.
  void remember(const PeerKey& process, std::uint64_t offers_seen, bool doubted, Instant alive_at);
  // 0: none, or nothing is known of that process.
  std::uint64_t offers_seen(const PeerKey& process) const;
  // An earlier life than that which was forgotten is told of by stragglers for so long at most.
  static constexpr Duration kEarlierTold = std::chrono::hours(24);

  // A sign of life from `alive_at` of this process is no news of a life.
  bool is_stale(const PeerKey& process, Instant alive_at) const;
  void shift(Duration by);  // all times are later by this much
  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    std::uint64_t incarnation = 0;
    std::uint64_t offers_seen = 0;
    bool doubted = false;
    Instant alive_at;
    std::uint64_t turn = 0;  // in order_
  };

  std::size_t rows_max_;
  std::unordered_map<PeerId, Row> rows_;
  std::map<std::uint64_t, PeerId> order_;  // whoever was forgotten first comes first
  std::uint64_t turns_ = 0;
};

}  // namespace starling::gossip
