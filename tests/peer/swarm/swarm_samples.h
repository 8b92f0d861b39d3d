// What somebody asks of `starling swarm`, for its tests.
#pragma once

#include <cstdint>

#include "peer/swarm/swarm_launches.h"

namespace starling::peer {

inline SwarmOptions swarm_options(std::uint32_t peers) {
  SwarmOptions result;
  result.program = "/usr/bin/starling";
  result.config = "configs/demo.toml";
  result.peers = peers;
  return result;
}

}  // namespace starling::peer
