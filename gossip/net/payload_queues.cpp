#include "gossip/net/payload_queues.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace starling::gossip {
namespace {

// The same stripe on the same way.
bool replaces(const Message& news, const Message& waiting) {
  const auto same = [](const StripeRef& left, const StripeRef& right) {
    return left.exchange == right.exchange && left.fragment == right.fragment &&
           left.stripe == right.stripe;
  };
  if (const auto* push = std::get_if<Push>(&news)) {
    const auto* other = std::get_if<Push>(&waiting);
    return other != nullptr && same(push->ref, other->ref);
  }
  if (const auto* delta = std::get_if<Delta>(&news)) {
    const auto* other = std::get_if<Delta>(&waiting);
    return other != nullptr && same(delta->ref, other->ref);
  }
  return false;
}

bool is_delta(const PayloadQueues::Frame& frame) {
  return std::holds_alternative<Delta>(frame.head);
}

std::size_t deltas_in(const std::deque<PayloadQueues::Frame>& frames) {
  return static_cast<std::size_t>(std::count_if(frames.begin(), frames.end(), is_delta));
}

}  // namespace

void PayloadQueues::push(PeerId to, Frame frame, const DeltaCount& sent) {
  Queue& queue = queues_[to];
  for (Frame& waiting : queue.frames) {
    if (!replaces(frame.head, waiting.head)) continue;
    waiting = std::move(frame);
    ++dropped_;
    return;
  }
  if (has_room(queue, frame, sent)) {
    queue.frames.push_back(std::move(frame));
    return;
  }
  ++dropped_;
  if (queue.frames.empty()) queues_.erase(to);
}

bool PayloadQueues::has_room(const Queue& queue, const Frame& frame, const DeltaCount& sent) const {
  if (queue.frames.size() >= kFramesMax) return false;
  if (!is_delta(frame)) return true;
  std::size_t all = sent.of_all;
  for (const auto& [peer, other] : queues_) all += deltas_in(other.frames);
  return deltas_in(queue.frames) + sent.of_peer < deltas_max_.of_peer && all < deltas_max_.of_all;
}

std::size_t PayloadQueues::pieces(PeerId to) const {
  const auto queue = queues_.find(to);
  if (queue == queues_.end()) return 0;
  const auto is_piece = [](const Frame& frame) {
    return std::holds_alternative<Piece>(frame.head);
  };
  return static_cast<std::size_t>(
      std::count_if(queue->second.frames.begin(), queue->second.frames.end(), is_piece));
}

void PayloadQueues::drop(PeerId to) {
  const auto queue = queues_.find(to);
  if (queue == queues_.end()) return;
  dropped_ += queue->second.frames.size();
  queues_.erase(queue);
}

bool PayloadQueues::pump(Instant now, const Send& send, const Failed& failed,
                         const Patience& patience) {
  const Calls calls{send, failed, patience};
  bool any = false;
  // Rounds of one frame per peer, until a round moves nothing.
  for (bool moved = true; moved && !queues_.empty();) {
    moved = false;
    auto next = queues_.upper_bound(last_);
    for (std::size_t left = queues_.size(); left > 0; --left) {
      if (!upload_.may_take(now)) return any || moved;
      if (next == queues_.end()) next = queues_.begin();
      const PeerId peer = next->first;
      moved = serve(now, peer, next->second, calls) || moved;
      last_ = peer;
      next = next->second.frames.empty() ? queues_.erase(next) : std::next(next);
    }
    any = any || moved;
  }
  return any;
}

// One frame of one peer. True if it went, or was given up.
bool PayloadQueues::serve(Instant now, PeerId peer, Queue& queue, const Calls& calls) {
  Frame& frame = queue.frames.front();
  const std::size_t bytes = frame.payload_bytes;
  const Sending sending = calls.send(peer, frame);
  if (sending == Sending::kBusy) {
    if (!queue.stuck_since) queue.stuck_since = now;
    if (now - *queue.stuck_since <= stuck_max(calls.patience(peer, bytes))) return false;
    dropped_ += queue.frames.size();
    queue.frames.clear();
    return true;
  }
  queue.frames.pop_front();
  queue.stuck_since.reset();
  if (sending == Sending::kSent) {
    upload_.take(now, bytes);
  } else {
    ++dropped_;
    calls.failed(peer);
  }
  return true;
}

std::size_t PayloadQueues::frames() const {
  std::size_t count = 0;
  for (const auto& [peer, queue] : queues_) count += queue.frames.size();
  return count;
}

}  // namespace starling::gossip
