// Forwarder: what this peer forwards between others, within its owner's rate. For whom: the core
// says (relay_host.h). What: envelopes, as they came; nobody here can look into them.
//
// Both lanes together never take more than the rate. An eighth is kept for small messages, so that
// payloads do not shut out what settles them, and no sender gets more than a quarter of that, so
// that one that floods does not shut out the others; a small message that finds no room is lost, as
// on any network. Payloads wait: at most kHeldMax, kHeldOfOneMax of one sender, each kHeldFor. So a
// sender sees a slow line, whose pace can be measured, and not a lossy one.
//
// Knows no sockets and no clock. Included by link*.cpp and its test only. Thread: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <zmq.hpp>

#include "gossip/net/link.h"
#include "gossip/token_bucket.h"

namespace starling::gossip {

class Forwarder {
 public:
  static constexpr std::size_t kHeldMax = 16;
  static constexpr std::size_t kHeldOfOneMax = 4;
  static constexpr std::size_t kSendersMax = 1024;
  static constexpr Duration kHeldFor = std::chrono::seconds(20);

  explicit Forwarder(double bytes_per_second);  // 0: no limit

  void set_holder(PeerId peer, bool wanted);
  // One of the two must hold a promise.
  bool serves(PeerId from, PeerId to) const;

  // A small message. True: it may go now, and is counted.
  bool admit(Instant now, PeerId from, std::size_t bytes);
  // A payload. False: there is no room, it is gone.
  bool hold(Instant now, PeerId from, PeerId to, zmq::message_t frame);
  // Sends what may go now. `send` is as in PayloadQueues; kBusy leaves the frame alone.
  using Send = std::function<Sending(PeerId, zmq::message_t&)>;
  struct Pumped {
    std::uint64_t sent = 0, bytes = 0;
    std::uint64_t lost = 0;  // too old, or nowhere to go
  };
  Pumped pump(Instant now, const Send& send);
  std::size_t held() const { return held_.size(); }

 private:
  struct Held {
    PeerId from, to;
    zmq::message_t frame;
    Instant since;
  };
  const double small_rate_;
  TokenBucket small_, large_;
  std::map<PeerId, TokenBucket> small_of_;  // by sender; at most kSendersMax
  std::set<PeerId> holders_;
  std::deque<Held> held_;  // oldest first
};

}  // namespace starling::gossip
