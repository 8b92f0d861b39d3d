#include "peer/status/metrics_fields.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace starling::peer {

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
