#include <doctest/doctest.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "peer/roles/network.h"

namespace starling::peer {

namespace {

// A network role that nobody is behind, and what it writes to events.jsonl.
struct Listener {
  Listener() {
    NetworkOutlets outlets;
    outlets.event = [this](const std::string& line) {
      events.push_back(nlohmann::json::parse(line));
    };
    network.emplace(NetworkConfig{}, rings, trainer, mixer, ending, outlets);
  }
  const nlohmann::json& last(std::string_view kind) const {
    REQUIRE_FALSE(events.empty());
    REQUIRE(events.back().at("event") == kind);
    return events.back();
  }

  Rings rings{4};
  TrainerMetrics trainer;
  MixerMetrics mixer;
  Ending ending;
  std::vector<nlohmann::json> events;
  std::optional<Network> network;
};

const PeerId kStranger{9};

}  // namespace

TEST_CASE("what is turned down is told with who, why and how often, ever more rarely") {
  Listener here;
  std::size_t told = 0;
  for (std::uint64_t times = 1; times <= 64; ++times) {
    here.network->on_rejected({kStranger, gossip::RejectReason::kTooFar, true});
    if (!std::has_single_bit(times)) continue;
    REQUIRE(here.events.size() == ++told);
    const nlohmann::json& event = here.last("rejected");
    CHECK(event.at("peer") == gossip::to_string(kStranger));
    CHECK(event.at("reason") == to_string(gossip::RejectReason::kTooFar));
    CHECK(event.at("by_us") == true);
    CHECK(event.at("count") == times);
  }
  // Each reason is counted for itself, and so is what others say of this peer.
  for (std::size_t reason = 1; reason < gossip::kRejectReasons; ++reason) {
    here.network->on_rejected({kStranger, static_cast<gossip::RejectReason>(reason), false});
    CHECK(here.last("rejected").at("by_us") == false);
    CHECK(here.last("rejected").at("count") == 1);
  }
}

TEST_CASE("a split, being alone and coming together are told with how many") {
  Listener here;
  using gossip::SwarmChange;
  for (const SwarmChange change :
       {SwarmChange::kAlone, SwarmChange::kSplit, SwarmChange::kHealed}) {
    here.network->on_swarm_changed({change, 3, 5, 0.625});
    const nlohmann::json& event = here.last("swarm");
    CHECK(event.at("change") == gossip::to_string(change));
    CHECK(event.at("alive") == 3);
    CHECK(event.at("moved") == 5);
    CHECK(event.at("share") == 0.625);
  }
}

TEST_CASE("who claims more tokens than can be believed is named with both figures") {
  Listener here;
  here.network->on_tokens_clipped({kStranger, 1e12, 2.56e8});
  const nlohmann::json& event = here.last("tokens_clipped");
  CHECK(event.at("peer") == gossip::to_string(kStranger));
  CHECK(event.at("said") == 1e12);
  CHECK(event.at("counted") == 2.56e8);
}

TEST_CASE("each who is muted is named, and mutes of ever other keys fill neither log nor disk") {
  Listener here;
  here.network->on_muted({kStranger, gossip::RejectReason::kNone, std::chrono::minutes(10), false});
  REQUIRE(here.events.size() == 1);  // who mutes us
  CHECK(here.last("muted").at("peer") == gossip::to_string(kStranger));
  here.events.clear();
  for (std::uint64_t key = 1; key <= 20'000; ++key) {
    here.network->on_muted(
        {PeerId{key}, gossip::RejectReason::kMalformed, std::chrono::minutes(10), true});
    if (key > 7) continue;
    REQUIRE(here.events.size() == key);
    CHECK(here.last("muted").at("peer") == gossip::to_string(PeerId{key}));
  }
  CHECK(here.events.size() >= 3999);
  CHECK(here.events.size() < 5000);  // so many at once, and ten a second
}

}  // namespace starling::peer
