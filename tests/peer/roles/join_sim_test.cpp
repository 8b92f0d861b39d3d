// Newcomers in a swarm that has trained, on one thread and in virtual time: real trainers, mixers,
// cores, checkpoints and fetched files; no sockets, no clock.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/peer/scratch_folder.h"
#include "tests/support/pumped_swarm.h"
#include "tests/support/worst.h"

namespace starling::peer {

namespace {

using gossip::JoinOutcome;
using gossip::JoinStep;
using testing::PumpedOptions;
using testing::PumpedSwarm;
using testing::small_swarm;

constexpr std::uint64_t kSteps = 400;

PumpedOptions trained_swarm(std::uint64_t seed, const ScratchFolder& folder) {
  PumpedOptions options = small_swarm(seed);
  options.steps = kSteps;
  options.trainer.model.layers = 5;
  options.fragments = 6;  // as many stripes
  options.trainer.fragments.fragments = options.fragments;
  options.states = folder.path();
  options.trainer.checkpoint_every_steps = 50;
  options.trainer.schedule.local_warmup_steps = 20;
  options.outer.gain = 1;  // outer steps that grow meanwhile are no newcomer's doing
  options.gossip.newcomer_tokens = 1000;
  options.gossip.suspect_after = std::chrono::seconds(1);
  options.gossip.dead_after = std::chrono::seconds(1);
  options.gossip.state.wait = std::chrono::seconds(5);
  return options;
}

std::size_t count(const std::vector<gossip::JoinEvent>& events, JoinStep step) {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(),
                    [step](const gossip::JoinEvent& event) { return event.step == step; }));
}

struct Looks {
  float mean = 0, worst = 0;

  Looks& operator+=(const Looks& other) {
    mean += other.mean;
    worst += other.worst;
    return *this;
  }
};

// Pumps `steps` steps of the first peer and looks every ten steps at the validation losses of the
// first four.
Looks look(PumpedSwarm& swarm, std::uint64_t steps) {
  Looks looks;
  float count = 0;
  const std::uint64_t end = swarm.trainer(0).progress().steps + steps;
  for (std::uint64_t at = swarm.trainer(0).progress().steps; at < end; at += 10) {
    swarm.pump_until(at + 10);
    for (std::uint32_t p = 0; p < 4; ++p, ++count) {
      const float loss = swarm.trainer(p).validate();
      looks.mean += loss;
      testing::note_worst(looks.worst, loss);
    }
  }
  looks.mean /= count;
  return looks;
}

float worst_loss(PumpedSwarm& swarm, std::uint64_t steps) { return look(swarm, steps).worst; }

// Exchanges that the first four have completed.
double exchanges(PumpedSwarm& swarm) {
  double sum = 0;
  for (std::uint32_t p = 0; p < 4; ++p) {
    sum += static_cast<double>(swarm.core(p).stats().exchanges_completed);
  }
  return sum;
}

// Measured over kSwarms seeds: beside a newcomer the losses are 0.98 of those of the same swarm
// that nobody joins, beside one that pulls at full weight from where it began 1.02. Its donors make
// 0.98 of their exchanges; a single swarm scatters by 0.04.
constexpr std::uint64_t kSwarms = 6;
constexpr float kUndisturbed = 1.01F;

}  // namespace

