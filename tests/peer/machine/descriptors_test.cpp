#include "peer/machine/descriptors.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

namespace starling::peer {

TEST_CASE("the soft limit of descriptors is raised to the hard one") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{.rlim_cur = before.rlim_max / 2, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK(raise_descriptor_limit() == before.rlim_max);
  rlimit after{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &after) == 0);
  CHECK(after.rlim_cur == before.rlim_max);
  CHECK(after.rlim_max == before.rlim_max);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("others get what own files and lines leave, up to what the swarm needs") {
  GossipSettings settings;
  settings.peers_max = 1024;
  settings.connections_max = 64;
  const DescriptorPlan plenty = plan_descriptors(1 << 20, settings);
  CHECK(plenty.callers_max == 4096);
  CHECK(plenty.wanted == 4096 + 256 + 1024);
  CHECK(plan_descriptors(plenty.wanted, settings).callers_max == 4096);
  CHECK(plan_descriptors(plenty.wanted - 100, settings).callers_max == 3996);
  CHECK(plan_descriptors(1024, settings).callers_max == 256);  // and hope
  settings.peers_max = 16;
  settings.connections_max = 8;
  CHECK(plan_descriptors(1024, settings).callers_max == 64);
  CHECK(plan_descriptors(1024, settings).wanted < 1024);
}

}  // namespace starling::peer
