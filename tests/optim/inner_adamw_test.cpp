#include "optim/inner_adamw.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "optim/cpu_flat_ops.h"
#include "tests/support/worst.h"

namespace starling::optim {

static_assert(!std::is_copy_constructible_v<InnerAdamW>);

namespace {

DeviceSpan<float> on_device(std::vector<float>& values) { return {values.data(), values.size()}; }
DeviceSpan<const float> on_device(const std::vector<float>& values) {
  return {values.data(), values.size()};
}

// The textbook, in double, one parameter at a time.
struct Reference {
  double moment1 = 0.0;
  double moment2 = 0.0;

  double step(double param, double gradient, double rate, double decay, int number) {
    moment1 = 0.9 * moment1 + 0.1 * gradient;
    moment2 = 0.95 * moment2 + 0.05 * gradient * gradient;
    const double unbiased1 = moment1 / (1.0 - std::pow(0.9, number));
    const double unbiased2 = moment2 / (1.0 - std::pow(0.95, number));
    return param - rate * decay * param - rate * unbiased1 / (std::sqrt(unbiased2) + 1e-8);
  }
};

// Returns the norm.
float take_step(InnerAdamW& adamw, int number, float rate, std::vector<float>& params,
                const std::vector<float>& gradients) {
  adamw.step(static_cast<std::uint64_t>(number), rate, {on_device(params), on_device(gradients)});
  return adamw.norm();
}

double norm_of(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("AdamW gives PyTorch's numbers") {
  // Printed by scripts/make_adamw_goldens.py (torch 1.13.1); the formulas are repeated there.
  const std::vector<float> params_golden = {-0.355359733f, -0.290866137f, -0.0767719299f,
                                            0.0160319116f, 0.143280715f,  0.195504591f,
                                            0.447322339f,  0.470849603f};
  const std::vector<float> moment1_golden = {-0.029525293f,  0.0585420616f,   -0.0534398071f,
                                             0.0117085939f,  -0.00456912676f, 0.067146346f,
                                             -0.0514025986f, 0.00203030277f};
  const std::vector<float> moment2_golden = {0.0222011227f, 0.0266989358f, 0.037898384f,
                                             0.028336633f,  0.0229803789f, 0.0356145129f,
                                             0.0329757333f, 0.0209195931f};
  const std::vector<float> norms_golden = {1.62018526f,  0.916429877f, 1.67238593f,
                                           0.836192966f, 1.83285975f,  0.810092568f};
  CpuDevice device;
  ThreadTeam team(1);
  const auto ops = make_cpu_flat_ops(team);
  const std::vector<DecayRange> ranges = {{0, 5, true}, {5, 3, false}};
  auto created = InnerAdamW::create({}, 8, ranges, device, *ops);
  REQUIRE(created.ok());
  InnerAdamW& adamw = created.value();
  std::vector<float> params(8);
  std::vector<float> gradients(8);
  for (int i = 0; i < 8; ++i) params[i] = static_cast<float>(i - 3) / 8.0f;
  for (int step = 1; step <= 6; ++step) {
    for (int i = 0; i < 8; ++i) {
      const float scale = step % 2 == 1 ? 8.0f : 16.0f;
      gradients[i] = static_cast<float>((step * 7 + i * 5) % 17 - 8) / scale;
    }
    const float rate = 0.0078125f * static_cast<float>(step);
    const float norm = take_step(adamw, step, rate, params, gradients);
    CHECK(norm == doctest::Approx(norms_golden[step - 1]).epsilon(1e-6));
  }
  // PyTorch adds 1e-6 to the norm before it divides; hence not closer.
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(params[i] == doctest::Approx(params_golden[i]).epsilon(1e-5));
    CHECK(adamw.first_moment().data[i] == doctest::Approx(moment1_golden[i]).epsilon(1e-5));
    CHECK(adamw.second_moment().data[i] == doctest::Approx(moment2_golden[i]).epsilon(1e-5));
  }
}

TEST_CASE("AdamW follows the textbook in double precision") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const std::size_t elements = 1 + rng.below(300);
    const std::size_t decayed = rng.below(elements + 1);
    CpuDevice device;
    ThreadTeam team(1);
    const auto ops = make_cpu_flat_ops(team);
    const std::vector<DecayRange> ranges = {{0, decayed, true},
                                            {decayed, elements - decayed, false}};
    auto created = InnerAdamW::create({}, elements, ranges, device, *ops);
    REQUIRE(created.ok());
    std::vector<float> params(elements);
    std::vector<float> gradients(elements);
    std::vector<Reference> references(elements);
    for (float& param : params) param = rng.normal();
    std::vector<double> expected(params.begin(), params.end());
    double worst = 0.0;
    for (int step = 1; step <= 20; ++step) {
      for (float& gradient : gradients) gradient = 0.1f * rng.normal();
      const double clip = std::min(1.0, 1.0 / norm_of(gradients));
      const float norm = take_step(created.value(), step, 1e-2f, params, gradients);
      CHECK(norm == doctest::Approx(norm_of(gradients)).epsilon(1e-6));
      for (std::size_t i = 0; i < elements; ++i) {
        const double decay = i < decayed ? 0.1 : 0.0;
        expected[i] = references[i].step(expected[i], clip * gradients[i], 1e-2, decay, step);
        testing::note_worst(worst, std::abs(expected[i] - params[i]));
      }
    }
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("gradients below the clip norm are left alone and larger ones have its direction") {
  CHECK(clip_scale(0.25f, 1.0f) == 1.0f);
  CHECK(clip_scale(1.0f, 1.0f) == 1.0f);
  CHECK(clip_scale(16.0f, 1.0f) == 0.25f);
  CHECK(clip_scale(16.0f, 0.0f) == 1.0f);
  CHECK(clip_scale(0.0f, 1.0f) == 1.0f);
}

TEST_CASE("a gradient that is not finite changes nothing and shows in the norm") {
  const float bad_values[] = {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(), 3e38f};
  for (const float bad : bad_values) {
    CAPTURE(bad);
    CpuDevice device;
    ThreadTeam team(1);
    const auto ops = make_cpu_flat_ops(team);
    const std::vector<DecayRange> ranges = {{0, 2, true}};
    auto created = InnerAdamW::create({}, 2, ranges, device, *ops);
    REQUIRE(created.ok());
    std::vector<float> params = {1.0f, 2.0f};
    take_step(created.value(), 1, 0.1f, params, {0.1f, 0.2f});
    const std::vector<float> before = params;
    const float moment = created.value().first_moment().data[1];
    const float norm = take_step(created.value(), 2, 0.1f, params, {0.1f, bad});
    CHECK(!std::isfinite(norm));
    CHECK(params == before);
    CHECK(created.value().first_moment().data[1] == moment);
  }
}

TEST_CASE("every number of threads computes the same bits") {
  const std::size_t elements = 300001;
  Rng rng(11);
  std::vector<float> gradients(elements);
  std::vector<float> start(elements);
  for (float& gradient : gradients) gradient = rng.normal();
  for (float& param : start) param = rng.normal();
  std::vector<float> first_params;
  float first_norm = 0.0f;
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    CpuDevice device;
    ThreadTeam team(threads);
    const auto ops = make_cpu_flat_ops(team);
    const std::vector<DecayRange> ranges = {{0, 1000, false}, {1000, elements - 1000, true}};
    auto created = InnerAdamW::create({}, elements, ranges, device, *ops);
    REQUIRE(created.ok());
    std::vector<float> params = start;
    const float norm = take_step(created.value(), 1, 1e-3f, params, gradients);
    if (threads == 1) {
      first_params = params;
      first_norm = norm;
      CHECK(norm == doctest::Approx(norm_of(gradients)).epsilon(1e-6));
    }
    CHECK(params == first_params);
    CHECK(norm == first_norm);
  }
}

TEST_CASE("the parameters of each range decay as it says, and empty ranges change nothing") {
  CpuDevice device;
  ThreadTeam team(2);
  const auto ops = make_cpu_flat_ops(team);
  const std::vector<std::vector<DecayRange>> cases = {
      {{0, 20, true}},
      {{0, 20, false}},
      {{0, 0, false}, {0, 20, true}},
      {{0, 3, false}, {3, 1, true}, {4, 0, false}, {4, 9, true}, {13, 7, false}},
      {{0, 1, true}, {1, 1, false}, {2, 1, true}, {3, 16, false}, {19, 1, true}}};
  for (const std::vector<DecayRange>& ranges : cases) {
    auto created = InnerAdamW::create({}, 20, ranges, device, *ops);
    REQUIRE(created.ok());
    std::vector<float> params(20, 2.0f);
    // Gradients of zero: decay alone moves the parameters.
    created.value().step(1, 0.5f, {on_device(params), on_device(std::vector<float>(20))});
    for (const DecayRange& range : ranges) {
      for (std::size_t i = range.first; i < range.first + range.count; ++i) {
        CAPTURE(i);
        CHECK(params[i] == (range.decays ? 1.9f : 2.0f));
      }
    }
  }
}

TEST_CASE("element-wise operations reach every element of ranges of any size") {
  for (const std::size_t size : {0U, 1U, 17U, 4096U, 70000U, 1100001U}) {
    CAPTURE(size);
    ThreadTeam team(2);
    const auto ops = make_cpu_flat_ops(team);
    std::vector<float> target(size, 7.0f);
    std::vector<float> source(size, 3.0f);
    ops->fill(Lane::kCompute, on_device(target), 1.0f);
    ops->add_scaled(Lane::kCompute, on_device(target), 0.5f, {source.data(), source.size()}, {});
    CHECK(target == std::vector<float>(size, 2.5f));
    std::vector<float> norm(1, -1.0f);
    ops->squared_norm(Lane::kCompute, on_device(norm), {target.data(), target.size()});
    CHECK(norm[0] == doctest::Approx(6.25 * static_cast<double>(size)));
  }
}

TEST_CASE("an unusable optimizer configuration is refused with its reason") {
  CpuDevice device;
  ThreadTeam team(1);
  const auto ops = make_cpu_flat_ops(team);
  const auto refused = [&](const InnerConfig& config, const std::vector<DecayRange>& ranges) {
    auto created = InnerAdamW::create(config, 8, ranges, device, *ops);
    return created.ok() ? std::string() : std::move(created).error().message();
  };
  const std::vector<DecayRange> whole = {{0, 8, true}};
  CHECK(refused({}, whole).empty());
  CHECK(refused({.beta1 = 1.0f}, whole) == "beta1 must be in [0, 1)");
  CHECK(refused({.beta2 = -0.1f}, whole) == "beta2 must be in [0, 1)");
  CHECK(refused({.epsilon = 0.0f}, whole) == "epsilon must be positive");
  CHECK(refused({.weight_decay = -1.0f}, whole) == "weight_decay must not be negative");
  CHECK(refused({.clip_norm = std::nanf("")}, whole) == "clip_norm must not be negative");
  CHECK(!refused({}, {{0, 4, true}}).empty());
  CHECK(!refused({}, {{0, 4, true}, {5, 3, true}}).empty());
  CHECK(!refused({}, {{0, 9, true}}).empty());
}

TEST_CASE("the state of the optimizer is two floats per parameter") {
  CpuDevice device;
  ThreadTeam team(1);
  const auto ops = make_cpu_flat_ops(team);
  const std::vector<DecayRange> ranges = {{0, 1000, true}};
  auto created = InnerAdamW::create({}, 1000, ranges, device, *ops);
  REQUIRE(created.ok());
  CHECK(created.value().first_moment().size == 1000);
  CHECK(created.value().second_moment().size == 1000);
}

}  // namespace starling::optim
