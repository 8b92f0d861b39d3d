#include "peer/machine/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/log.h"

namespace starling::peer {
namespace {

// Shards, checkpoints, logs, pipes, and what the libraries need for themselves.
constexpr std::uint64_t kOwn = 256;
// A line to another peer: two lanes, each a connection and what wakes its reader; payloads may take
// several connections.
constexpr std::uint64_t kOfLine = 16;
// What a peer has open to us: two lanes, and as many again that are new or not yet noticed as lost.
constexpr std::uint64_t kOfCaller = 4;
// Where there are too few, others get at least one in so many.
constexpr std::uint64_t kLeastPart = 4;

}  // namespace

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
}

DescriptorPlan plan_descriptors(std::uint64_t limit, const GossipSettings& settings) {
  const std::uint64_t own = kOwn + kOfLine * settings.connections_max;
  const std::uint64_t callers = kOfCaller * settings.peers_max;
  const std::uint64_t left = std::max(limit > own ? limit - own : 0, limit / kLeastPart);
  return {.wanted = own + callers, .callers_max = std::min(callers, left)};
}

std::size_t callers_max(const GossipSettings& settings) {
  const std::uint64_t limit = raise_descriptor_limit();
  const DescriptorPlan plan = plan_descriptors(limit, settings);
  if (limit < plan.wanted) {
    log_warning(
        "this process may open {} files and connections, and a swarm of gossip.peers_max = {} "
        "wants {}: others can make {} connections at once. Raise the hard limit (ulimit -Hn, "
        "LimitNOFILE in a unit of systemd, --ulimit nofile in Docker) or lower gossip.peers_max",
        limit, settings.peers_max, plan.wanted, plan.callers_max);
  }
  return plan.callers_max;
}

}  // namespace starling::peer
