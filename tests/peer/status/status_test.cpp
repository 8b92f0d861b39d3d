#include "peer/status/status.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/rng.h"

namespace starling::peer {
namespace {

PeerStatus example() {
  PeerStatus status;
  status.peer = "peer-1";
  status.phase = "closing";
  status.step = 120;
  status.tokens = 1'966'080;
  status.tokens_budget = std::numeric_limits<std::uint64_t>::max();
  status.swarm_tokens = 7.5e6;
  status.tokens_per_second = 14321.5;
  status.loss = 2.25;
  status.validation_loss = 2.5;
  status.partners = 3;
  status.dialable = true;
  status.relays = 1;
  status.relay_holders = 5;
  status.exchanges = 41;
  status.exchanges_failed = 2;
  status.bytes_out = 1 << 20;
  status.bytes_in = 3;
  status.last_exchange_seconds_ago = 0.25;
  status.disagreement = 1e-3;
  status.displacement = 2e-2;
  status.held_seconds = 0.125;
  status.train_seconds = 61;
  status.parts = 4096;
  status.parts_never = 4;
  status.parts_once = 4000;
  status.parts_read = 1300;
  status.checkpoints = 4;
  status.checkpoints_failed = 1;
  status.checkpoint = "runs/\"demo\"/peer-1/checkpoints/4.ckpt";
  return status;
}

TEST_CASE("a status survives the way through a line of JSON") {
  const PeerStatus status = example();
  const std::string line = to_json(status);
  CHECK(line.find('\n') == std::string::npos);
  auto parsed = parse_status(line);
  REQUIRE(parsed.ok());
  CHECK(to_json(parsed.value()) == line);
  CHECK(parsed.value().peer == status.peer);
  CHECK(parsed.value().tokens_budget == status.tokens_budget);
  CHECK(parsed.value().tokens_per_second == status.tokens_per_second);
  CHECK(parsed.value().partners == status.partners);
  CHECK(parsed.value().parts_once == status.parts_once);
  CHECK(parsed.value().dialable);
  CHECK(parsed.value().relays == 1);
  CHECK(parsed.value().relay_holders == 5);
  CHECK(parsed.value().checkpoints_failed == 1);
  CHECK(parsed.value().checkpoint == status.checkpoint);
}

TEST_CASE("a line for people tells how far it is and how long it takes") {
  PeerStatus status;
  status.step = 120;
  status.tokens = 61'440;
  status.tokens_budget = 500'000;
  status.tokens_per_second = 2500;
  status.loss = 2.31;
  CHECK(to_line(status) == "step 120, 12 %: loss 2.3100, 2.50 k tokens/s, 3 min left");
  status.validation_loss = 2.4;
  status.partners = 1;
  status.exchanges = 42;
  CHECK(to_line(status) ==
        "step 120, 12 %: loss 2.3100, validation 2.4000, 2.50 k tokens/s, "
        "1 partner, 42 exchanges, 3 min left");
  status.tokens = 500'512;  // whole batches
  CHECK(to_line(status).find("100 %") != std::string::npos);
  CHECK(to_line(status).find("0 s left") != std::string::npos);
}

TEST_CASE("unknown keys are ignored and missing ones keep their default") {
  auto parsed = parse_status(R"({"step": 7, "mood": {"of": ["tomorrow"]}})");
  REQUIRE(parsed.ok());
  CHECK(parsed.value().step == 7);
  CHECK(parsed.value().phase == "training");
  CHECK(parsed.value().last_exchange_seconds_ago == -1);
}

TEST_CASE("a loss that is no number any more arrives as such") {
  PeerStatus status;
  status.loss = std::numeric_limits<double>::quiet_NaN();
  auto parsed = parse_status(to_json(status));
  REQUIRE(parsed.ok());
  CHECK(std::isnan(parsed.value().loss));
}

TEST_CASE("text that is not UTF-8 is replaced, not fatal") {
  PeerStatus status;
  status.checkpoint = "runs/\xff\xfe.ckpt";
  CHECK(parse_status(to_json(status)).ok());
}

TEST_CASE("hostile lines are errors") {
  const std::string lines[] = {
      "",
      "hello",
      "[]",
      "7",
      "null",
      R"({"step": -1})",
      R"({"step": 1.5})",
      R"({"step": "7"})",
      R"({"step": 18446744073709551616})",
      R"({"partners": 4294967296})",
      R"({"loss": "low"})",
      R"({"dialable": 1})",
      R"({"loss": 1e999})",
      R"({"loss": true})",
      R"({"peer": 7})",
      R"({"peer": "a\u001b[2Jb"})",
      R"({"phase": "a\nb"})",
      R"({"checkpoint": ")" + std::string(5000, 'x') + R"("})",
      R"({"step": 7)",
      R"({"step": 7} {"step": 8})",
      R"({"x": ")" + std::string(70'000, 'x') + R"("})",
      std::string(60'000, '['),
      std::string("{\"step\": \0 7}", 12),
  };
  for (const std::string& line : lines) {
    CAPTURE(line.substr(0, 60));
    CHECK_FALSE(parse_status(line).ok());
  }
}

TEST_CASE("a line with any byte changed is a status or an error, never a crash") {
  const std::string good = to_json(example());
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    std::string line = good;
    for (std::uint64_t changes = 1 + rng.below(4); changes > 0; --changes) {
      line[rng.below(line.size())] = static_cast<char>(rng.below(256));
    }
    auto parsed = parse_status(line);
    if (parsed.ok()) CHECK(parsed.value().peer.size() <= 4096);
  }
}

}  // namespace
}  // namespace starling::peer
