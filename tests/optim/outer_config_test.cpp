#include "optim/outer_config.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "optim/outer_async_local_sgd.h"
#include "optim/outer_stage.h"

namespace starling::optim {

namespace {

constexpr std::array kAll = {
    OuterMethod::kPairGossip,    OuterMethod::kLocal,   OuterMethod::kAllReduce,
    OuterMethod::kDiloco,        OuterMethod::kNoloco,  OuterMethod::kStreamingDiloco,
    OuterMethod::kAsyncLocalSgd, OuterMethod::kAdPsgd,  OuterMethod::kSwarmSgd,
    OuterMethod::kPushSum,       OuterMethod::kEpidemic};

std::string refused(const OuterConfig& config) {
  auto valid = validate(config);
  if (valid.ok()) return "";
  CHECK(valid.error().code() == ErrorCode::kInvalidConfig);
  return valid.error().message();
}

OuterConfig of(OuterMethod method) { return outer_defaults(method).rule; }

// How much larger than one the second moments of noloco become in many rounds without training:
// V of a deviation x, D of its momentum, C of both, under groups of n drawn anew each round.
double growth(double alpha, double gamma, double n) {
  const double c = (n - 1.0) / n;
  double v = 1.0;
  double cross = 0.0;
  double d = 0.0;
  for (int round = 0; round < 20'000; ++round) {
    const double x_next = alpha * cross - gamma * c * v;
    const double d_next = alpha * alpha * d + gamma * gamma * c * v - 2 * alpha * gamma * c * cross;
    v += 2 * x_next + d_next;
    cross = x_next + d_next;
    d = d_next;
    if (v > 1e12 || v < 1e-12) break;
  }
  return v;
}

// The same of an average that every round is pulled onto its optimum, 0, by its inner phase.
double heavy_ball_growth(double alpha, double beta) {
  double x = 1.0;
  double m = 0.0;
  for (int round = 0; round < 20'000 && std::abs(x) < 1e12; ++round) {
    m = alpha * m - beta * x;
    x += m;
  }
  return std::abs(x);
}

// The same of a server whose peers, pulled onto the optimum too, end one after the other.
double server_growth(double momentum, double learning_rate, std::uint32_t buffer,
                     std::uint32_t peers) {
  const OuterConfig config{.method = OuterMethod::kAsyncLocalSgd,
                           .momentum = static_cast<float>(momentum),
                           .learning_rate = static_cast<float>(learning_rate),
                           .buffer = buffer};
  DelayedNesterovServer server(config, peers, {1.0f});
  std::vector<float> begun(peers, 1.0f);
  double most = 0.0;
  for (int round = 0; round < 4000 && most < 1e12; ++round) {
    most = 0.0;
    for (float& start : begun) {
      const float displacement = -start;
      server.receive({&displacement, 1});
      start = server.weights()[0];
      most = std::max(most, std::abs(double{start}));
    }
  }
  return most;
}

double nesterov_growth(double alpha, double beta) {
  double x = 1.0;
  double m = 0.0;
  for (int round = 0; round < 20'000 && std::abs(x) < 1e12; ++round) {
    const double displacement = -x;
    m = alpha * m + displacement;
    x += beta * (displacement + alpha * m);
  }
  return std::abs(x);
}

}  // namespace

TEST_CASE("the defaults of every outer method are valid") {
  for (const OuterMethod method : kAll) {
    CAPTURE(static_cast<int>(method));
    const OuterDefaults defaults = outer_defaults(method);
    CHECK(defaults.rule.method == method);
    CHECK(refused(defaults.rule).empty());
    CHECK(defaults.rounds.fragments >= 1);
    CHECK(defaults.rounds.fragments <= defaults.rounds.steps_per_round);
  }
  CHECK(refused({}).empty());
  CHECK(of(OuterMethod::kDiloco).momentum == 0.9f);
  CHECK(of(OuterMethod::kNoloco).group_pull == 0.7f);
  CHECK(outer_defaults(OuterMethod::kAllReduce).rounds.steps_per_round == 1);
}

TEST_CASE("settings of noloco that let peers drift apart are refused with the bound") {
  OuterConfig config = of(OuterMethod::kNoloco);
  CHECK(refused(config).empty());
  config.momentum = 0.9f;
  CHECK(refused(config) ==
        "outer group_pull = 0.7 diverges: with momentum = 0.9 and groups of 2 it must be above 0 "
        "and below 0.38 = 2 (1 - momentum^2)");
  config.group_pull = 0.37f;
  CHECK(refused(config).empty());
  config.group_pull = 0.0f;
  CHECK(refused(config).find("above 0") != std::string::npos);
  config.group_pull = std::nanf("");
  CHECK(!refused(config).empty());
  config.group = 1;
  CHECK(refused(config) == "outer group must be 2 or more: a peer and others");
}

TEST_CASE("the bound of noloco is where the second moments begin to grow, for any group") {
  for (const double alpha : {0.0, 0.3, 0.5, 0.7, 0.9}) {
    for (const std::uint32_t n : {2U, 3U, 4U, 16U, 1000U}) {
      CAPTURE(alpha);
      CAPTURE(n);
      const double bound = group_pull_bound(alpha, n);
      CHECK(growth(alpha, 0.99 * bound, n) < 1.0);
      CHECK(growth(alpha, 1.01 * bound, n) > 1.0);
    }
  }
  CHECK(group_pull_bound(0.5, 2) == doctest::Approx(1.5));
}

TEST_CASE("an outer rate whose average swings up without bound is refused with the bound") {
  OuterConfig config = of(OuterMethod::kDiloco);
  config.learning_rate = 1.4f;
  CHECK(refused(config) ==
        "outer learning_rate = 1.4 diverges: with momentum = 0.9 it must be below 1.357 = "
        "2 (1 + momentum) / (1 + 2 momentum)");
  config.learning_rate = 1.35f;
  CHECK(refused(config).empty());
  config = {.momentum = 0.3f, .learning_rate = 2.7f};
  CHECK(refused(config).find("below 2.6 = 2 (1 + momentum)") != std::string::npos);
  // However far the momentum grows, it grows away from the bound.
  config = {.momentum = 0.3f, .learning_rate = 2.5f, .gain = 10.0f};
  CHECK(refused(config).empty());
  for (const double peers : {1.0, 1.1, 2.0, 8.0, 1e9}) {
    CAPTURE(peers);
    const HeavyBallScalars at = scalars_at(config, {.steps = 500, .equal_peers = peers});
    CHECK(double{at.learning_rate} < heavy_ball_bound(at.momentum));
    CHECK(heavy_ball_growth(at.momentum, at.learning_rate) < 1.0);
  }
  CHECK(refused({.method = OuterMethod::kLocal, .learning_rate = 5.0f}).empty());
  for (const double alpha : {0.0, 0.3, 0.5, 0.9}) {
    CAPTURE(alpha);
    CHECK(heavy_ball_growth(alpha, 0.99 * heavy_ball_bound(alpha)) < 1.0);
    CHECK(heavy_ball_growth(alpha, 1.01 * heavy_ball_bound(alpha)) > 1.0);
    CHECK(nesterov_growth(alpha, 0.99 * nesterov_bound(alpha)) < 1.0);
    CHECK(nesterov_growth(alpha, 1.01 * nesterov_bound(alpha)) > 1.0);
  }
}

TEST_CASE("a server's buffer is refused where its peers make it diverge, and the authors' is not") {
  OuterConfig config = of(OuterMethod::kAsyncLocalSgd);
  config.buffer = 4;
  CHECK(validate(config, 7).ok());
  CHECK(
      validate(config, 8).error().message() ==
      "outer buffer = 4 diverges: 8 peers move the server by learning_rate * peers / buffer = 1.4 "
      "in a round, which must be below 1.357; 0 makes buffer as large as there are peers");
  config.buffer = 0;
  for (const std::uint32_t peers : {1U, 2U, 8U, 1000U}) CHECK(validate(config, peers).ok());
  for (const double momentum : {0.0, 0.3, 0.5, 0.9}) {
    for (const std::uint32_t peers : {2U, 3U, 4U, 8U, 32U}) {
      for (const std::uint32_t buffer : {1U, peers - 1, peers, peers + 1, 2 * peers, 4 * peers}) {
        CAPTURE(momentum);
        CAPTURE(peers);
        CAPTURE(buffer);
        const double rate = server_bound(momentum, buffer, peers) * buffer / peers;
        CHECK(server_growth(momentum, 1.02 * rate, buffer, peers) > 1.0);
      }
    }
  }
  for (const std::uint32_t peers : {1U, 2U, 3U, 8U, 32U}) {  // where it is exact
    CAPTURE(peers);
    const double rate = server_bound(0.0, peers, peers);
    CHECK(server_growth(0.0, 0.98 * rate, peers, peers) < 1.0);
    CHECK(server_growth(0.0, 1.02 * rate, peers, peers) > 1.0);
  }
  CHECK(server_growth(0.9, 0.55, 8, 8) < 1.0);  // and where momentum is
  CHECK(server_growth(0.9, 0.58, 8, 8) > 1.0);
}

TEST_CASE("what makes no sense for a method is refused") {
  CHECK(refused({.momentum = 1.0f}) == "outer momentum must be in [0, 1)");
  CHECK(refused({.learning_rate = 0.0f}) == "outer learning_rate must be positive");
  CHECK(refused({.mixing = 0.6f}) == "outer mixing must be in (0, 0.5]");
  CHECK(refused({.gain = -1.0f}) == "outer gain must be in [0, 10]");
  CHECK(refused({.gain = std::nanf("")}) == "outer gain must be in [0, 10]");
  CHECK(refused({.mixing = std::nanf("")}) == "outer mixing must be in (0, 0.5]");
  OuterConfig streaming = of(OuterMethod::kStreamingDiloco);
  streaming.blend = 1.0f;
  CHECK(refused(streaming) == "outer blend must be in [0, 1): at 1 nothing of the others is taken");
  OuterConfig server = of(OuterMethod::kAsyncLocalSgd);
  server.buffer = 4;
  server.momentum_share = 0.26f;
  CHECK(refused(server) == "outer momentum_share must be in [0, 1 / buffer], here up to 0.25");
  server.buffer = 10;
  server.momentum_share = 0.1f;  // the bound itself
  CHECK(validate(server).ok());
}

}  // namespace starling::optim
