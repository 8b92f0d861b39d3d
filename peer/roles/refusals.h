// What an operator can do about a peer with which this one does not take part (gossip/messages.h).
// For log and doctor.
#pragma once

#include <string_view>

#include "gossip/messages.h"

namespace starling::peer {

// What has to be changed, and where. `by_us`: this peer refused the other, not the other this one.
std::string_view remedy_of(gossip::RefuseReason reason, bool by_us);

}  // namespace starling::peer
