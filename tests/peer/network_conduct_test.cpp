#include "peer/network_conduct.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "peer/network.h"

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

TEST_CASE("frames and connections that were not taken are told by what was wrong with them") {
  gossip::LinkStats link;
  nlohmann::json line;
  add_link_faults(line, link);
  CHECK(line == nlohmann::json{{"frames_dropped", nlohmann::json::object()},
                               {"callers_ended", nlohmann::json::object()},
                               {"handshakes_failed", 0}});
  link.oversized = 1;
  link.forged = 2;
  link.callers.unfinished = 3;
  link.callers.hasty = 4;
  link.callers.idle_readers = 6;
  link.handshakes_failed = 5;
  add_link_faults(line, link);
  CHECK(line == nlohmann::json{
                    {"frames_dropped", {{"oversized", 1}, {"other name", 2}}},
                    {"callers_ended", {{"no handshake", 3}, {"too fast", 4}, {"do not read", 6}}},
                    {"handshakes_failed", 5}});
}

}  // namespace starling::peer
