// Newcomers in a swarm that has trained, on one thread and in virtual time: real trainers, mixers,
// cores, checkpoints and fetched files; no sockets, no clock.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/peer/scratch_folder.h"
#include "tests/support/pumped_swarm.h"

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

// Pumps `steps` steps of the first peer; the largest validation loss any of the first four has had,
// looked at every ten steps.
float worst_loss(PumpedSwarm& swarm, std::uint64_t steps) {
  float worst = 0;
  const std::uint64_t end = swarm.trainer(0).progress().steps + steps;
  for (std::uint64_t at = swarm.trainer(0).progress().steps; at < end; at += 10) {
    swarm.pump_until(at + 10);
    for (std::uint32_t p = 0; p < 4; ++p) worst = std::max(worst, swarm.trainer(p).validate());
  }
  return worst;
}

}  // namespace

// The largest losses of a few small batches are noisy: one swarm says little, the mean of several
// does. A newcomer that pulled the others to where it was would be seen in each.
TEST_CASE("a newcomer starts at the swarm's loss, without weight, and nobody's loss jumps") {
  constexpr std::uint64_t kSwarms = 4;
  for (const bool moments : {true, false}) {
    CAPTURE(moments);
    float usual = 0, during = 0, after = 0;  // sums
    for (std::uint64_t seed = 1; seed <= kSwarms; ++seed) {
      CAPTURE(seed);
      ScratchFolder folder;
      PumpedOptions options = trained_swarm(seed, folder);
      options.gossip.state.moments = moments;
      PumpedSwarm control(options);  // the same swarm, which nobody joins
      control.pump_until(150);
      const float calm = worst_loss(control, 150);
      PumpedSwarm swarm(options);
      swarm.pump_until(180);
      const std::uint32_t newcomer = swarm.join(200);
      swarm.pump_until([&] { return !swarm.joined(newcomer).ended.empty(); });
      REQUIRE(swarm.joined(newcomer).ended.size() == 1);
      CHECK(swarm.joined(newcomer).ended[0].outcome == JoinOutcome::kFetched);
      CHECK(count(swarm.joined(newcomer).events, JoinStep::kDonorFound) >= 2);
      CHECK(swarm.core(newcomer).weight() == 0);
      CHECK(swarm.trainer(newcomer).validate() < 1.02F * calm);
      CHECK(swarm.trainer(newcomer).progress().tokens <= 64);  // the step it may have done
      const float joining = worst_loss(swarm, 60);
      swarm.pump_until([&] { return swarm.core(newcomer).weight() == 1; });
      const float joined = worst_loss(swarm, 40);
      CHECK(joining < 1.25F * calm);
      CHECK(joined < 1.25F * calm);
      CHECK(swarm.trainer(newcomer).validate() < 1.02F * calm);
      CHECK(swarm.core(newcomer).weight() == 1);
      usual += calm;
      during += joining;
      after += joined;
    }
    MESSAGE("mean of the worst losses: undisturbed " << usual / kSwarms << ", during the join "
                                                     << during / kSwarms << ", after it "
                                                     << after / kSwarms);
    CHECK(during < 1.05F * usual);
    CHECK(after < 1.05F * usual);
  }
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
