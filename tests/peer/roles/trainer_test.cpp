// What a trainer does so that a GPU neither rounds weights twice nor waits for the next batch; and
// what it tells of the last step.
#include "peer/roles/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/device_floats.h"
#include "tests/support/far_backend.h"
#include "tests/support/layer_ops_elsewhere.h"
#include "tests/support/pattern_batches.h"
#include "tests/support/trainer_bench.h"

namespace starling::peer {

using testing::far_backend;
using testing::floats_of;
using testing::PatternBatches;
using Bench = testing::TrainerBench;

namespace {

Backend near_backend() { return make_backend("cpu", {.threads = 1}).value(); }

std::uint64_t tokens_of_a_step() {
  const model::BatchShape batch = testing::small_swarm(3).trainer.batch;
  return static_cast<std::uint64_t>(batch.sequences * batch.tokens);
}

// The steps that were told since the last look.
std::vector<StepReport> told(Bench& bench) {
  std::vector<StepReport> reports;
  while (auto report = bench.rings.trainer_to_network.try_pop()) reports.push_back(*report);
  return reports;
}

// A copy of the weights in bf16, as a GPU keeps one.
struct RoundedCopy {
  DeviceSpan<const float> weights;
  std::vector<bf16> rounded;
  int made = 0;
  bool was_right = true;
  bool is_told = true;  // where it is

  void make(DeviceSpan<const float> of) {
    weights = of;
    rounded.resize(of.size);
    std::transform(of.data, of.data + of.size, rounded.begin(), to_bf16);
    ++made;
  }
  void check() {
    for (std::size_t i = 0; i < rounded.size(); ++i) {
      was_right = was_right && rounded[i].bits == to_bf16(weights.data[i]).bits;
    }
  }
};

// The CPU's operations, each of which looks whether the copy is that of the weights.
class RoundingCall {
 public:
  explicit RoundingCall(RoundedCopy& copy) : copy_(&copy) {}

  void use_weights(Lane lane, model::LayerOps& ops, DeviceSpan<const float> weights) {
    ops.use_weights(lane, weights);
    copy_->make(weights);
  }
  DeviceSpan<bf16> rounded_weights(model::LayerOps&, DeviceSpan<const float> weights) {
    if (copy_->weights.data != weights.data || !copy_->is_told) return {};
    return {copy_->rounded.data(), copy_->rounded.size()};
  }
  template <class Args, class Visit, class Run>
  void operator()(Lane lane, const Args& args, const Visit&, const Run& run) {
    copy_->check();
    run(lane, args);
  }

 private:
  RoundedCopy* copy_;  // never null
};

Backend rounding_backend(RoundedCopy& copy) {
  Backend backend = near_backend();
  backend.layers = std::make_unique<testing::LayerOpsElsewhere<RoundingCall>>(
      RoundingCall(copy), std::move(backend.layers));
  return backend;
}

// Batches that follow from the position, as those of a data set do.
class PlacedBatches final : public TokenSource {
 public:
  void training_batch(std::uint64_t, std::span<std::int32_t> inputs,
                      std::span<std::int32_t> targets) override {
    pattern_.training_batch(drawn++, inputs, targets);
  }
  void save(DataPosition& position) const override { position.drawn = drawn; }
  std::int64_t validation_batches() const override { return pattern_.validation_batches(); }
  void validation_batch(std::int64_t index, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) override {
    pattern_.validation_batch(index, inputs, targets);
  }

  std::uint64_t drawn = 0;

 private:
  PatternBatches pattern_{7};
};

struct PlacedBench {
  explicit PlacedBench(Backend backend, std::uint64_t tokens_budget = 1 << 20)
      : PlacedBench(std::move(backend), std::make_unique<PlacedBatches>(), tokens_budget) {}

  std::uint64_t ahead() const { return source.drawn - bench.trainer->progress().batches; }

  PlacedBatches& source;
  Bench bench;

