// The outer methods of others, in simulated swarms.
#include "peer/simulate/simulate_exchange.h"

#include <cmath>

#include "tests/peer/simulate/simulation.h"

namespace starling::peer {
namespace {

// Each with rounds that fit a run of twenty of them.
std::vector<std::string> settings_of(const std::string& method) {
  const bool every_step =
      method == "all-reduce" || method == "ad-psgd" || method == "push-sum" || method == "epidemic";
  std::vector<std::string> settings{"outer.method=" + method};
  settings.push_back(every_step ? "outer.steps_per_round=1" : "outer.steps_per_round=10");
  settings.push_back(method == "streaming-diloco" ? "outer.fragments=2" : "outer.fragments=1");
  return settings;
}

std::vector<nlohmann::json> run(Simulation& simulation, const std::string& method,
                                const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = settings_of(method);
  settings.insert(settings.end(), more.begin(), more.end());
  return simulation.run(settings);
}

double last_loss(const std::vector<nlohmann::json>& lines) {
  return of_kind(lines, "loss").back()["loss"].get<double>();
}

const std::vector<std::string> kMethods{"all-reduce", "diloco",   "streaming-diloco",
                                        "noloco",     "ad-psgd",  "async-local-sgd",
                                        "swarm-sgd",  "push-sum", "epidemic"};

TEST_CASE("every method learns, and its peers come nearer to each other than alone") {
  Simulation simulation;
  const auto apart = [](const std::vector<nlohmann::json>& lines) {
    return of_kind(lines, "loss").back()["disagreement"].get<double>();
  };
  const double apart_alone = apart(run(simulation, "local"));
  for (const std::string& method : kMethods) {
    CAPTURE(method);
    const auto lines = run(simulation, method);
    CHECK(last_loss(lines) < 2.5);
    CHECK(apart(lines) < 0.3 * apart_alone);
    CHECK(lines.back()["why"] == "tokens");
    std::uint64_t exchanges = 0;
    for (const nlohmann::json& peer : of_kind(lines, "peer")) {
      exchanges += peer["exchanges"].get<std::uint64_t>();
      CHECK(peer["bytes_in"].get<std::uint64_t>() > 0);
    }
    CHECK(exchanges > 20);
  }
}

TEST_CASE("every method tells the same on one thread and on three, whatever happens") {
  Simulation simulation;
  const std::vector<std::string> unequal{
      "simulate.speeds=['1', '1/2', '1/3']",
      "simulate.jitter=0.2",
      "simulate.network=regions",
      "simulate.loss=0.05",
      "run.tokens=2560",
      "simulate.schedule=['1.03 crash 1', '1.5 join', '3 partition 2 1.5', '4.11 leave 0']"};
  for (const std::string& method : kMethods) {
    CAPTURE(method);
    std::vector<std::string> settings = unequal;
    settings.emplace_back("simulate.threads=1");
    const auto lines_alone = run(simulation, method, settings);
    const std::string alone = simulation.text;
    settings.back() = "simulate.threads=3";
    CHECK(run(simulation, method, settings) == lines_alone);
    CHECK(alone == simulation.text);
  }
}

TEST_CASE("crashes, joins and partitions stall no method") {
  Simulation simulation;
  for (const std::string& method : kMethods) {
    CAPTURE(method);
    const auto lines =
        run(simulation, method,
            {"simulate.schedule=['1.03 crash 1', '1.5 join', '2.22 join', '3 partition 2 1.5', "
             "'4.11 leave 0', '5 crash 5']",
             "simulate.speeds=['1', '0.7']", "simulate.seconds=60"});
    CHECK(lines.back()["why"] == "tokens");
    const auto peers = of_kind(lines, "peer");
    REQUIRE(peers.size() == 6);
    CHECK(peers[4]["steps"].get<int>() > 10);
    CHECK(last_loss(lines) < 3);
  }
}

// Each of these once had somebody wait for a parcel that was never to come.
TEST_CASE("a newcomer that begins in the middle of meetings stalls nobody") {
  Simulation simulation;
  const auto ends = [&](const char* method, std::vector<std::string> settings) {
    CAPTURE(method);
    settings.emplace_back("simulate.seconds=200");
    CHECK(run(simulation, method, settings).back()["why"] == "tokens");
  };
  ends("push-sum", {"simulate.peers=2", "simulate.schedule=['4.58 join']", "outer.overlap_steps=1",
                    "simulate.upload_mbit=0.2", "simulate.speeds=['1', '1/3']"});
  ends("noloco",
       {"simulate.peers=5", "outer.steps_per_round=10", "outer.fragments=2",
        "simulate.schedule=['11.91 join', '3.65 join', '5.86 leave 1', '1.09 crash 4', '4.43 join',"
        " '5.2 crash 0', '5.8 partition 4 4.3', '0.04 join']",
        "simulate.speeds=['1', '0.9', '1/10']", "simulate.latency_ms=0"});
  ends("async-local-sgd",
       {"simulate.peers=3", "simulate.schedule=['4.39 join', '2.84 join', '11.04 crash 0']",
        "simulate.upload_mbit=0.2", "simulate.speeds=['1', '1/3']"});
}

TEST_CASE("a server keeps no round that is over") {
  Simulation simulation;
  auto loaded = load_simulation(
      simulation.config(),
      std::vector<std::string>{"outer.method=async-local-sgd", "outer.fragments=1",
                               "outer.steps_per_round=2", "simulate.speeds=['1', '0.7', '0.3']",
                               "simulate.schedule=['2.01 crash 1']"});
  REQUIRE(loaded.ok());
  auto world = open_world(loaded.value());
  REQUIRE(world.ok());
  auto plan = simulate_plan(loaded.value().simulate, 64, loaded.value().run.total_tokens);
  REQUIRE(plan.ok());
  auto swarm = SimulatedSwarm::create(world.value(), plan.value(), 1);
  REQUIRE(swarm.ok());
  const auto& exchange = dynamic_cast<const SimulatedExchange&>(swarm.value()->method());
  REQUIRE(
      swarm.value()
          ->run([&](const SimulatedMoment& moment) { CHECK(exchange.meetings() <= moment.peers); })
          .ok());
  CHECK(exchange.exchanges(0).completed > 20);
}

TEST_CASE("with a server a slow peer reports as often as a fast one, if rounds follow the speed") {
  Simulation simulation;
  const auto exchanges = [&](const char* local_steps) {
    const auto lines =
        run(simulation, "async-local-sgd",
            {"simulate.peers=2", "simulate.speeds=['1', '1/2']", "outer.steps_per_round=20",
             std::string("outer.local_steps=") + local_steps});
    std::vector<double> of;
    for (const nlohmann::json& peer : of_kind(lines, "peer")) of.push_back(peer["exchanges"]);
    return of;
  };
  const auto fixed = exchanges("fixed"), dynamic = exchanges("dynamic");
  REQUIRE(fixed[0] > 3);
  CHECK(fixed[1] / fixed[0] == doctest::Approx(0.5).epsilon(0.2));
  CHECK(dynamic[1] / dynamic[0] == doctest::Approx(1).epsilon(0.2));
}

TEST_CASE("of swarm-sgd a peer has one offer under way at a time") {
  Simulation simulation;
  // A parcel takes longer than the run.
  const auto lines = run(simulation, "swarm-sgd", {"simulate.upload_mbit=0.01"});
  for (const nlohmann::json& peer : of_kind(lines, "peer")) {
    CHECK(peer["steps"].get<int>() > 20);
    CHECK(peer["messages"] == 1);
  }
}

TEST_CASE("with push-sum a peer that is left alone keeps its weights and learns on") {
  Simulation simulation;
  const auto lines =
      run(simulation, "push-sum", {"simulate.peers=2", "simulate.schedule=['1 crash 0']"});
  CHECK(lines.back()["why"] == "tokens");
  CHECK(last_loss(lines) < 1.5);
}

TEST_CASE("with all-reduce all peers have the same weights, and fast ones wait for slow ones") {
  Simulation simulation;
  const auto lines = run(simulation, "all-reduce",
                         {"simulate.speeds=['1', '1/2']", "simulate.schedule=['3.01 join']",
                          "schedule.local_warmup_steps=20"});
  const auto moment = of_kind(lines, "loss").back();
  for (const nlohmann::json& single : moment["single"]) {
    CHECK(single["loss"] == moment["single"][0]["loss"]);
  }
  CHECK(moment["single"].size() == 5);
  const auto peers = of_kind(lines, "peer");
  CHECK(peers[0]["steps"] == peers[1]["steps"]);
  CHECK(peers[0]["goodput"].get<double>() < 0.51);
  CHECK(peers[1]["goodput"].get<double>() < 1);
  CHECK(peers[4]["steps"].get<int>() < peers[0]["steps"].get<int>());
}

TEST_CASE("all-reduce of one peer is a peer alone") {
  Simulation simulation;
  const auto reduced = run(simulation, "all-reduce", {"simulate.peers=1"});
  const auto alone = simulation.run({"outer.method=local", "simulate.peers=1"});
  CHECK(last_loss(reduced) == last_loss(alone));
}

TEST_CASE("with diloco peers meet at every round and have the same slow weights") {
  Simulation simulation;
  const auto lines = run(simulation, "diloco", {"simulate.speeds=['1', '1/2']"});
  const auto peers = of_kind(lines, "peer");
  CHECK(peers[0]["goodput"].get<double>() < 0.55);
  CHECK(peers[1]["goodput"].get<double>() > 0.9);
  CHECK(peers[0]["exchanges"] == peers[1]["exchanges"]);
  // A sum of four: every peer sends 2 * 3/4 of the model and its head in a round.
  const double parameters = lines.front()["parameters"].get<double>();
  const double a_round = 1.5 * (128 + 4 * parameters);
  const double rounds = peers[0]["bytes_out"].get<double>() / a_round;
  CHECK(rounds == doctest::Approx(std::round(rounds)).epsilon(1e-4));
}

// Rounds of ten steps in 80: eight, the last of which ends the run.
TEST_CASE("the last round is taken, though its parcels come when the tokens are trained") {
  Simulation simulation;
  for (const char* method : {"diloco", "noloco", "streaming-diloco", "async-local-sgd"}) {
    CAPTURE(method);
    const std::string fragments =
        fmt::format("outer.fragments={}", std::string_view(method) == "streaming-diloco" ? 2 : 1);
    const auto lines =
        run(simulation, method, {fragments, "run.tokens=5120", "outer.local_steps=fixed"});
    for (const nlohmann::json& peer : of_kind(lines, "peer")) {
      CHECK(peer["steps"] == 80);
      CHECK(peer["exchanges"] == (fragments.ends_with("2") ? 16 : 8));
    }
    CHECK(of_kind(lines, "loss").back()["tokens"] == 4 * 5120);
  }
}

TEST_CASE("after the last round of diloco without momentum all peers are the mean") {
  Simulation simulation;
  const auto lines = run(simulation, "diloco", {"outer.momentum=0", "outer.learning_rate=1"});
  const auto moment = of_kind(lines, "loss").back();
  REQUIRE(moment["single"].size() == 4);
  for (const nlohmann::json& single : moment["single"]) {
    CHECK(single["loss"].get<double>() ==
          doctest::Approx(moment["loss"].get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("what a server has made is judged, not the mean of those who learn from it") {
  Simulation simulation;
  const auto lines = run(simulation, "async-local-sgd", {"simulate.speeds=['1', '0.7', '0.3']"});
  const auto moment = of_kind(lines, "loss").back();
  int same = 0;  // whoever has heard from it last
  for (const nlohmann::json& single : moment["single"]) {
    if (single["loss"] == moment["loss"]) ++same;
  }
  CHECK(same >= 1);
  CHECK(same < 4);
}

TEST_CASE("a newcomer whose partners all go while it waits for them has what they offered") {
  Simulation simulation;
  const auto lines = run(simulation, "diloco",
                         {"simulate.peers=2", "simulate.speeds=['1', '1/4']",
                          "simulate.step_seconds=1", "run.tokens=2560", "simulate.seconds=2000",
                          "simulate.schedule=['12 join', '14 crash 0', '15 crash 1']"});
  CHECK(lines.back()["why"] == "tokens");
}

TEST_CASE("all-reduce counts no step for a newcomer that others have trained") {
  Simulation simulation;
  const auto lines = run(simulation, "all-reduce",
                         {"simulate.speeds=['1', '1/2']", "simulate.schedule=['3.15 join']"});
  for (const nlohmann::json& peer : of_kind(lines, "peer")) {
    const double step = 0.1 / peer["speed"].get<double>();
    CHECK(peer["steps"].get<double>() * step <=
          peer["goodput"].get<double>() * peer["seconds"].get<double>() + 1e-6);
  }
}

TEST_CASE("a round takes as long as its slowest line") {
  Simulation simulation;
  // The ring's phases of a quarter of the model at 1 Mbit/s, six of them.
  const auto lines = run(simulation, "diloco", {"simulate.upload_mbit=1", "simulate.latency_ms=0"});
  const double parameters = lines.front()["parameters"].get<double>();
  const double seconds = 6 * (128 + 4 * parameters) / 4 / 125'000;
  const auto peer = of_kind(lines, "peer")[0];
  CHECK(peer["idle_seconds"].get<double>() / peer["exchanges"].get<double>() ==
        doctest::Approx(seconds).epsilon(0.02));
}

TEST_CASE("where nobody waits, unequal peers train all the time") {
  Simulation simulation;
  for (const char* method : {"ad-psgd", "swarm-sgd"}) {
    CAPTURE(method);
    const auto lines =
        run(simulation, method, {"simulate.speeds=['1', '1/4']", "simulate.latency_ms=200"});
    for (const nlohmann::json& peer : of_kind(lines, "peer")) CHECK(peer["goodput"] == 1.0);
  }
}

TEST_CASE("who crashes in the middle of a step has trained until then") {
  Simulation simulation;
  for (const char* method : {"local", "pair-gossip"}) {
    CAPTURE(method);
    const auto lines = run(simulation, method, {"simulate.schedule=['1.53 crash 1']"});
    for (const nlohmann::json& peer : of_kind(lines, "peer")) {
      CHECK(peer["goodput"].get<double>() == doctest::Approx(1));
    }
  }
}

TEST_CASE("of noloco a peer waits for its group only") {
  Simulation simulation;
  // Within the first round of a slow one, whose partners alone wait, and then theirs.
  const auto goodput_of_all = [&](const char* method) {
    const auto lines = run(simulation, method,
                           {"simulate.peers=6", "simulate.seconds=4",
                            "simulate.speeds=['1', '1', '1', '1', '1', '1/8']"});
    double sum = 0;
    for (const nlohmann::json& peer : of_kind(lines, "peer")) sum += peer["goodput"].get<double>();
    return sum;
  };
  CHECK(goodput_of_all("noloco") > 1.3 * goodput_of_all("diloco"));
  const auto lines = run(simulation, "noloco", {"simulate.peers=2", "simulate.latency_ms=0"});
  const double parameters = lines.front()["parameters"].get<double>();
  for (const nlohmann::json& peer : of_kind(lines, "peer")) {
    // Two vectors to the other one, every round.
    const double rounds = peer["bytes_out"].get<double>() / (128 + 8 * parameters);
    CHECK(rounds == doctest::Approx(std::round(rounds)).epsilon(1e-6));
    CHECK(rounds >= peer["exchanges"].get<double>());
  }
}

}  // namespace
}  // namespace starling::peer
