// Every outer method against an independent program: repeats the events of goldens/outer_traces.txt
// (made by scripts/outer_traces in double precision) and compares all weights on the way.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "optim/outer_async_local_sgd.h"
#include "optim/outer_exchange.h"
#include "optim/outer_rule.h"
#include "optim/vector_math.h"
#include "tests/support/worst.h"

namespace starling::optim {

namespace {

const std::map<std::string, OuterMethod> kMethods = {
    {"pair-gossip", OuterMethod::kPairGossip},
    {"local", OuterMethod::kLocal},
    {"all-reduce", OuterMethod::kAllReduce},
    {"diloco", OuterMethod::kDiloco},
    {"streaming-diloco", OuterMethod::kStreamingDiloco},
    {"noloco", OuterMethod::kNoloco},
    {"async-local-sgd", OuterMethod::kAsyncLocalSgd},
    {"ad-psgd", OuterMethod::kAdPsgd},
    {"swarm-sgd", OuterMethod::kSwarmSgd},
    {"push-sum", OuterMethod::kPushSum},
    {"epidemic", OuterMethod::kEpidemic},
};

struct Peer {
  std::vector<float> slow, momentum, fast, gradient;
  double mass = 1.0;

  ExchangeState state() {
    return {.slow = slow, .momentum = momentum, .fast = fast, .gradient = gradient, .mass = mass};
  }
};

struct PendingPair {
  PairFactors factors;
  std::vector<float> difference;
};

std::vector<float> rest_of(std::istream& line) {
  std::vector<float> values;
  for (double value = 0.0; line >> value;) values.push_back(static_cast<float>(value));
  return values;
}

OuterConfig config_of(const std::string& method, std::istream& settings) {
  OuterConfig config = outer_defaults(kMethods.at(method)).rule;
  for (std::string setting; settings >> setting;) {
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    const double value = std::strtod(setting.c_str() + equals + 1, nullptr);
    const auto real = static_cast<float>(value);
    const auto whole = static_cast<std::uint32_t>(value);
    if (key == "momentum") config.momentum = real;
    if (key == "learning_rate") config.learning_rate = real;
    if (key == "mixing") config.mixing = real;
    if (key == "gain") config.gain = real;
    if (key == "gain_warmup_steps") config.gain_warmup_steps = whole;
    if (key == "group_pull") config.group_pull = real;
    if (key == "group") config.group = whole;
    if (key == "overlap_steps") config.overlap_steps = whole;
    if (key == "blend") config.blend = real;
    if (key == "buffer") config.buffer = whole;
    if (key == "momentum_share") config.momentum_share = real;
    if (key == "targets") config.targets = whole;
  }
  return config;
}

// One method's peers, and what each kind of event does to them.
class Replay {
 public:
  Replay(const std::string& method, std::istream& settings) : config_(config_of(method, settings)) {
    if (is_outer_rule(config_.method)) {
      rule_ = std::move(make_outer_rule(config_)).value();
    } else {
      exchange_ = std::move(make_outer_exchange(config_)).value();
    }
  }

  void apply(const std::string& event, std::istream& line) {
    if (event == "start") return start(line);
    if (event == "train" || event == "gradient") return train(event, line);
    if (event == "step") return step(line);
    if (event == "pair" || event == "pair_end") return pair(event, line);
    if (event == "descend") return descend(line);
    if (event == "expect") return expect(line);
    exchange(event, line);
  }

  int compared = 0;
  double worst = 0.0;

 private:
  void start(std::istream& line) {
    Peer& peer = next_peer(line);
    peer.fast = peer.slow = rest_of(line);
    peer.momentum.assign(peer.slow.size(), 0.0f);
    if (!server_) server_.emplace(config_, 4, peer.slow);
  }

  void train(const std::string& event, std::istream& line) {
    Peer& peer = next_peer(line);
    const std::vector<float> values = rest_of(line);
    if (event == "gradient") {
      peer.gradient = values;
    } else {
      add_scaled(peer.fast, 1.0f, values);
    }
  }

  void step(std::istream& line) {
    Peer& peer = next_peer(line);
    OuterStage stage;
    line >> stage.steps >> stage.equal_peers;
    std::vector<float> local = peer.fast;
    rule_->step(stage, peer.slow, peer.momentum, local);
    add_scaled(peer.fast, 1.0f, local);
  }