TEST_CASE("a newcomer starts at the swarm's loss, without weight, and nobody's loss jumps") {
  for (const bool moments : {true, false}) {
    CAPTURE(moments);
    Looks usual, during, after;  // sums
    double met = 0;              // exchanges per step over those of the control
    for (std::uint64_t seed = 1; seed <= kSwarms; ++seed) {
      CAPTURE(seed);
      ScratchFolder folder;
      PumpedOptions options = trained_swarm(seed, folder);
      options.gossip.state.moments = moments;
      PumpedSwarm control(options);  // the same swarm, which nobody joins
      control.pump_until(180);
      const double before = exchanges(control);
      const Looks calm = look(control, 60);
      const double each_step = (exchanges(control) - before) / 60;
      PumpedSwarm swarm(options);
      swarm.pump_until(180);
      const double then = exchanges(swarm);
      const std::uint32_t newcomer = swarm.join(200);
      swarm.pump_until([&] { return !swarm.joined(newcomer).ended.empty(); });
      REQUIRE(swarm.joined(newcomer).ended.size() == 1);
      CHECK(swarm.joined(newcomer).ended[0].outcome == JoinOutcome::kFetched);
      CHECK(count(swarm.joined(newcomer).events, JoinStep::kDonorFound) >= 2);
      CHECK(swarm.core(newcomer).weight() == 0);
      CHECK(swarm.trainer(newcomer).validate() < 1.02F * calm.worst);
      CHECK(swarm.trainer(newcomer).progress().tokens <= 64);  // the step it may have done
      const Looks joining = look(swarm, 60);
      const auto steps = static_cast<double>(swarm.trainer(0).progress().steps - 180);
      met += (exchanges(swarm) - then) / steps / each_step;
      swarm.pump_until([&] { return swarm.core(newcomer).weight() == 1; });
      const Looks joined = look(swarm, 40);
      CHECK(swarm.trainer(newcomer).validate() < 1.02F * calm.worst);
      CHECK(swarm.core(newcomer).weight() == 1);
      usual += calm;
      during += joining;
      after += joined;
    }
    MESSAGE("losses over an undisturbed swarm's: during the join "
            << during.mean / usual.mean << ", after it " << after.mean / usual.mean
            << "; exchanges of its donors over those of the other swarm: " << met / kSwarms);
    CHECK(met > 0.93 * kSwarms);
    CHECK(during.mean < kUndisturbed * usual.mean);
    CHECK(after.mean < kUndisturbed * usual.mean);
    // Not by swarm: in 180 that nobody joins two looks are 1.6 times the mean of theirs.
    CHECK(during.worst < 1.25F * usual.worst);
    CHECK(after.worst < 1.25F * usual.worst);
  }
}

TEST_CASE("one that begins anew beside a trained swarm and has full weight is seen in its losses") {
  float usual = 0, during = 0;
  for (std::uint64_t seed = 1; seed <= kSwarms; ++seed) {
    ScratchFolder folder;
    PumpedOptions options = trained_swarm(seed, folder);
    options.gossip.newcomer_tokens = std::uint64_t{1} << 50;  // nobody is ever far behind
    PumpedSwarm control(options);
    control.pump_until(180);
    usual += look(control, 60).mean;
    PumpedSwarm swarm(options);
    swarm.pump_until(180);
    const std::uint32_t newcomer = swarm.join(200);
    during += look(swarm, 60).mean;
    CHECK(swarm.core(newcomer).weight() == 1);
  }
  MESSAGE("losses over an undisturbed swarm's: " << during / usual);
  CHECK(during > kUndisturbed * usual);
}

TEST_CASE("donors that die in the middle are replaced, and the newcomer starts as well") {
  for (std::uint64_t seed = 2; seed <= 4; ++seed) {
    CAPTURE(seed);
    ScratchFolder folder;
    PumpedSwarm swarm(trained_swarm(seed, folder));
    swarm.pump_until(150);
    const float before = worst_loss(swarm, 10);
    const std::uint32_t newcomer = swarm.join(100);
    swarm.pump_until([&] { return swarm.core(newcomer).join_progress().pieces > 0; });
    REQUIRE(swarm.joined(newcomer).ended.empty());
    swarm.kill(1);
    swarm.kill(2);
    swarm.pump_until([&] { return !swarm.joined(newcomer).ended.empty(); });
    REQUIRE(swarm.joined(newcomer).ended.size() == 1);
    CHECK(swarm.joined(newcomer).ended[0].outcome == JoinOutcome::kFetched);
    CHECK(swarm.trainer(newcomer).validate() < 1.05F * before);
  }
}