 private:
  PlacedBench(Backend backend, std::unique_ptr<PlacedBatches> batches, std::uint64_t tokens_budget)
      : source(*batches), bench(std::move(backend), false, std::move(batches), tokens_budget) {}
};

}  // namespace

TEST_CASE("AdamW and corrections keep the model's rounded weights") {
  RoundedCopy copy;
  Bench bench(rounding_backend(copy), true), plain(near_backend(), true);
  int expected = copy.made + 1;
  const auto check_steps = [&] {
    for (int i = 0; i < 4; ++i) bench.step(), plain.step();
    CHECK(copy.made == expected);
    CHECK(copy.was_right);
    CHECK(bench.losses == plain.losses);
    CHECK(bench.weights() == plain.weights());  // which lets who asks write to them
    ++expected;
  };
  check_steps();
  check_steps();
  bench.correct(1, 1e-3F), plain.correct(1, 1e-3F);
  check_steps();
  CHECK(bench.trainer->validate() == plain.trainer->validate());
  expected += static_cast<int>(bench.source->validation_batches());
  check_steps();

  CheckpointImage image(bench.layout.elements(), true);
  bench.trainer->copy_into(image);
  bench.step(), plain.step();  // makes it for whoever wrote
  CHECK(copy.made == expected);
  bench.step(), plain.step();
  bench.correct(0, 1e-3F), plain.correct(0, 1e-3F);
  bench.step(), plain.step();
  CHECK(copy.made == expected);
  CHECK(copy.was_right);
  for (Bench* each : {&bench, &plain}) each->trainer->restore(image);
  ++expected;
  check_steps();
  CHECK(bench.applied > 0);
}

TEST_CASE("rounded weights of a step that is not finite stay those of the weights") {
  RoundedCopy copy;
  Bench bench(rounding_backend(copy), false);
  bench.step();
  const int before = copy.made;
  bench.correct(0, std::numeric_limits<float>::quiet_NaN());
  for (int i = 0; i < 3; ++i) bench.step();
  CHECK(!std::isfinite(bench.norms.back()));
  CHECK(copy.made == before);
  CHECK(copy.was_right);
}

TEST_CASE("weights whose rounded copy nobody can keep are rounded at every step") {
  RoundedCopy copy;
  copy.is_told = false;
  Bench bench(rounding_backend(copy), false);
  const int before = copy.made;
  for (int i = 0; i < 3; ++i) bench.step();
  CHECK(copy.made == before + 3);
  CHECK(copy.was_right);
}

TEST_CASE("first weights of another origin are rounded anew") {
  RoundedCopy copy;
  Bench bench(rounding_backend(copy), false);
  bench.step();
  const int before = copy.made;
  bench.trainer->start_from(std::vector<float>(bench.layout.elements(), 0.01F));
  bench.step();
  CHECK(copy.made == before + 1);
  CHECK(copy.was_right);
}

TEST_CASE("the next batch is made while a device computes, and checkpoints know nothing of it") {
  PlacedBench near(near_backend());
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    PlacedBench far(far_backend(seed));
    CheckpointImage image(far.bench.layout.elements(), false);
    int ahead = 0;
    for (int i = 0; i < 20; ++i) {
      far.bench.step();
      CHECK(far.ahead() <= 1);
      if (far.ahead() == 1) ++ahead;
      far.bench.trainer->copy_into(image);
      CHECK(image.data.drawn == far.bench.trainer->progress().batches);
      if (i == 10) far.bench.trainer->validate();  // which has batches of its own
    }
    CHECK(ahead > 10);
    while (near.bench.losses.size() < far.bench.losses.size()) near.bench.step();
    CHECK(near.ahead() == 0);
    CHECK(far.bench.losses == near.bench.losses);
  }
}

TEST_CASE("a batch that was made ahead is not used after a restore") {
  PlacedBench far(far_backend(4));
  Bench& bench = far.bench;
  for (int i = 0; i < 5; ++i) bench.step();
  CheckpointImage image(bench.layout.elements(), false);
  bench.trainer->copy_into(image);
  bench.backend.device->drain();
  for (int i = 0; i < 5; ++i) bench.step();
  const std::vector<float> losses = std::exchange(bench.losses, {});
  // Its index is that of the next batch, but the source says which one that is.
  image.progress.batches = bench.trainer->progress().batches;
  bench.trainer->restore(image);
  far.source.drawn = image.data.drawn;
  for (int i = 0; i < 5; ++i) bench.step();
  CHECK(bench.losses == std::vector<float>(losses.begin() + 5, losses.end()));
}

TEST_CASE("no batch is made that nobody will train on") {
  PlacedBench far(far_backend(5), 6 * tokens_of_a_step());
  for (int i = 0; i < 8; ++i) far.bench.step();
  CHECK(far.bench.trainer->finished());
  CHECK(far.source.drawn == 6);
}

TEST_CASE("the last step is told once, behind the measurement at the end") {
  for (const bool measures : {true, false}) {  // false: a signal came
    CAPTURE(measures);
    Bench bench(near_backend(), false, std::make_unique<PatternBatches>(7), 3 * tokens_of_a_step());
    for (int i = 0; i < 5; ++i) bench.trainer->pump();
    const auto before = told(bench);
    REQUIRE(before.size() == 2);
    CHECK(before.back().step == 2);
    Flag stop;
    bench.trainer->heed(stop);
    if (!measures) stop.raise();
    const std::optional<float> measured = bench.trainer->try_validate();
    for (int i = 0; i < 2; ++i) bench.trainer->report_last_step(measured);
    const auto last = told(bench);
    REQUIRE(last.size() == 1);
    CHECK(last.front().step == 3);
    CHECK(last.front().loss == static_cast<float>(bench.metrics.loss.value()));
    CHECK(last.front().validation_loss.value_or(0) == measured.value_or(0));
    CHECK(last.front().validation_loss.has_value() == measures);
  }
}

TEST_CASE("who goes on from a checkpoint of the end tells no step again") {
  Bench ended(near_backend(), false, std::make_unique<PatternBatches>(7), 3 * tokens_of_a_step());
  for (int i = 0; i < 3; ++i) ended.trainer->pump();
  CheckpointImage image(ended.layout.elements(), false);
  ended.trainer->copy_into(image);
  ended.backend.device->drain();
  Bench again(near_backend(), false, std::make_unique<PatternBatches>(7), 3 * tokens_of_a_step());
  again.trainer->restore(image);
  again.trainer->pump();
  again.trainer->report_last_step(again.trainer->validate());
  CHECK(told(again).empty());
}

}  // namespace starling::peer
