#include "peer/models/distinct_peers.h"

#include <fmt/format.h>

#include <map>

namespace starling::peer {

Status check_distinct(std::span<const PeerFile> files) {
  std::map<std::uint64_t, const PeerFile*> of_peers;
  for (const PeerFile& file : files) {
    if (file.peer == 0) continue;
    const auto [other, added] = of_peers.emplace(file.peer, &file);
    if (added) continue;
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("{} and {} are of one peer, which would count twice: leave one out",
                             other->second->path.string(), file.path.string()));
  }
  return ok_status();
}

}  // namespace starling::peer
