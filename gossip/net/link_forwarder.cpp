#include "gossip/net/link_forwarder.h"

#include <algorithm>
#include <utility>

namespace starling::gossip {
namespace {

constexpr double kSmallShare = 0.125;
constexpr double kShareOfOne = 0.25;
// Unused rate is kept for this long.
constexpr double kBurstSeconds = 0.5;

TokenBucket bucket(double bytes_per_second) {
  return {bytes_per_second, bytes_per_second * kBurstSeconds, Instant{}};
}

}  // namespace

Forwarder::Forwarder(double bytes_per_second)
    : small_rate_(bytes_per_second * kSmallShare),
      small_(bucket(small_rate_)),
      large_(bucket(bytes_per_second * (1 - kSmallShare))) {}

// What is held for one whose promise is over is lost in time.
void Forwarder::set_holder(PeerId peer, bool wanted) {
  if (wanted) {
    holders_.insert(peer);
  } else {
    holders_.erase(peer);
  }
}

bool Forwarder::serves(PeerId from, PeerId to) const {
  return holders_.contains(from) || holders_.contains(to);
}

bool Forwarder::admit(Instant now, PeerId from, std::size_t bytes) {
  if (small_of_.size() >= kSendersMax) small_of_.clear();  // long gone, nearly all of them
  TokenBucket& own = small_of_.try_emplace(from, bucket(small_rate_ * kShareOfOne)).first->second;
  if (!own.may_take(now) || !small_.may_take(now)) return false;
  own.take(now, bytes);
  small_.take(now, bytes);
  return true;
}

bool Forwarder::hold(Instant now, PeerId from, PeerId to, zmq::message_t frame) {
  const auto of_one = std::count_if(held_.begin(), held_.end(),
                                    [from](const Held& held) { return held.from == from; });
  const bool greedy = of_one >= static_cast<std::ptrdiff_t>(kHeldOfOneMax);
  if (held_.size() >= kHeldMax || greedy) return false;
  held_.push_back({from, to, std::move(frame), now});
  return true;
}

Forwarder::Pumped Forwarder::pump(Instant now, const Send& send) {
  Pumped pumped;
  // One that cannot go holds up nobody else's.
  for (auto next = held_.begin(); next != held_.end();) {
    const bool late = now - next->since > kHeldFor || !serves(next->from, next->to);
    if (!late && !large_.may_take(now)) break;
    const std::size_t bytes = next->frame.size();
    const Sending sending = late ? Sending::kFailed : send(next->to, next->frame);
    if (sending == Sending::kBusy) {
      ++next;
      continue;
    }
    if (sending == Sending::kSent) {
      large_.take(now, bytes);
      ++pumped.sent;
      pumped.bytes += bytes;
    } else {
      ++pumped.lost;
    }
    next = held_.erase(next);
  }
  return pumped;
}

}  // namespace starling::gossip