  void pair(const std::string& event, std::istream& line) {
    Peer& initiator = next_peer(line);
    Peer& responder = next_peer(line);
    if (event == "pair") {
      float left = 0.0f;
      float right = 0.0f;
      line >> left >> right;
      std::vector<float> difference = responder.slow;
      add_scaled(difference, -1.0f, initiator.slow);
      pending_ = {pair_factors(config_.mixing, left, right), std::move(difference)};
      return;
    }
    for (std::vector<float>* weights : {&initiator.slow, &initiator.fast}) {
      add_scaled(*weights, pending_.factors.initiator, pending_.difference);
    }
    for (std::vector<float>* weights : {&responder.slow, &responder.fast}) {
      add_scaled(*weights, -pending_.factors.responder, pending_.difference);
    }
  }

  void exchange(const std::string& event, std::istream& line) {
    std::string name;
    if (event == "combine") {
      line >> name;
      std::vector<const Parcel*> parts;
      for (std::string part; line >> part;) parts.push_back(&parcels_.at(part));
      return exchange_->combine(parts, parcels_[name]);
    }
    Peer& peer = next_peer(line);
    ExchangeState state = peer.state();
    if (event == "serve") {
      server_->receive(parcels_.at(last_peer_).values);
      const Parcel reply{{server_->weights().begin(), server_->weights().end()}, 1.0};
      exchange_->take(state, parcels_.at(last_peer_), reply);
    } else {
      line >> name;
      if (event == "offer") exchange_->offer(state, parcels_[name]);
      if (event == "answer") exchange_->answer(state, parcels_[name]);
      if (event == "take") {
        std::string combined;
        line >> combined;
        exchange_->take(state, parcels_.at(name), parcels_.at(combined));
      }
    }
    peer.mass = state.mass;
  }

  void descend(std::istream& line) {
    float rate = 0.0f;
    line >> rate;
    for (auto& [name, peer] : peers_) add_scaled(peer.fast, -rate, peer.gradient);
  }

  void expect(std::istream& line) {
    const Peer& peer = next_peer(line);
    std::string what;
    line >> what;
    std::vector<double> have(peer.fast.begin(), peer.fast.end());
    if (what == "slow") have.assign(peer.slow.begin(), peer.slow.end());
    if (what == "momentum") have.assign(peer.momentum.begin(), peer.momentum.end());
    if (what == "mass") have = {peer.mass};
    std::vector<double> wanted;
    for (double value = 0.0; line >> value;) wanted.push_back(value);
    REQUIRE(wanted.size() == have.size());
    for (std::size_t i = 0; i < have.size(); ++i) {
      testing::note_worst(worst, std::abs(have[i] - wanted[i]));
    }
    ++compared;
  }

  Peer& next_peer(std::istream& line) {
    line >> last_peer_;
    return peers_[last_peer_];
  }

  const OuterConfig config_;
  std::unique_ptr<OuterRule> rule_;
  std::unique_ptr<OuterExchange> exchange_;
  std::optional<DelayedNesterovServer> server_;
  std::map<std::string, Peer> peers_;
  std::map<std::string, Parcel> parcels_;
  std::string last_peer_;
  PendingPair pending_;
};

}  // namespace

TEST_CASE("every outer method does what another program traced") {
  std::ifstream file(STARLING_OPTIM_GOLDENS "/outer_traces.txt");
  REQUIRE(file.good());
  std::map<std::string, int> traces;
  std::unique_ptr<Replay> replay;
  const auto finish = [&] {
    if (!replay) return;
    CHECK(replay->compared > 0);
    // Weights of up to 10 in float32, after some ten rounds.
    CHECK(replay->worst < 1e-5);
  };
  std::string method;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string event;
    line >> event;
    if (event == "#") continue;
    CAPTURE(method);
    if (event == "method") {
      finish();
      line >> method;
      ++traces[method];
      replay = std::make_unique<Replay>(method, line);
    } else {
      REQUIRE(replay);
      replay->apply(event, line);
    }
  }
  CAPTURE(method);
  finish();
  for (const auto& [name, value] : kMethods) {
    CAPTURE(name);
    CHECK(traces[name] >= 1);
  }
}

}  // namespace starling::optim
