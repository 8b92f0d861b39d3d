// Whole simulated swarms with a model of a few thousand parameters on text that follows a grammar.
#include "peer/simulate/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <sstream>

#include "base/hash.h"
#include "peer/roles/role_settings.h"
#include "peer/simulate/simulate_gossip.h"
#include "peer/simulate/simulate_local.h"
#include "peer/simulate/simulate_method.h"
#include "peer/simulate/simulate_report.h"
#include "peer/simulate/simulate_swarm.h"
#include "peer/simulate/virtual_peer.h"
#include "tests/peer/simulate/simulation.h"

namespace starling::peer {
namespace {

const std::vector<std::string> kEverything{
    "simulate.speeds=['1', '1/2', '1/3']",
    "simulate.jitter=0.2",
    "simulate.change_factor=2",
    "simulate.change_seconds=1",
    "simulate.network=regions",
    "simulate.loss=0.05",
    "simulate.schedule=['1 crash 2', '1.5 join', '3 leave 1', '4 partition 2 2']"};

TEST_CASE("a swarm of equal peers learns, and its peers exchange") {
  Simulation simulation;
  const auto lines = simulation.run({});
  const auto losses = of_kind(lines, "loss");
  REQUIRE(losses.size() > 10);
  CHECK(losses.front()["loss"].get<double>() > 3.3);  // ln 32 = 3.47
  CHECK(losses.back()["loss"].get<double>() < 1.5);
  CHECK(losses.back()["tokens"] == 4 * 5120);
  const auto single = losses.back()["single"].get<std::vector<nlohmann::json>>();
  const auto peers = of_kind(lines, "peer");
  REQUIRE((single.size() == 4 && peers.size() == 4));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK((peers[i]["exchanges"] > 0 && peers[i]["bytes_out"] > 0));
    CHECK(single[i]["bytes"] == peers[i]["bytes_out"]);
  }
  CHECK(lines.back()["why"] == "tokens");
  CHECK(simulation.text.find("goodput") != std::string::npos);
}

TEST_CASE("a run tells the same, byte for byte, on one thread and on two") {
  Simulation simulation;
  std::vector<std::string> told;
  for (const char* threads : {"simulate.threads=1", "simulate.threads=2"}) {
    std::vector<std::string> overrides = kEverything;
    overrides.emplace_back(threads);
    const auto lines = simulation.run(overrides);
    std::string all = simulation.text;
    for (const nlohmann::json& line : lines) all += line.dump();
    told.push_back(std::move(all));
  }
  CHECK(told[0] == told[1]);
  std::vector<std::string> overrides = kEverything;
  overrides.emplace_back("run.seed=2");
  simulation.run(overrides);
  CHECK(told[0].find(simulation.text) == std::string::npos);
}

TEST_CASE("a peer of half the speed takes half the steps") {
  Simulation simulation;
  const auto peers = of_kind(simulation.run({"simulate.speeds=['1', '1/2']"}), "peer");
  REQUIRE(peers.size() == 4);
  const auto steps = [&](std::size_t peer) { return peers[peer]["steps"].get<int>(); };
  CHECK(std::abs(steps(0) - 2 * steps(1)) <= 2);
  CHECK(std::abs(steps(2) - 2 * steps(3)) <= 2);
}

TEST_CASE("with dynamic local steps slow peers exchange as often as fast ones") {
  Simulation simulation;
  const auto exchanges = [&](const char* steps) {
    const auto peers =
        of_kind(simulation.run({"simulate.speeds=['1', '1/5']", "outer.steps_per_round=20",
                                std::string("outer.local_steps=") + steps, "simulate.jitter=0.1"}),
                "peer");
    int sum = 0;
    for (const nlohmann::json& peer : peers) sum += peer["exchanges"].get<int>();
    return sum;
  };
  const int fixed = exchanges("fixed"), dynamic = exchanges("dynamic");
  CAPTURE(fixed);
  CAPTURE(dynamic);
  CHECK(3 * dynamic > 4 * fixed);  // two of four peers begin five times as many
}

TEST_CASE("a thin and lossy line loses messages, and the swarm learns") {
  Simulation simulation;
  const auto lines =
      simulation.run({"simulate.latency_ms=300", "simulate.upload_mbit=0.2", "simulate.loss=0.1"});
  for (const nlohmann::json& peer : of_kind(lines, "peer")) CHECK(peer["lost"].get<int>() > 0);
  CHECK(of_kind(lines, "loss").back()["loss"].get<double>() < 2);
}

TEST_CASE("what leaves a room is told, how long exchanges take, and how far peers are apart") {
  Simulation simulation;
  const auto lines =
      simulation.run({"simulate.latency_ms=1", "simulate.rooms=['2 50 10 10', '2 50 10 10']"});
  const nlohmann::json last = of_kind(lines, "loss").back();
  CHECK(last["weights_away"].get<double>() > 0.4 * last["weight_bytes"].get<double>());
  CHECK(last["weights_away"] < last["weight_bytes"]);
  CHECK(last["disagreement"].get<double>() > 0);
  CHECK(last["disagreement"].get<double>() < 0.5);
  std::uint64_t away = 0;
  for (const nlohmann::json& peer : of_kind(lines, "peer")) {
    CHECK(peer["begun"].get<int>() > 0);
    CHECK(peer["begun"] < peer["exchanges"]);
    CHECK(peer["begun_seconds"].get<double>() > 0.001 * peer["begun"].get<double>());
    away += peer["weights_away"].get<std::uint64_t>();
  }
  CHECK(away == last["weights_away"].get<std::uint64_t>());
}

TEST_CASE("with locality fewer bytes leave a room, and whoever is alone is asked all the same") {
  Simulation simulation;
  std::vector<double> away;
  for (const double locality : {0.0, 0.5}) {
    const auto lines =
        simulation.run({"simulate.peers=8", "simulate.step_seconds=1", "simulate.latency_ms=1",
                        "simulate.rooms=['4 50 100 100', '3 50 100 100', '1 200 100 100']",
                        fmt::format("gossip.locality={}", locality)});
    const nlohmann::json last = of_kind(lines, "loss").back();
    CHECK(last["loss"].get<double>() < 1.6);
    away.push_back(last["weights_away"].get<double>() / last["weight_bytes"].get<double>());
    for (const nlohmann::json& peer : of_kind(lines, "peer")) {
      CAPTURE(peer["peer"].get<int>());
      CHECK(peer["begun"].get<int>() > 0);
      CHECK(peer["exchanges"] > peer["begun"]);
    }
  }
  CHECK(away[1] < 0.85 * away[0]);
}

TEST_CASE("who crashes is gone, who joins has what the others have learned") {
  Simulation simulation;
  const auto lines = simulation.run({"simulate.schedule=['4 crash 1', '6 join']"});
  const auto peers = of_kind(lines, "peer");
  REQUIRE(peers.size() == 5);
  CHECK(peers[1]["seconds"].get<double>() == doctest::Approx(4));
  CHECK(peers[4]["steps"].get<int>() > 0);
  CHECK(peers[4]["bytes_in"].get<int>() > 100'000);  // of a state
  bool came = false;
  for (const nlohmann::json& moment : of_kind(lines, "loss")) {
    for (const nlohmann::json& single : moment["single"]) {
      CHECK((single["peer"] != 1 || moment["seconds"].get<double>() <= 4));
      if (single["peer"] != 4 || came) continue;
      came = true;  // the first that was measured of it
      CHECK(single["loss"].get<double>() < moment["loss"].get<double>() + 0.7);
    }
  }
  CHECK(came);
}

TEST_CASE("a newcomer that takes weights alone is sent half as much, and learns") {
  Simulation simulation;
  std::vector<double> bytes;
  std::vector<double> losses;
  double parameters = 0;
  for (const char* state : {"weights", "weights-and-moments"}) {
    const auto lines = simulation.run({"simulate.peers=1", "simulate.schedule=['6 join']",
                                       "run.tokens=10240", std::string("join.state=") + state});
    parameters = of_kind(lines, "begin")[0]["parameters"].get<double>();
    bytes.push_back(of_kind(lines, "peer")[1]["bytes_in"].get<double>());
    losses.push_back(of_kind(lines, "loss").back()["single"][1]["loss"].get<double>());
  }
  CHECK(bytes[1] - bytes[0] == doctest::Approx(4 * parameters).epsilon(0.05));
  CHECK(losses[0] == doctest::Approx(losses[1]).epsilon(0.1));
}

TEST_CASE("alone, peers exchange nothing and still know the tokens of all") {
  Simulation simulation;
  const auto lines = simulation.run({"outer.method=local"});
  CHECK(of_kind(lines, "loss").back()["bytes"] == 0);
  for (const nlohmann::json& peer : of_kind(lines, "peer")) CHECK(peer["goodput"] == 1.0);
}

TEST_CASE("a time limit ends the run, even where all are gone") {
  Simulation simulation;
  CHECK(simulation.run({"simulate.seconds=2"}).back()["why"] == "seconds");
  const auto lines =
      simulation.run({"simulate.peers=2", "simulate.schedule=['1 crash 0', '1 crash 1']"});
  CHECK(lines.back()["why"] == "nobody trains any more");
}

TEST_CASE("a run waits for who joins, however often it is measured meanwhile") {
  Simulation simulation;
  const auto lines = simulation.run(
      {"simulate.peers=2", "simulate.schedule=['0.01 crash 0', '0.01 crash 1', '1.3 join']",
       "simulate.evaluate_seconds=0.001", "simulate.seconds=1.5"});
  CHECK(lines.back()["why"] == "seconds");
  const auto peers = of_kind(lines, "peer");
  REQUIRE(peers.size() == 3);
  CHECK(peers[2]["steps"].get<int>() > 0);
}

TEST_CASE("a run whose loss is no number any more ends, and says so") {
  Simulation simulation;
  const auto lines =
      simulation.run({"optimizer.learning_rate=10", "optimizer.epsilon=1e-2",
                      "optimizer.weight_decay=10", "optimizer.clip_norm=0", "outer.method=local"});
  CHECK(lines.back()["why"] == "the loss is no number any more");
  CHECK(of_kind(lines, "loss").back()["loss"].is_null());
}

TEST_CASE("a newcomer that fetches nothing begins anew and is pulled to the others") {
  Simulation simulation;
  const auto lines =
      simulation.run({"join.state=none", "simulate.schedule=['4 join']", "run.tokens=10240"});
  const auto peers = of_kind(lines, "peer");
  REQUIRE(peers.size() == 5);
  CHECK(peers[4]["exchanges"].get<int>() > 0);
  const auto singles = of_kind(lines, "loss").back()["single"];
  CHECK(singles[4]["loss"].get<double>() < 2 * singles[0]["loss"].get<double>() + 0.5);
}

TEST_CASE("halves of a swarm that come together again lose nothing of what they have learned") {
  constexpr double kHealed = 400;
  Simulation simulation;
  const auto lines = simulation.run({"simulate.peers=8", "simulate.step_seconds=1",
                                     "simulate.schedule=['15 partition 4 385']",
                                     "simulate.evaluate_seconds=5", "run.tokens=38400"});
  std::vector<double> before;  // of the peer that is worst at the time
  std::vector<double> after;
  std::array<double, 2> apart{};
  for (const nlohmann::json& moment : of_kind(lines, "loss")) {
    const double from_healing = moment["seconds"].get<double>() - kHealed;
    if (std::abs(from_healing) > 100) continue;
    double worst = 0;
    for (const nlohmann::json& single : moment["single"]) {
      worst = std::max(worst, single["loss"].get<double>());
    }
    (from_healing <= 0 ? before : after).push_back(worst);
    apart.at(from_healing > 0) = moment["disagreement"].get<double>();
  }
  const auto mean = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  REQUIRE(after.size() == 20);
  CHECK(mean(after) < 1.03 * mean(before));
  CHECK(std::ranges::max(after) < 1.1 * std::ranges::max(before));
  CHECK(apart[1] < 0.5 * apart[0]);
}

TEST_CASE("hostile peers are not among those who are measured, and do what they are told to") {
  Simulation simulation;
  const auto last = [&](std::vector<std::string> overrides) {
    overrides.emplace_back("outer.method=local");
    const auto lines = simulation.run(std::move(overrides));
    CHECK(of_kind(lines, "peer").size() == 4);
    return of_kind(lines, "loss").back();
  };
  const auto alone = last({"simulate.hostile=3"});
  CHECK(alone["peers"] == 1);
  CHECK(alone["single"].size() == 1);
  CHECK(alone["loss"] == alone["single"][0]["loss"]);
  CHECK(last({"simulate.peers_evaluated=1"})["single"] == alone["single"]);

  const auto with = [&](std::vector<std::string> overrides) {
    overrides.emplace_back("outer.fragments=1");
    return of_kind(simulation.run(std::move(overrides)), "loss").back();
  };
  // The sum of gradients has one of four the wrong way round; what is held is a quarter of a mean.
  const std::string every_step = "outer.steps_per_round=1", one = "simulate.hostile=1";
  const double peace = with({"outer.method=all-reduce", every_step})["loss"];
  CHECK(with({"outer.method=all-reduce", every_step, one})["loss"] > peace + 0.01);
  const std::vector<std::string> holds{"outer.method=diloco", one, "simulate.misdeed=hold"};
  CHECK(with(holds)["loss"] > with({"outer.method=diloco"})["loss"].get<double>() + 0.1);
  CHECK(with(holds) == with(holds));
}

TEST_CASE("what a hostile peer holds pulls the others less where differences are clipped") {
  Simulation simulation;
  const auto loss = [&](std::vector<std::string> overrides) {
    overrides.emplace_back("outer.steps_per_round=4");
    return of_kind(simulation.run(std::move(overrides)), "loss").back()["loss"].get<double>();
  };
  const std::string hostile = "simulate.hostile=1", holds = "simulate.misdeed=hold";
  const auto clip_factors = [](const std::vector<nlohmann::json>& lines) {
    std::vector<double> factors;
    for (const nlohmann::json& peer : of_kind(lines, "peer")) {
      factors.push_back(peer["clip_factor"]);
    }
    return factors;
  };
  for (const double factor : clip_factors(simulation.run({}))) CHECK(factor > 0.9);
  const auto seen = clip_factors(simulation.run({hostile, holds, "outer.steps_per_round=4"}));
  CHECK(seen[3] < seen[0] - 0.05);
  const double peace = loss({}), clipped = loss({hostile, holds, "outer.clip_factor=1"}),
               free = loss({hostile, holds, "outer.clip_factor=0"});
  CHECK(free > peace + 0.05);
  CHECK(clipped - peace < 0.5 * (free - peace));
}

TEST_CASE("bad settings are named") {
  Simulation simulation;
  std::ostringstream out;
  const auto refusal = [&](std::vector<std::string> overrides) {
    const Status ran =
        run_simulation({.config = simulation.config(), .overrides = std::move(overrides)}, out);
    REQUIRE_FALSE(ran.ok());
    return ran.error().message();
  };
  CHECK(refusal({"simulate.speeds=['slow']"}).find("simulate.speeds") != std::string::npos);
  CHECK(refusal({"outer.method=async-local-sgd", "outer.momentum_share=0.26"})
            .find("here up to 0.25") != std::string::npos);  // one of four peers
  CHECK(refusal({"outer.method=local", "simulate.lost_halves=0.1"})
            .find("simulate.lost_halves is for pair-gossip") != std::string::npos);
  CHECK(refusal({"simulate.peers=4096", "model.width=8192", "model.ffn=32768", "model.layers=64"})
            .find("lower simulate.peers") != std::string::npos);
  CHECK(refusal({"data.train=nowhere"}).find("data.train") != std::string::npos);
  CHECK(refusal({"simulate.out=/dev/null/x"}).find("simulate.out") != std::string::npos);
  CHECK(refusal({"data.validation=[]", "metrics.validate_every_steps=0"}).find("data.validation") !=
        std::string::npos);
}

TEST_CASE("a simulated peer alone learns what a real trainer learns, bit for bit") {
  Simulation simulation;
  auto loaded = load_simulation(simulation.config(),
                                std::vector<std::string>{"outer.method=local", "simulate.peers=1",
                                                         "schedule.local_warmup_steps=5"});
  REQUIRE(loaded.ok());
  auto world = open_world(loaded.value());
  REQUIRE(world.ok());
  auto plan = simulate_plan(loaded.value().simulate, 64, loaded.value().run.total_tokens);
  REQUIRE(plan.ok());
  auto swarm = SimulatedSwarm::create(world.value(), plan.value(), 1);
  REQUIRE(swarm.ok());
  REQUIRE(swarm.value()->run([](const SimulatedMoment&) {}).ok());

  auto backend = make_backend("cpu", {.threads = 1});
  REQUIRE(backend.ok());
  SlotPool no_slots(Buffer(), 0);
  Rings rings(1);
  TrainerMetrics metrics;
  DatasetSource source(world.value().training, std::nullopt,
                       world.value().reading(digest("peer-0")), rings, metrics.data);
  TrainerConfig config = trainer_config(loaded.value(), false);
  config.validate_every_steps = 0;
  auto trainer = Trainer::create(config, world.value().layout, world.value().stripes,
                                 backend.value(), source, no_slots, rings, metrics);
  REQUIRE(trainer.ok());
  while (!trainer.value()->finished()) trainer.value()->pump();

  const auto real = trainer.value()->weights();
  const auto simulated = swarm.value()->peer(0).weights();
  REQUIRE(real.size == simulated.size());
  CHECK(std::equal(simulated.begin(), simulated.end(), real.data));
}

TEST_CASE("a peer's steps take its speed, with chance around it") {
  Simulation simulation;
  auto loaded = load_simulation(simulation.config(), {});
  REQUIRE(loaded.ok());
  auto world = open_world(loaded.value());
  REQUIRE(world.ok());
  const auto mean_of = [&](const VirtualPace& pace) {
    auto peer = VirtualPeer::create(world.value(), 0, pace, 0);
    REQUIRE(peer.ok());
    double seconds = 0;
    for (int i = 0; i < 2000; ++i) {
      seconds += to_seconds(peer.value()->draw_step(Instant{} + std::chrono::seconds(i)));
    }
    return seconds / 2000;
  };
  const Duration second = std::chrono::seconds(1);
  CHECK(mean_of({.step = second, .speed = 0.5}) == doctest::Approx(2));
  CHECK(mean_of({.step = second, .speed = 0.5, .jitter = 0.3}) == doctest::Approx(2).epsilon(0.03));
  // The mean of 4^u over u in [0, 1): 3 / ln 4.
  CHECK(mean_of({.step = second, .speed = 1, .change_factor = 4, .change_every = second}) ==
        doctest::Approx(3 / std::log(4.0)).epsilon(0.05));
}

TEST_CASE("a peer tells the rate of the last ten seconds, as a real one") {
  Simulation simulation;
  auto loaded = load_simulation(simulation.config(), {});
  REQUIRE(loaded.ok());
  auto world = open_world(loaded.value());
  REQUIRE(world.ok());
  const VirtualPace pace{.step = std::chrono::milliseconds(20), .speed = 0.5, .jitter = 0.5};
  auto peer = VirtualPeer::create(world.value(), 0, pace, 0);
  REQUIRE(peer.ok());
  CHECK(peer.value()->steps_per_second() == doctest::Approx(25));
  for (int i = 0; i < 1000; ++i) {
    peer.value()->draw_step(Instant{});
    if (i > 250) CHECK(peer.value()->steps_per_second() == doctest::Approx(25).epsilon(0.15));
  }
}

}  // namespace
}  // namespace starling::peer
