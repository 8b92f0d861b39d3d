#include "peer/bench/bench_exchange.h"

#include <doctest/doctest.h>

#include "peer/bench/bench_text.h"

namespace starling::peer {
namespace {

// Two rounds: 1 s more of the processors for 0.5 GB, 3 s more for 1 GB.
ExchangeBench sample() {
  ExchangeBench bench;
  bench.shape = "tiny";
  bench.threads = 1;
  bench.steps = 10;
  bench.alone = {{.tokens_per_second = 100, .cpu_seconds = 4},
                 {.tokens_per_second = 200, .cpu_seconds = 5}};
  bench.exchanging = {{.tokens_per_second = 90,
                       .bytes_per_second = 2e6,
                       .bytes = 0.5e9,
                       .cpu_seconds = 5,
                       .held_share = 0.01,
                       .exchanges = 3},
                      {.tokens_per_second = 200,
                       .bytes_per_second = 4e6,
                       .bytes = 1e9,
                       .cpu_seconds = 8,
                       .held_share = 0.03,
                       .exchanges = 4}};
  return bench;
}

TEST_CASE("what exchanges cost is the difference to the run beside them") {
  const nlohmann::json shown = exchange_json(sample());
  CHECK(shown["bench"] == "exchange");
  CHECK(shown["rounds"] == 2);
  CHECK(shown["exchanges"] == 7);
  CHECK(shown["cpu_seconds_per_gb"]["median"] == doctest::Approx(2.5));
  CHECK(shown["cpu_seconds_per_gb"]["max"] == doctest::Approx(3));
  CHECK(shown["speed_ratio"]["min"] == doctest::Approx(0.9));
  CHECK(shown["speed_ratio"]["max"] == doctest::Approx(1));
  CHECK(shown["mb_per_second"]["median"] == doctest::Approx(3));
  CHECK(shown["tokens_per_second_alone"]["median"] == doctest::Approx(150));
  CHECK(shown["held_share"]["median"] == doctest::Approx(0.02));
  const std::string text = exchange_text(sample());
  CHECK(text.find("2.50 (2.00 to 3.00)") != std::string::npos);
  CHECK(text.find("2.000 (1.000 to 3.000)") != std::string::npos);
}

TEST_CASE("a model that cannot be is refused before a process is started") {
  const auto refused = bench_exchange({.overrides = {"model.width=7"}});
  REQUIRE(!refused.ok());
  CHECK(refused.error().message().find("model.width") != std::string::npos);
}

}  // namespace
}  // namespace starling::peer
