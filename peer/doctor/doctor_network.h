// What `starling doctor` finds out of this machine's network, without asking anybody: whether the
// ports can be had, who could call the address that others are told, and how payloads would leave.
// Ports are bound and let go at once. Start-up and tools.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossip/messages.h"
#include "gossip/net/link_congestion.h"
#include "gossip/public_key.h"
#include "peer/config/config.h"
#include "peer/doctor/doctor_report.h"

namespace starling::peer {

// `advertised`: what others are told; it does not listen: nobody can call.
Finding judge_address(const gossip::PeerAddress& advertised,
                      std::span<const gossip::PeerAddress> seeds);

// The status page at `page`, of which `text` tells; whoever can connect may read it.
Finding judge_page(const gossip::PeerAddress& page, const std::string& text);

// Whether gossip.seeds names somebody to call; nothing where it does. `own`: null: this peer has no
// key yet, and so nobody can have named it.
std::optional<Finding> judge_seeds(std::span<const gossip::PeerAddress> seeds,
                                   const gossip::PublicKey* own);

// Where this peer listens, for peers and for browsers, and what it tells others. The first of them
// failed: gossip.listen cannot be had. `process`: as which this peer runs, so that its ports are
// taken; empty: it does not.
std::vector<Finding> check_addresses(const PeerConfig& config,
                                     std::span<const gossip::PeerAddress> seeds,
                                     std::string_view process = {});

// What encryption costs here: this machine's traffic with itself. Takes two seconds.
Finding check_encryption();

// Whether lines that lose packets slow this machine down.
Finding check_congestion_control();
Finding judge_congestion_control(const std::optional<gossip::CongestionControl>& control);

}  // namespace starling::peer
