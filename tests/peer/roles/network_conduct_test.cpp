#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "peer/roles/network.h"

namespace starling::peer {

TEST_CASE("each who is muted is named, and mutes of ever other keys fill neither log nor disk") {
  Rings rings(4);
  TrainerMetrics trainer;
  MixerMetrics mixer;
  Ending ending;
  std::vector<std::string> events;
  NetworkOutlets outlets;
  outlets.event = [&events](std::string line) { events.push_back(std::move(line)); };
  Network network({}, rings, trainer, mixer, ending, outlets);
  network.on_muted({PeerId{9}, gossip::RejectReason::kNone, std::chrono::minutes(10), false});
  REQUIRE(events.size() == 1);  // who mutes us
  CHECK(events.back().find(gossip::to_string(PeerId{9})) != std::string::npos);
  events.clear();
  for (std::uint64_t key = 1; key <= 20'000; ++key) {
    network.on_muted(
        {PeerId{key}, gossip::RejectReason::kMalformed, std::chrono::minutes(10), true});
    if (key > 7) continue;
    REQUIRE(events.size() == key);
    CHECK(events.back().find(gossip::to_string(PeerId{key})) != std::string::npos);
  }
  CHECK(events.size() >= 3999);
  CHECK(events.size() < 5000);  // so many at once, and ten a second
}

}  // namespace starling::peer