TEST_CASE("a donor whose pieces are forged gives nothing to anybody's weights") {
  ScratchFolder folder;
  PumpedOptions options = trained_swarm(5, folder);
  options.tamper = [](std::uint32_t from, gossip::Message& message,
                      std::vector<std::byte>& payload) {
    const auto* piece = std::get_if<gossip::Piece>(&message);
    const bool forged = from == 1 && piece != nullptr && piece->piece < gossip::kManifestPiece;
    if (forged) std::fill(payload.begin(), payload.end(), std::byte{0x3F});
    return true;
  };
  PumpedSwarm swarm(options);
  swarm.pump_until(150);
  const float before = worst_loss(swarm, 10);
  const std::uint32_t newcomer = swarm.join(100);
  swarm.pump_until([&] { return !swarm.joined(newcomer).ended.empty(); });
  REQUIRE(swarm.joined(newcomer).ended.size() == 1);
  CHECK(swarm.joined(newcomer).ended[0].outcome == JoinOutcome::kFetched);
  CHECK(count(swarm.joined(newcomer).events, JoinStep::kDonorWrong) == 1);
  CHECK(swarm.trainer(newcomer).validate() < 1.05F * before);
}

TEST_CASE("a donor that vouches for weights that are not the swarm's is outvoted") {
  ScratchFolder folder;
  PumpedOptions options = trained_swarm(6, folder);
  options.tamper = [](std::uint32_t from, gossip::Message& message, std::vector<std::byte>&) {
    auto* offer = std::get_if<gossip::StateOffer>(&message);
    if (from == 1 && offer != nullptr) {
      for (float& value : offer->sketch.values) value += 100;
    }
    return true;
  };
  PumpedSwarm swarm(options);
  swarm.pump_until(150);
  const float before = worst_loss(swarm, 10);
  const std::uint32_t newcomer = swarm.join(100);
  swarm.pump_until([&] { return !swarm.joined(newcomer).ended.empty(); });
  REQUIRE(swarm.joined(newcomer).ended.size() == 1);
  CHECK(swarm.joined(newcomer).ended[0].outcome == JoinOutcome::kFetched);
  CHECK(count(swarm.joined(newcomer).events, JoinStep::kDonorDisagrees) >= 1);
  CHECK(swarm.trainer(newcomer).validate() < 1.05F * before);
}

TEST_CASE("a donor's optimizer state moves no newcomer's weights, however well it is vouched for") {
  ScratchFolder folder;
  PumpedOptions options = trained_swarm(8, folder);
  options.forge_state = [](std::uint32_t from, CheckpointImage& image) {
    if (from != 1) return;
    std::fill(image.first_moment.begin(), image.first_moment.end(), 1e20F);
    std::fill(image.second_moment.begin(), image.second_moment.end(), 0.0F);
    std::fill(image.momentum.begin(), image.momentum.end(), 1e10F);
  };
  PumpedSwarm swarm(options);
  swarm.pump_until(150);
  const float before = worst_loss(swarm, 10);
  const std::uint32_t newcomer = swarm.join(100);
  swarm.pump_until([&] { return !swarm.joined(newcomer).ended.empty(); });
  REQUIRE(swarm.joined(newcomer).ended.size() == 1);
  CHECK(swarm.joined(newcomer).ended[0].outcome == JoinOutcome::kFetched);
  CHECK(count(swarm.joined(newcomer).events, JoinStep::kDonorFound) == 4);
  swarm.pump_until([&] { return swarm.trainer(newcomer).progress().batches >= 30; });
  CHECK(swarm.trainer(newcomer).validate() < 1.05F * before);
}

TEST_CASE(
    "a swarm of newcomers trains at once, and one whose donors have no checkpoint after all") {
  ScratchFolder folder;
  PumpedOptions options = trained_swarm(7, folder);
  options.trainer.checkpoint_every_steps = 0;
  options.gossip.state.patience = std::chrono::seconds(5);
  PumpedSwarm swarm(options);
  const std::uint32_t early = swarm.join(50);
  swarm.pump_until([&] { return !swarm.joined(early).ended.empty(); });
  CHECK(swarm.joined(early).ended[0].outcome == JoinOutcome::kNotBehind);
  CHECK(swarm.trainer(0).progress().steps < 60);
  swarm.pump_until(150);
  const std::uint32_t late = swarm.join(50);
  swarm.pump_until([&] { return !swarm.joined(late).ended.empty(); });
  CHECK(swarm.joined(late).ended[0].outcome == JoinOutcome::kNobodyServes);
  swarm.run(std::chrono::seconds(20));
  CHECK(swarm.trainer(late).progress().steps == 50);
}

}  // namespace starling::peer
