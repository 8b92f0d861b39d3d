// What every swarm that is pumped to its end has to show: that it learned, and that its peers
// agree.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/support/pumped_swarm.h"

namespace starling::peer {

// Runs `swarm` to its end. `before`: a peer's loss before its first step. No peer's loss may be
// `apart` times that of another.
inline void check_learns(testing::PumpedSwarm& swarm, float before, float apart) {
  swarm.run(std::chrono::seconds(20));
  std::vector<float> after;
  for (std::uint32_t p = 0; p < swarm.size(); ++p) after.push_back(swarm.trainer(p).validate());
  const auto [least, most] = std::minmax_element(after.begin(), after.end());
  MESSAGE("validation loss " << before << " -> " << *least << " to " << *most);
  CHECK(*most < 0.5F * before);
  CHECK(*most / *least < apart);
  CHECK(swarm.core(0).stats().exchanges_completed > 10);
}

}  // namespace starling::peer
