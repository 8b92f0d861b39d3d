#include "peer/pools.h"

#include <doctest/doctest.h>

#include "base/cpu_device.h"
#include "gossip/wire.h"
#include "optim/fragment_codec.h"

namespace starling::peer {

TEST_CASE("a payload's slot holds a stripe in every format, and keeps slots aligned") {
  for (const std::size_t parameters : {1, 63, 64, 1000, 1 << 18}) {
    const std::size_t bytes = payload_slot_bytes(parameters);
    CHECK(bytes % 64 == 0);
    CHECK(bytes >= gossip::kBulkHeadBytes + parameters * sizeof(float));
    CHECK(bytes >=
          gossip::kBulkHeadBytes + optim::delta_bytes(optim::WireFormat::kMod8, parameters));
    CHECK(bytes <= gossip::kBulkFrameBytesMax + 64);
  }
}

}  // namespace starling::peer
