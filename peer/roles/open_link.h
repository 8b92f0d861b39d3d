// The peer's link, from its configuration: where it listens, whom it trusts, and what its operator
// passes on so that others find it. Start-up only; errors name the key that is wrong.
#pragma once

#include "base/result.h"
#include "gossip/net/link.h"
#include "peer/config/config.h"

namespace starling::peer {

// `process`: the number of this process start.
Result<gossip::ZmqLink> open_link(const PeerConfig& config, const gossip::Identity& identity,
                                  const gossip::RunIdentity& run, std::uint64_t process);

// The part of it that says where to listen; no host where the peer does not.
Status set_listen(const GossipSettings& settings, gossip::LinkConfig& link);

// Mbit/s that may be forwarded; 0: no limit. It leaves over the same line as this peer's own
// payloads, which keep half of what that may send.
double relay_mbit(const PeerConfig& config);

// What others are told: gossip.advertise, or else where the link listens.
Result<gossip::PeerAddress> advertised_address(const GossipSettings& settings,
                                               const gossip::PeerAddress& local);

// One line of the log that can be pasted into another peer's configuration.
void say_how_to_join(const gossip::PeerAddress& address);

}  // namespace starling::peer
