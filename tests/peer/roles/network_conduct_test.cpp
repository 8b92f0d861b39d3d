#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "peer/roles/network.h"

namespace starling::peer {

TEST_CASE("mutes of ever other keys fill neither the log nor the disk") {
  Rings rings(4);
  TrainerMetrics trainer;
  MixerMetrics mixer;
  Ending ending;
  std::vector<std::string> events;
  NetworkOutlets outlets;
  outlets.event = [&events](std::string line) { events.push_back(std::move(line)); };
  Network network({}, rings, trainer, mixer, ending, outlets);
  for (std::uint64_t key = 1; key <= 1000; ++key) {
    network.on_muted(
        {PeerId{key}, gossip::RejectReason::kMalformed, std::chrono::minutes(10), true});
  }
  CHECK(events.size() == 10);  // 1, 2, 4, ... 512
  CHECK(events.back().find("\"count\":512") != std::string::npos);
  network.on_muted({PeerId{1}, gossip::RejectReason::kNone, std::chrono::minutes(10), false});
  CHECK(events.size() == 11);  // the first that mutes us
}

}  // namespace starling::peer
