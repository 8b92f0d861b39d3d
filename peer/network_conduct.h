// What the metrics say of misbehaviour: what was turned down by whom and why, and who is muted.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "gossip/core.h"

namespace starling::peer {

void add_conduct(nlohmann::json& line, const gossip::CoreStats& core, std::size_t peers_muted);

}  // namespace starling::peer
