#include "peer/simulate/virtual_network.h"

#include <doctest/doctest.h>

#include "peer/simulate/virtual_time.h"

namespace starling::peer {
namespace {

using Lane = VirtualNetwork::Lane;
using std::chrono::milliseconds;

// 1 MB up, 2 MB down a second, 50 ms.
VirtualNetwork two_peers(double loss = 0) {
  VirtualNetwork network(1);
  for (int peer = 0; peer < 2; ++peer) {
    network.add({.latency = milliseconds(50), .upload = 1e6, .download = 2e6, .loss = loss});
  }
  return network;
}

TEST_CASE("a message takes the latency and its bytes over the least rate of both lines") {
  VirtualNetwork network = two_peers();
  const Instant now = Instant{} + milliseconds(7);
  CHECK(network.send(now, {0, 1}, 500'000, Lane::kWeights) == now + milliseconds(550));
  CHECK(network.traffic(0).bytes_out == 500'000);
  CHECK(network.traffic(0).weights_out == 500'000);
  CHECK(network.traffic(1).bytes_in == 500'000);
}

TEST_CASE("weights wait for the line, small messages do not") {
  VirtualNetwork network = two_peers();
  const Instant now{};
  CHECK(network.send(now, {0, 1}, 1'000'000, Lane::kWeights) == now + milliseconds(1050));
  CHECK(network.send(now, {0, 1}, 100'000, Lane::kWeights) == now + milliseconds(1150));
  CHECK(network.send(now, {0, 1}, 1000, Lane::kSmall) == now + milliseconds(51));
  CHECK(network.send(now, {1, 0}, 100'000, Lane::kWeights) == now + milliseconds(150));
}

TEST_CASE("two senders share what their receiver can take") {
  VirtualNetwork network(1);
  for (int peer = 0; peer < 3; ++peer) network.add({.upload = 1e6, .download = 1e6});
  const Instant now{};
  CHECK(network.send(now, {0, 2}, 1'000'000, Lane::kWeights) == now + milliseconds(1000));
  CHECK(network.send(now, {1, 2}, 1'000'000, Lane::kWeights) == now + milliseconds(2000));
}

TEST_CASE("a fast line serves several slow ones at a time") {
  VirtualNetwork network(1);
  network.add({.upload = 100e6, .download = 100e6});
  for (int peer = 0; peer < 4; ++peer) network.add({.upload = 1e6, .download = 1e6});
  for (std::uint32_t peer = 1; peer <= 4; ++peer) {
    CAPTURE(peer);
    // A megabyte has the fast line for 10 ms.
    const Instant arrives = Instant{} + milliseconds(1000 + 10 * (peer - 1));
    CHECK(network.send(Instant{}, {0, peer}, 1'000'000, Lane::kWeights) == arrives);
    CHECK(network.send(Instant{}, {peer, 0}, 1'000'000, Lane::kWeights) == arrives);
  }
  // A slow line still takes one after the other.
  CHECK(network.send(Instant{}, {0, 1}, 1'000'000, Lane::kWeights) ==
        Instant{} + milliseconds(2000));
}

TEST_CASE("what waits for its sender's line does not hold up its receiver's") {
  VirtualNetwork network(1);
  network.add({.upload = 1e6, .download = 1e6});
  for (int peer = 0; peer < 2; ++peer) network.add({.upload = 100e6, .download = 1e6});
  const Instant now{};
  CHECK(network.send(now, {0, 2}, 1'000'000, Lane::kWeights) == now + milliseconds(1000));
  CHECK(network.send(now, {0, 1}, 1'000'000, Lane::kWeights) == now + milliseconds(2000));
  // The receiver's line is free for a second, then taken for another.
  CHECK(network.send(now, {2, 1}, 1'500'000, Lane::kWeights) == now + milliseconds(2500));
  // 15 ms behind it on the sender's own line.
  CHECK(network.send(now, {2, 0}, 500'000, Lane::kWeights) == now + milliseconds(515));
}

TEST_CASE("between regions the table has the latency, and its rate is one more limit") {
  VirtualNetwork network(1);
  network.add({.upload = 1e9, .download = 1e9, .region = 3});  // Tokyo
  network.add({.upload = 1e9, .download = 1e6, .region = 7});  // London
  CHECK(network.latency({0, 1}) == milliseconds(210));
  CHECK(network.rate({0, 1}) == doctest::Approx(1e6));
  CHECK(network.rate({1, 0}) == doctest::Approx(0.366e9 / 8));
}

TEST_CASE("peers of a room share its line to all others, and not among themselves") {
  VirtualNetwork network(1);
  network.add_room({.latency = milliseconds(40), .upload = 1e6, .download = 2e6});
  network.add_room({.latency = milliseconds(20), .upload = 4e6, .download = 4e6});
  const auto add = [&network](std::optional<std::size_t> room) {
    network.add(
        {.latency = milliseconds(2), .upload = 100e6, .download = 100e6, .loss = 0, .room = room});
  };
  for (const std::optional<std::size_t> room : {0, 0, 1}) add(room);
  add(std::nullopt);
  CHECK(network.latency({0, 1}) == milliseconds(2));
  CHECK(network.latency({0, 2}) == milliseconds(32));
  CHECK(network.latency({3, 0}) == milliseconds(22));
  CHECK(network.rate({0, 1}) == doctest::Approx(100e6));
  CHECK(network.rate({0, 2}) == doctest::Approx(1e6));
  CHECK(network.rate({2, 0}) == doctest::Approx(2e6));
  CHECK(network.rate({3, 2}) == doctest::Approx(4e6));
  const Instant now{};
  CHECK(network.send(now, {0, 1}, 1'000'000, Lane::kWeights) == now + milliseconds(12));
  // One after the other through the room's line, though each has a line of its own to it.
  CHECK(network.send(now, {1, 2}, 1'000'000, Lane::kWeights) == now + milliseconds(1032));
  const auto second = network.send(now, {0, 3}, 1'000'000, Lane::kWeights);
  CHECK(second == now + milliseconds(2022));
  CHECK(network.send(now, {0, 3}, 1000, Lane::kSmall) == now + milliseconds(23));
  CHECK(network.traffic(0).bytes_out == 2'001'000);
  CHECK(network.traffic(0).away_out == 1'000'000);
  CHECK(network.traffic(1).away_out == 1'000'000);
}

TEST_CASE("what goes to another region is away") {
  VirtualNetwork network(1);
  for (const std::optional<std::size_t> region : {3, 3, 7}) {
    network.add({.upload = 1e9, .download = 1e9, .region = region});
  }
  CHECK(network.send(Instant{}, {0, 1}, 1000, Lane::kWeights));
  CHECK(network.send(Instant{}, {0, 2}, 500, Lane::kWeights));
  CHECK(network.traffic(0).away_out == 500);
}

TEST_CASE("the table of regions has the same for both directions") {
  for (std::size_t one = 0; one < kRegionNames.size(); ++one) {
    for (std::size_t other = 0; other < kRegionNames.size(); ++other) {
      const RegionPair there = between_regions(one, other), back = between_regions(other, one);
      CHECK(there.delay_ms == back.delay_ms);
      CHECK(there.gigabits == back.gigabits);
      CHECK(there.delay_ms >= 10);
      CHECK(there.delay_ms <= 265);
    }
  }
  CHECK(between_regions(0, 1).gigabits == doctest::Approx(0.79));   // Oregon, Virginia
  CHECK(between_regions(6, 8).delay_ms == doctest::Approx(265));    // Sydney, Frankfurt
  CHECK(between_regions(8, 9).delay_ms == doctest::Approx(24));     // Frankfurt, Ireland
  CHECK(between_regions(4, 5).gigabits == doctest::Approx(1.14));   // Seoul, Singapore
  CHECK(between_regions(2, 3).gigabits == doctest::Approx(0.694));  // Ohio, Tokyo
}

TEST_CASE("a share of the messages is lost, and none that is sent until it arrives") {
  VirtualNetwork network = two_peers(0.25);
  int lost = 0;
  for (int i = 0; i < 2000; ++i) {
    if (!network.send(Instant{}, {0, 1}, 10, Lane::kSmall)) ++lost;
    CHECK(network.send_surely(Instant{}, {1, 0}, 10, Lane::kSmall));
  }
  CHECK(lost > 400);
  CHECK(lost < 600);
  CHECK(network.traffic(0).lost == static_cast<std::uint64_t>(lost));
}

TEST_CASE("what is lost and sent again has taken its line all the same") {
  int lost = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    VirtualNetwork network(seed);
    network.add({.latency = milliseconds(50), .upload = 1e6, .download = 1e6});
    network.add({.latency = milliseconds(50), .upload = 1e6, .download = 1e6, .loss = 0.99});
    network.add({.latency = milliseconds(50), .upload = 1e6, .download = 1e6});
    REQUIRE(network.send_surely(Instant{}, {0, 1}, 100'000, Lane::kWeights));
    const auto arrives = network.send(Instant{}, {0, 2}, 100'000, Lane::kWeights);
    REQUIRE(arrives);
    // 0.1 s of the line for each of them.
    CHECK(to_seconds(*arrives - Instant{}) == doctest::Approx(0.25));
    if (network.traffic(0).lost > 0) ++lost;
  }
  CHECK(lost > 5);
}

TEST_CASE("a partition lets nothing through until it is mended") {
  VirtualNetwork network = two_peers();
  network.partition(1);
  CHECK_FALSE(network.send(Instant{}, {0, 1}, 10, Lane::kSmall));
  CHECK_FALSE(network.send_surely(Instant{}, {1, 0}, 10, Lane::kSmall));
  network.mend();
  CHECK(network.send(Instant{}, {0, 1}, 10, Lane::kSmall));
}

TEST_CASE("a sum of all takes the phases of a ring, or of a tree where latency is what counts") {
  VirtualNetwork network(1);
  const std::vector<std::uint32_t> members{0, 1, 2, 3};
  for (int peer = 0; peer < 4; ++peer) {
    network.add({.latency = milliseconds(10), .upload = 1e6, .download = 1e6});
  }
  // Six phases of a quarter: 6 * (0.01 + 0.25); a tree would take 4 * 1.01.
  CHECK(to_seconds(*network.sum_up(members, 1'000'000)) == doctest::Approx(1.56));
  CHECK(network.traffic(2).bytes_out == 1'500'000);
  // Two levels up and down: 4 * (0.01 + 0.0001); the ring would take 6 * 0.010025.
  CHECK(to_seconds(*network.sum_up(members, 100)) == doctest::Approx(0.0404));
  CHECK(*network.sum_up(std::vector<std::uint32_t>{2}, 1'000'000) == Duration{});
  network.partition(2);
  CHECK_FALSE(network.sum_up(members, 100));
}

TEST_CASE("events come by time, and those of one moment in the order they were set") {
  VirtualTime time;
  std::string told;
  const Instant start{};
  time.at(start + milliseconds(2), [&] { told += 'c'; });
  time.at(start + milliseconds(1), [&] {
    told += 'a';
    time.at(start, [&] { told += 'b'; });  // not before now
  });
  time.at(start + milliseconds(2), [&] { told += 'd'; });
  time.at(start + milliseconds(9), [&] { told += 'e'; });
  while (time.advance(start + milliseconds(5))) {
  }
  CHECK(told == "abcd");
  CHECK(time.now() == start + milliseconds(5));
}

}  // namespace
}  // namespace starling::peer
