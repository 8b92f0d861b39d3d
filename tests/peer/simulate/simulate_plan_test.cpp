#include "peer/simulate/simulate_plan.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

std::string refusal(const SimulateSettings& settings) {
  auto plan = simulate_plan(settings, 1000, 100'000);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().code() == ErrorCode::kInvalidConfig);
  return plan.error().message();
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("speeds and lines belong to the peers in turn") {
  SimulateSettings settings;
  settings.peers = 5;
  settings.speeds = {"1", "1/4", "0.5"};
  settings.links = {"40 8 16 0", "5 80 160 0.1"};
  auto plan = simulate_plan(settings, 1000, 100'000);
  REQUIRE(plan.ok());
  CHECK(plan.value().speed(0) == 1);
  CHECK(plan.value().speed(1) == 0.25);
  CHECK(plan.value().speed(4) == 0.25);
  CHECK(plan.value().line(0).latency == std::chrono::milliseconds(40));
  CHECK(plan.value().line(0).upload == doctest::Approx(1e6));
  CHECK(plan.value().line(3).download == doctest::Approx(20e6));
  CHECK(plan.value().line(3).loss == doctest::Approx(0.1));
}

TEST_CASE("with regions every kind of line is in every region") {
  SimulateSettings settings;
  settings.network = SimulatedNetwork::kRegions;
  settings.links = {"0 8 8 0", "0 16 16 0", "0 24 24 0", "0 32 32 0"};
  auto plan = simulate_plan(settings, 1000, 100'000);
  REQUIRE(plan.ok());
  CHECK(plan.value().lines.size() == 20);
  CHECK(plan.value().line(13).region == 3);
  CHECK(plan.value().line(13).upload == doctest::Approx(2e6));
  CHECK(plan.value().line(33).region == 3);
}

TEST_CASE("rooms take the peers in their order, those who join too, and the others are alone") {
  SimulateSettings settings;
  settings.peers = 4;
  settings.schedule = {"5 join", "6 join"};
  settings.links = {"1 8 8 0", "1 16 16 0"};
  settings.rooms = {"3 40 8 16", "2 20 24 32"};
  auto plan = simulate_plan(settings, 1000, 100'000);
  REQUIRE(plan.ok());
  REQUIRE(plan.value().rooms.size() == 2);
  CHECK(plan.value().rooms[0].latency == std::chrono::milliseconds(40));
  CHECK(plan.value().rooms[0].upload == doctest::Approx(1e6));
  CHECK(plan.value().rooms[1].download == doctest::Approx(4e6));
  CHECK(plan.value().line(2).room == 0);
  CHECK(plan.value().line(3).room == 1);
  CHECK(plan.value().line(3).upload == doctest::Approx(2e6));
  CHECK(plan.value().line(4).room == 1);
  CHECK_FALSE(plan.value().line(5).room);
  settings.rooms = {"3 40 8 16", "4 20 24 32"};
  CHECK(contains(refusal(settings), "simulate.rooms has room for more than the 6 peers"));
  for (const char* wrong : {"3 40 8", "0 40 8 8", "7 40 8 8", "x 40 8 8", "3 40 0 8", "3 -1 8 8"}) {
    CAPTURE(wrong);
    settings.rooms = {wrong};
    CHECK(contains(refusal(settings), "simulate.rooms: \"" + std::string(wrong)));
  }
  settings.rooms = {"3 40 8 16"};
  settings.network = SimulatedNetwork::kRegions;
  CHECK(contains(refusal(settings), "simulate.rooms needs simulate.network"));
}

TEST_CASE("a run without an end in time is measured twenty times in what it will take") {
  SimulateSettings settings;
  settings.peers = 4;
  settings.speeds = {"1", "1/2", "1/4", "1/4"};
  settings.step_seconds = 2;
  auto plan = simulate_plan(settings, 1000, 100'000);  // 100 steps at 2 in 2 s
  REQUIRE(plan.ok());
  CHECK(to_seconds(plan.value().evaluate_every) == doctest::Approx(5));
}

TEST_CASE("the schedule is read") {
  SimulateSettings settings;
  settings.peers = 3;
  settings.schedule = {"1.5 crash 2", "2 leave 0", "3 join", "4 crash 3", "5 partition 2 30"};
  auto plan = simulate_plan(settings, 1000, 100'000);
  REQUIRE(plan.ok());
  CHECK(plan.value().peers_ever == 4);
  REQUIRE(plan.value().schedule.size() == 5);
  CHECK(plan.value().schedule[0].kind == Happening::Kind::kCrash);
  CHECK(plan.value().schedule[0].at == Instant{} + std::chrono::milliseconds(1500));
  CHECK(plan.value().schedule[1].kind == Happening::Kind::kLeave);
  CHECK(plan.value().schedule[2].kind == Happening::Kind::kJoin);
  CHECK(plan.value().schedule[4].peer == 2);
  CHECK(plan.value().schedule[4].length == std::chrono::seconds(30));
}

TEST_CASE("what makes no sense is named, with what would") {
  for (const char* wrong :
       {"fast", "0", "-1", "1/0", "1/", "1/10001", "10000/0.1", "0.001/1000", "/2", "nan", "1 2"}) {
    SimulateSettings settings;
    settings.speeds = {"1", wrong};
    CAPTURE(wrong);
    CHECK(contains(refusal(settings), "simulate.speeds: \"" + std::string(wrong)));
  }
  for (const char* wrong : {"40 10 10", "40 10 10 2", "40 0 10 0", "-1 10 10 0", "40 10 10 0 1"}) {
    SimulateSettings settings;
    settings.links = {wrong};
    CAPTURE(wrong);
    CHECK(contains(refusal(settings), "simulate.links: \"" + std::string(wrong)));
  }
  for (const char* wrong : {"crash 1", "1 crash", "1 crash x", "1 join 2", "1 partition 2",
                            "x join", "1 explode 2", "1 crash 1 2", "-1 join"}) {
    SimulateSettings settings;
    settings.schedule = {wrong};
    CAPTURE(wrong);
    CHECK(contains(refusal(settings), "simulate.schedule: \"" + std::string(wrong)));
  }
  SimulateSettings settings;
  settings.peers = 3;
  settings.schedule = {"1 crash 3"};
  CHECK(contains(refusal(settings), "peer 3, but with simulate.peers = 3"));
  settings.schedule = {"1 partition 3 5"};
  CHECK(contains(refusal(settings), "cuts 3 peers off from 0 others: name 1 to 2"));
  settings.schedule.clear();
  settings.hostile = 3;
  CHECK(contains(refusal(settings), "lower it to 2 or less"));
  settings.hostile = 0;
  settings.speeds.clear();
  CHECK(contains(refusal(settings), "simulate.speeds is empty"));
}

TEST_CASE("the last peers of the start are the hostile ones, and nobody who joins") {
  SimulateSettings settings;
  settings.peers = 5;
  settings.hostile = 2;
  settings.schedule = {"1 join"};
  auto plan = simulate_plan(settings, 1000, 100'000);
  REQUIRE(plan.ok());
  std::vector<bool> hostile;
  for (std::uint32_t peer = 0; peer < plan.value().peers_ever; ++peer) {
    hostile.push_back(plan.value().is_hostile(peer));
  }
  CHECK(hostile == std::vector<bool>{false, false, false, true, true, false});
}

TEST_CASE("what the clock cannot count is refused") {
  SimulateSettings settings;
  settings.step_seconds = 1e6;
  settings.speeds = {"1", "0.0001"};
  CHECK(contains(refusal(settings), "the slowest peer's step takes 1e+10 s"));
  settings.speeds = {"1/10"};
  settings.seconds = 1e9;
  CHECK(simulate_plan(settings, 1000, 100'000).ok());
  settings.change_factor = 100;
  settings.change_seconds = 999;
  CHECK(contains(refusal(settings), "simulate.change_seconds = 999"));
  settings.change_factor = 1;
  settings.seconds = 0;
  settings.peers = 1;
  CHECK(simulate_plan(settings, 1000, 100'000).ok());  // 100 steps of 1e7 s
  settings.step_seconds = 1e6 + 1e4;
  CHECK(contains(refusal(settings), "would take 1.01e+09 virtual seconds"));
}

TEST_CASE("the swarm's tokens are those of one peer times the peers, unless they are set") {
  const ScratchFolder folder;
  const auto file = folder.path() / "simulate.toml";
  std::ofstream(file) << "[run]\ntokens = 50_000\n[simulate]\npeers = 6\n";
  auto config = load_simulation(file, {});
  REQUIRE(config.ok());
  CHECK(config.value().run.total_tokens == 300'000);
  CHECK(config.value().schedule.total_tokens == 300'000);
  const std::vector<std::string> overrides{"run.total_tokens=123_456"};
  config = load_simulation(file, overrides);
  REQUIRE(config.ok());
  CHECK(config.value().run.total_tokens == 123'456);
}

TEST_CASE("an unknown key of the section is refused, with the nearest one") {
  const auto config = parse_config("[simulate]\npeer = 6\n", "simulate.toml", {});
  REQUIRE_FALSE(config.ok());
  CHECK(contains(config.error().message(), "unknown key 'simulate.peer'"));
  CHECK(contains(config.error().message(), "simulate.peers"));
}

}  // namespace
}  // namespace starling::peer
