// Door: answers the library when somebody wants in (ZAP, RFC 27). It decides by the client's
// transport key, which CURVE has proved before it asks, and gives every connection that is let in
// the client's key as its User-Id, so that whatever comes over it is known to be that peer's, and a
// name that was drawn, by which the ROUTER knows the connection.
//
// It is asked on the link's thread: an answer takes a turn of the loop. A loop that does not run
// delays handshakes, nothing else, and they wait 8 s. Bound before any socket listens: without a
// door CURVE would let in everybody, and the listening sockets are told to let in nobody then.
//
// On the allow-list: in. Not on it: refused, and both sides are told. No list: in, but so many a
// second, and on the lane of payloads only who may send any. Who is shunned comes in on the control
// lane alone, at most kShunnedMax. Time is an argument. Included by link*.cpp only. Thread: one
// owner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "base/result.h"
#include "base/time.h"
#include "gossip/net/link_inbox.h"
#include "gossip/net/link_limit.h"
#include "gossip/net/link_reach.h"
#include "gossip/net/link_sockets.h"
#include "gossip/net/trust.h"

namespace starling::gossip {

struct Knock {
  PublicKey key;
  std::string host;  // an IP literal
};

class Door {
 public:
  static constexpr std::size_t kTurnedAwayMax = 64;
  static constexpr std::size_t kShunnedMax = 256;
  static constexpr std::size_t kRouteBytes = 16;  // of a connection's name

  Door(zmq::context_t& context, Inbox& inbox, const PublicKey& self, std::optional<AllowList> allow,
       CallersReach& reach);

  // Shows that a key nobody knows is refused at `listener`, a socket bound in this context. An
  // error means that the door stands open.
  Status test(zmq::context_t& context, zmq::socket_t& listener, const Identity& server);

  using MaySend = std::function<bool(const PublicKey&)>;  // payloads, where there is no list
  void answer(Instant now, const MaySend& may_send);      // all who ask
  bool allows(const PublicKey& key) const;
  void set_allow_list(AllowList allow) { allow_ = std::move(allow); }
  const std::optional<AllowList>& allow_list() const { return allow_; }
  void shun_bulk(Instant now, PeerId peer, Duration length);
  // Who was turned away for want of an entry in the list, at most kTurnedAwayMax; emptied.
  std::vector<Knock> take_turned_away();
  std::uint64_t asked_again() const { return asked_again_; }  // no list, and too many a second

 private:
  struct Request;
  struct Verdict;
  static std::optional<Request> receive(zmq::socket_t& socket, bool& any);
  Verdict judge(Instant now, const Request& request, const MaySend& may_send);

  const PublicKey self_;
  std::optional<AllowList> allow_;
  std::optional<CurveKey> foreigner_;  // of the test
  HandshakeLimit limit_{HandshakeLimit::kStrangers};
  std::map<PeerId, Instant> shunned_;  // until when
  std::vector<Knock> turned_away_;
  std::uint64_t asked_again_ = 0;
  CallersReach& reach_;
  Port port_;
};

}  // namespace starling::gossip
