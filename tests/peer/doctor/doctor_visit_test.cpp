#include "peer/doctor/doctor_visit.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <thread>

#include "model/param_layout.h"
#include "peer/config/addresses.h"
#include "tests/peer/free_ports.h"

namespace starling::peer {

namespace {

// One that pays a visit to `host`, which pays one back.
struct Visitor {
  Visitor() {
    const auto [control, bulk] = testing::free_ports();
    config.gossip.listen = fmt::format("127.0.0.1:{}", control);
    config.gossip.bulk_port = bulk;
  }
  gossip::PeerAddress address() const {
    gossip::PeerAddress here = parse_address(config.gossip.listen, config.gossip.bulk_port).value();
    here.key = identity.key();
    return here;
  }
  VisitOutcome visit(const gossip::PeerAddress& host) const {
    auto layout = model::ParamLayout::plan(config.model, config.outer.rounds.fragments);
    const StripeTable stripes(layout.value());
    const std::array seeds{host};
    auto outcome = visit_seeds({.config = config,
                                .identity = identity,
                                .digests = digests,
                                .stripes = stripes,
                                .seeds = seeds,
                                .process = 1});
    REQUIRE(outcome.ok());
    REQUIRE(outcome.value().seeds.size() == 1);
    return std::move(outcome).value();
  }
  PeerConfig config;
  CheckpointDigests digests{.run = 1, .model = 2, .layout = 3};
  gossip::Identity identity = gossip::Identity::draw();
};

struct Pair {
  VisitOutcome left, right;
};

Pair visit_each_other(const Visitor& left, const Visitor& right) {
  Pair pair;
  std::thread other([&] { pair.right = right.visit(left.address()); });
  pair.left = left.visit(right.address());
  other.join();
  return pair;
}

}  // namespace

TEST_CASE("a visitor is welcomed, has its round trip, is called back and tells its address") {
  const Visitor left, right;
  const Pair pair = visit_each_other(left, right);
  for (const VisitOutcome& outcome : {pair.left, pair.right}) {
    const SeedVisit& seed = outcome.seeds.front();
    CHECK(seed.welcomed);
    CHECK(!seed.refused);
    CHECK(seed.calls_back);
    CHECK(seed.round_trip > Duration::zero());
    REQUIRE(seed.clock);  // both have the same
    CHECK(std::chrono::abs(seed.clock->ahead) <= seed.clock->within);
    CHECK(seed.fetched.bytes == 0);
  }
  CHECK(pair.left.advertised == left.address());
}

TEST_CASE("a visitor of another model is refused, and hears why") {
  Visitor left, right;
  right.digests.model = 5;
  const Pair pair = visit_each_other(left, right);
  const SeedVisit& seed = pair.left.seeds.front();
  CHECK(!seed.welcomed);
  REQUIRE(seed.refused);
  CHECK(seed.refused->reason == gossip::RefuseReason::kModel);
}

TEST_CASE("a visit to nobody ends") {
  const Visitor left, nobody;
  const VisitOutcome outcome = left.visit(nobody.address());
  CHECK(!outcome.seeds.front().welcomed);
  CHECK(!outcome.seeds.front().refused);
}

}  // namespace starling::peer
