#include "peer/bench/bench_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "model/param_layout.h"
#include "peer/bench/bench_text.h"

namespace starling::peer {
namespace {

using nlohmann::json;

StepBenchOptions smallest() {
  return {.overrides = {"model.width=16", "model.heads=2", "model.kv_heads=1", "model.ffn=24",
                        "model.layers=2", "batch.sequences=2", "batch.tokens=8",
                        "device.compute=\"fp32\""},
          .threads = 1,
          .seconds = 0.01,
          .copy_bytes = std::size_t{1} << 20};
}

bool about(double value, double expected) {
  return std::abs(value - expected) <= 1e-9 * std::abs(expected);
}

TEST_CASE("a step's figures are complete and fit together") {
  auto measured = bench_step(smallest());
  REQUIRE(measured.ok());
  const json shown = step_json(measured.value());
  CHECK(shown["bench"] == "step");
  CHECK(shown["program"].get<std::string>().starts_with("starling "));
  CHECK(shown["compute"] == "fp32");
  CHECK(shown["threads"] == 1);
  CHECK(shown["shape"] == "tiny");
  CHECK(shown["model"]["width"] == 16);
  CHECK(shown["batch"]["tokens"] == 8);
  CHECK(shown["parameters"] == 256 * 16 + 2 * (16 * 32 + 16 * 16 + 3 * 16 * 24 + 2 * 16) + 16);
  CHECK(shown["steps"] >= 3);
  CHECK(shown["warm_up_steps"] >= 2);
  CHECK(shown["peak_memory_bytes"] > 1'000'000);
  for (const char* name : {"tokens_per_second", "step_ms"}) {
    CHECK(shown[name]["min"] <= shown[name]["median"]);
    CHECK(shown[name]["median"] <= shown[name]["max"]);
    CHECK(shown[name]["min"] > 0);
  }
  const double speed = shown["tokens_per_second"]["median"];
  CHECK(about(speed * shown["step_ms"]["median"].get<double>(), 16 * 1e3));
  CHECK(about(shown["gflops"], speed * shown["operations_per_token"].get<double>() / 1e9));
  CHECK(about(shown["peak_share"],
              shown["gflops"].get<double>() / shown["machine"]["fp32_gflops"].get<double>()));
}

TEST_CASE("a step's operators are all there, and their times make up the step") {
  auto measured = bench_step(smallest());
  REQUIRE(measured.ok());
  const json shown = step_json(measured.value());
  double inside = shown["rest_ms_per_step"];
  double before = 1e300;
  for (const json& row : shown["operators"]) {
    CAPTURE(row.dump());
    CHECK(row["ms_per_step"] <= before);
    before = row["ms_per_step"];
    inside += before;
    CHECK(row["calls_per_step"] >= 1);
    CHECK(about(row["floor_share"].get<double>() * before, row["floor_ms_per_step"]));
  }
  CHECK(shown["operators"].size() == 20);
  CHECK(about(inside, shown["timed_step_ms"]));
  const std::string text = step_text(measured.value());
  for (const json& row : shown["operators"]) {
    CHECK(text.find("\n" + row["name"].get<std::string>() + "  ") != std::string::npos);
  }
  // The type of products once, whether the device's name has it or not.
  CHECK(text.find(measured.value().device + ", fp32\n") != std::string::npos);
  StepBench named = measured.value();
  named.device = "a device, fp32";
  CHECK(step_text(named).find(" a device, fp32\n") != std::string::npos);
  named.processors = named.threads = 2;
  named.used_by_others = 0.01;
  CHECK(step_text(named).find("busy") == std::string::npos);
  named.used_by_others = 0.5;
  CHECK(step_text(named).find("others used 0.50 of the 2 processors") != std::string::npos);
  named.threads = 1;  // which leaves the other one idle
  CHECK(step_text(named).find("busy") == std::string::npos);
  named.threads = 2;
  named.on_cpu = false;
  CHECK(step_text(named).find("busy") == std::string::npos);
}

TEST_CASE("what cannot be measured is refused with what to change") {
  StepBenchOptions options;
  options.shape = "huge";
  CHECK(bench_step(options).error().message().find("124M, 350M, 1.3B") != std::string::npos);
  options.shape = "tiny";
  options.overrides = {"model.width=7"};
  CHECK(!bench_step(options).ok());
}

TEST_CASE("the shapes have as many parameters as is said of them") {
  const auto parameters = [](std::string_view shape) {
    const PeerConfig config = parse_config(bench_shape_text(shape), "shape", {}).value();
    return model::ParamLayout::plan(config.model, config.outer.rounds.fragments).value().elements();
  };
  CHECK(parameters("tiny") == 836'736);
  CHECK(parameters("small") == 14'260'608);
  CHECK(parameters("124M") == 109'529'856);
  CHECK(parameters("350M") == 341'099'520);
  CHECK(parameters("1.3B") == 1'279'887'360);
}

TEST_CASE("a spread tells the middle and both ends") {
  CHECK(spread_of({}).median == 0);
  const Spread odd = spread_of({3, 1, 2});
  CHECK(odd.median == 2);
  CHECK(odd.least == 1);
  CHECK(odd.most == 3);
  CHECK(spread_of({4, 1, 2, 3}).median == 2.5);
}

}  // namespace
}  // namespace starling::peer
