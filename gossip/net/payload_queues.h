// PayloadQueues: payloads on their way out, one queue per peer, under the owner's upload limit.
//
// One frame of each peer in turn, so that a slow or dead line holds up nobody else's. What a line
// cannot take now is tried again at the next pump(); a line that has taken nothing for as long as
// a payload may take by what was measured of it, kStuckMin at least and kStuckMax at most, loses
// its queue, so that it does not keep slots. Waiting for the limit is nobody's fault and does not
// count. Small messages are charged to the limit and never wait for it; however many others bring
// about, payloads wait for no more than TokenBucket::kChargedMax of them.
//
// At most kFramesMax per peer. Of deltas, which a peer gets by asking, only so many are in slots
// for it, and for all, those that have left the queue and not yet this machine among them: whoever
// reads slowly keeps slots that others need. A payload takes the place of one of the same
// stripe that still waits. Knows no sockets and no clock: `send` and `now` are arguments. Thread:
// one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "base/slot_pool.h"
#include "gossip/net/link.h"
#include "gossip/token_bucket.h"

namespace starling::gossip {

// Deltas in slots.
struct DeltaCount {
  std::size_t of_peer = 0, of_all = 0;
};

class PayloadQueues {
 public:
  static constexpr std::size_t kFramesMax = 64;  // of one peer: two whole windows
  static constexpr Duration kStuckMin = std::chrono::minutes(2);
  static constexpr Duration kStuckMax = std::chrono::minutes(10);

  struct Frame {
    Message head;
    std::optional<SlotLease> slot;
    std::size_t payload_bytes = 0;
  };
  // Tries to send. kBusy leaves the frame as it is.
  using Send = std::function<Sending(PeerId, Frame&)>;
  // Hears of a peer that cannot be reached.
  using Failed = std::function<void(PeerId)>;
  // How long so many bytes may take, as far as known.
  using Patience = std::function<Duration(PeerId, std::size_t)>;
  // How long what may take `patience` may be stuck.
  static Duration stuck_max(Duration patience) {
    return std::clamp<Duration>(patience, kStuckMin, kStuckMax);
  }

  explicit PayloadQueues(TokenBucket upload, const DeltaCount& most = {kFramesMax, SIZE_MAX})
      : upload_(upload), deltas_max_(most) {}

  // Dropped and counted if there is no room. `sent`: that are in slots still, though they have left
  // the queues.
  void push(PeerId to, Frame frame, const DeltaCount& sent = {});
  void drop(PeerId to);
  // What goes out beside these: small messages, and payloads of others.
  void charge(Instant now, std::size_t bytes) { upload_.charge(now, bytes); }
  void take(Instant now, std::size_t bytes) { upload_.take(now, bytes); }
  // Sends what may go now. True if any frame moved.
  bool pump(Instant now, const Send& send, const Failed& failed, const Patience& patience);

  bool empty() const { return queues_.empty(); }
  std::size_t pieces(PeerId to) const;  // that wait for it
  std::size_t frames() const;
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Queue {
    std::deque<Frame> frames;            // oldest first, never empty between calls
    std::optional<Instant> stuck_since;  // when its line first refused, since it last took
  };
  struct Calls {
    const Send& send;
    const Failed& failed;
    const Patience& patience;
  };
  bool has_room(const Queue& queue, const Frame& frame, const DeltaCount& sent) const;
  bool serve(Instant now, PeerId peer, Queue& queue, const Calls& calls);

  TokenBucket upload_;
  const DeltaCount deltas_max_;
  std::map<PeerId, Queue> queues_;
  PeerId last_;  // whose turn it was
  std::uint64_t dropped_ = 0;
};

}  // namespace starling::gossip
