#include "gossip/payload_queues.h"

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

}  // namespace

void PayloadQueues::push(PeerId to, Frame frame) {
  Queue& queue = queues_[to];
  for (Frame& waiting : queue.frames) {
    if (!replaces(frame.head, waiting.head)) continue;
    waiting = std::move(frame);
    ++dropped_;
    return;
  }
  const auto deltas = std::count_if(queue.frames.begin(), queue.frames.end(), is_delta);
  const bool over = is_delta(frame) && static_cast<std::size_t>(deltas) >= deltas_max_;
  if (over || queue.frames.size() >= kFramesMax) {
    ++dropped_;
    return;
  }
  queue.frames.push_back(std::move(frame));
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
      if (!upload_.may_take(now)) return any;
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
    const Duration stuck = now - *queue.stuck_since;
    if (stuck <= kStuckMin) return false;
    if (stuck <= std::min<Duration>(calls.patience(peer, bytes), kStuckMax)) return false;
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
