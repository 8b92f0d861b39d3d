#include "peer/bench/bench_rates.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "peer/bench/bench_codec.h"
#include "peer/bench/bench_optimizer.h"
#include "peer/bench/bench_text.h"

namespace starling::peer {
namespace {

using nlohmann::json;

// More than one stripe, the last one short.
constexpr RateBenchOptions kSmallest{.parameters = (1 << 18) + 5000,
                                     .threads = 1,
                                     .seconds = 0.001,
                                     .copy_bytes = std::size_t{1} << 20};

std::set<std::string> check_rates(const json& shown) {
  CHECK(shown["parameters"] == kSmallest.parameters);
  CHECK(shown["program"].get<std::string>().starts_with("starling "));
  CHECK(shown["device"] == "cpu, 1 thread");
  const double copies = std::max(shown["machine"]["copy_gb_per_second"].get<double>(),
                                 shown["machine"]["copy_past_caches_gb_per_second"].get<double>());
  std::set<std::string> names;
  for (const json& rate : shown["rates"]) {
    CAPTURE(rate.dump());
    names.insert(rate["name"]);
    const double speed = rate["gvalues_per_second"], bytes = rate["gb_per_second"];
    CHECK(speed > 0);
    const double seconds = rate["pass_ms"]["median"].get<double>() / 1e3;
    CHECK(speed * 1e9 * seconds == doctest::Approx(kSmallest.parameters));
    CHECK(rate["copy_share"].get<double>() == doctest::Approx(bytes / copies));
    CHECK(rate["pass_ms"]["min"] <= rate["pass_ms"]["max"]);
  }
  return names;
}

double bytes_a_value(const json& shown, const std::string& name) {
  for (const json& rate : shown["rates"]) {
    if (rate["name"] == name) {
      return rate["gb_per_second"].get<double>() / rate["gvalues_per_second"].get<double>();
    }
  }
  return 0;
}

TEST_CASE("the codec is measured in every format, each way, and by the bytes that move") {
  auto measured = bench_codec(kSmallest);
  REQUIRE(measured.ok());
  const json shown = rates_json(measured.value());
  CHECK(shown["bench"] == "codec");
  const std::set<std::string> expected{"f32 encode",  "f32 answer",  "f32 decode",  "bf16 encode",
                                       "bf16 answer", "bf16 decode", "mod8 encode", "mod8 answer",
                                       "mod8 decode", "mod6 encode", "mod6 answer", "mod6 decode",
                                       "mod5 encode", "mod5 answer", "mod5 decode", "mod4 encode",
                                       "mod4 answer", "mod4 decode", "apply",       "outer step"};
  CHECK(check_rates(shown) == expected);
  CHECK(bytes_a_value(shown, "f32 encode") == doctest::Approx(8).epsilon(0.01));
  CHECK(bytes_a_value(shown, "bf16 answer") == doctest::Approx(8).epsilon(0.01));
  CHECK(bytes_a_value(shown, "mod8 encode") == doctest::Approx(5).epsilon(0.01));
  CHECK(bytes_a_value(shown, "mod6 encode") == doctest::Approx(4.75).epsilon(0.01));
  CHECK(bytes_a_value(shown, "mod5 decode") == doctest::Approx(8.625).epsilon(0.01));
  CHECK(bytes_a_value(shown, "mod4 decode") == doctest::Approx(8.5).epsilon(0.01));
  CHECK(bytes_a_value(shown, "apply") == doctest::Approx(12));
  CHECK(bytes_a_value(shown, "outer step") == doctest::Approx(24));
  CHECK(rates_text(measured.value()).find("\nmod4 answer ") != std::string::npos);
}

TEST_CASE("the optimizer is measured in its two parts") {
  auto measured = bench_optimizer(kSmallest);
  REQUIRE(measured.ok());
  const json shown = rates_json(measured.value());
  CHECK(shown["bench"] == "optimizer");
  CHECK(check_rates(shown) == std::set<std::string>{"AdamW", "squared norm"});
  CHECK(bytes_a_value(shown, "AdamW") == doctest::Approx(28));
  CHECK(bytes_a_value(shown, "squared norm") == doctest::Approx(4));
}

TEST_CASE("a model without parameters is refused by the option's name") {
  RateBenchOptions options = kSmallest;
  options.parameters = 0;
  CHECK(bench_codec(options).error().message().find("--parameters") != std::string::npos);
  CHECK(!bench_optimizer(options).ok());
}

TEST_CASE("the limits of a machine say by what they were reached") {
  MachineSpeed machine;
  machine.threads = 2;
  machine.fp32 = 2e11;
  machine.fp32_loop = "fma";
  machine.copy = 3e10;
  const json shown = limits_json(machine);
  CHECK(shown["bench"] == "machine");
  CHECK(shown["fp32_gflops"] == 200);
  CHECK(shown["bf16_gflops"] == 0);
  CHECK(shown["copy_gb_per_second"] == 30);
  CHECK(limits_text(machine).find("200.0 GFLOP/s in fp32 (fma)") != std::string::npos);
}

}  // namespace
}  // namespace starling::peer
