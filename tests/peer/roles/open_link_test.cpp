#include "peer/roles/open_link.h"

#include <doctest/doctest.h>

namespace starling::peer {

TEST_CASE("what a relay forwards leaves at least half of an upload limit to its own payloads") {
  PeerConfig config;
  const auto with = [&config](double relay, double upload) {
    config.relay.mbit = relay;
    config.bandwidth.upload_mbit = upload;
    return relay_mbit(config);
  };
  CHECK(with(10, 0) == 10);
  CHECK(with(0, 0) == 0);  // no limit at all
  CHECK(with(10, 2) == 1);
  CHECK(with(10, 100) == 10);
  CHECK(with(0, 100) == 50);
}

}  // namespace starling::peer
