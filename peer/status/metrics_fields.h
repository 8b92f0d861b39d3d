// Fields of a line of the metrics that are made of counters of the gossip room. Of misbehaviour:
// what was turned down by whom and why, and who is muted; of frames and connections that were not
// taken; of relays: who is reached through them, what was forwarded, what came sealed and was not
// sound.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "gossip/core.h"
#include "gossip/net/link.h"

namespace starling::peer {

void add_relays(nlohmann::json& line, const gossip::CoreStats& core,
                const gossip::RelayStats& relayed);
void add_link_faults(nlohmann::json& line, const gossip::LinkStats& link);
void add_conduct(nlohmann::json& line, const gossip::CoreStats& core, std::size_t peers_muted);

}  // namespace starling::peer
