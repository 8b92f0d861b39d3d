// Descriptors: how many files and connections this process may have open at once (RLIMIT_NOFILE),
// and how many of them are left for connections that others make. Without a bound a flood of those
// would one day keep the peer from opening its own checkpoint. Start-up only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "peer/config/config.h"

namespace starling::peer {

// Raises the soft limit to the hard one; what it is now.
std::uint64_t raise_descriptor_limit();

struct DescriptorPlan {
  std::uint64_t wanted = 0;     // by all, in a swarm of gossip.peers_max
  std::size_t callers_max = 0;  // for LinkConfig
};
DescriptorPlan plan_descriptors(std::uint64_t limit, const GossipSettings& settings);

// The same for this process; warns, with what to change, if it may open too few.
std::size_t callers_max(const GossipSettings& settings);

}  // namespace starling::peer
