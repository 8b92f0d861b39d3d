#include "gossip/sim/sim_options.h"

#include "base/rng.h"

namespace starling::gossip {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Duration between(Rng& rng, Duration least, Duration most) {
  const auto width = static_cast<std::uint64_t>((most - least).count());
  return least + Duration(static_cast<Duration::rep>(rng.below(width + 1)));
}

std::uint32_t between(Rng& rng, std::uint32_t least, std::uint32_t most) {
  return least + static_cast<std::uint32_t>(rng.below(most - least + 1));
}

bool on(Rng& rng) { return rng.chance(0.5); }

GossipConfig draw_config(Rng& rng) {
  GossipConfig config;
  config.ping_interval = between(rng, milliseconds(500), milliseconds(2000));
  config.suspect_after = 4 * config.ping_interval;
  config.dead_after = 6 * config.ping_interval;
  config.redial_interval = between(rng, seconds(2), seconds(5));
  config.initiated_max = between(rng, 1, 2);
  config.accepted_max = between(rng, 1, 3);
  config.window = static_cast<std::uint16_t>(between(rng, 1, 4));
  config.attempts_max = static_cast<std::uint8_t>(between(rng, 1, 3));
  config.partners_tried_max = between(rng, 1, 3);
  config.offer_timeout = between(rng, seconds(1), seconds(4));
  config.stripe_timeout = between(rng, seconds(2), seconds(6));
  config.silence_min = between(rng, milliseconds(200), milliseconds(2000));
  config.query_after = between(rng, seconds(1), seconds(5));
  config.commit_retry = between(rng, milliseconds(300), milliseconds(1000));
  // Scaled down, so that giving up happens within a run; their order is what matters.
  config.responder_gives_up = between(rng, seconds(3), seconds(30));
  config.initiator_gives_up = config.responder_gives_up * 3 / 2;
  config.newcomer_tokens = 1000 * between(rng, 1, 10);
  return config;
}

void draw_message_faults(Rng& rng, SimFaults& faults) {
  if (on(rng)) faults.loss = 0.3 * rng.unit() * rng.unit();
  if (on(rng)) faults.duplication = 0.3 * rng.unit();
  if (on(rng)) faults.lasting = rng.unit();
  faults.reordering = on(rng);
  if (on(rng)) {
    faults.delay_spike = 0.05 * rng.unit();
    faults.spike_max = between(rng, seconds(1), seconds(30));
  }
  if (on(rng)) faults.bulk_time = between(rng, milliseconds(1), milliseconds(500));
  if (on(rng)) faults.uplink_spread = 1 + 9 * rng.unit();
  if (on(rng)) {
    faults.clogs_every = between(rng, seconds(15), seconds(60));
    faults.clog_length = between(rng, seconds(1), seconds(40));
  }
  if (on(rng)) faults.breaks_every = between(rng, milliseconds(100), seconds(5));
  if (on(rng)) {
    faults.partitions_every = between(rng, seconds(10), seconds(40));
    faults.partition_length = between(rng, seconds(1), seconds(45));
  }
}

void draw_process_faults(Rng& rng, SimFaults& faults) {
  if (on(rng)) faults.mixer_refusal = 0.1 * rng.unit();
  if (on(rng)) faults.spurious_deadline = 0.1 * rng.unit();
  if (on(rng)) {
    faults.crashes_every = between(rng, seconds(1), seconds(15));
    faults.restart_after = between(rng, milliseconds(100), seconds(8));
    faults.crash_for_good = on(rng) ? 0.2 : 0;
  }
  if (on(rng)) {
    faults.pauses_every = between(rng, seconds(1), seconds(10));
    faults.pause_length = between(rng, milliseconds(100), seconds(20));
  }
  if (on(rng)) faults.leaves_every = between(rng, seconds(5), seconds(30));
  if (on(rng)) faults.regions_every = between(rng, seconds(20), seconds(90));
  if (on(rng)) faults.clock_drift = 0.05 * rng.unit();
  if (on(rng)) faults.starved = 0.3 * rng.unit();
  faults.late_joins = on(rng);
  faults.stranger = on(rng);
}

void draw_nat(Rng& rng, SimFaults& faults) {
  if (!rng.chance(0.35)) return;
  faults.nat = 0.6 * rng.unit();
  if (on(rng)) faults.rebinds_every = between(rng, seconds(2), seconds(30));
}

// Half of the swarms fetch the state of others before they train.
void draw_states(Rng& rng, SimOptions& options) {
  StateConfig& state = options.config.state;
  options.fetch_states = on(rng);
  if (!options.fetch_states) return;
  state.moments = on(rng);
  state.donors_max = between(rng, 1, 4);
  state.serve_max = between(rng, 1, 3);
  state.wait = between(rng, seconds(1), seconds(5));
  state.patience = between(rng, seconds(10), seconds(60));
  if (on(rng)) options.common_spread = 100 * options.initial_spread;  // donors are near each other
  if (on(rng)) options.faults.disk_failure = 0.005 * rng.unit();
}

void draw_hostile(Rng& rng, SimOptions& options) {
  if (!rng.chance(0.25)) return;
  options.faults.hostile = 0.2 * rng.unit();
  options.faults.hostile_seeds = on(rng);
  if (options.clip_radius == 0) {
    options.clip_radius = static_cast<float>(between(rng, 1000, 300'000));
  }
}

}  // namespace

SimOptions SimOptions::draw(std::uint64_t seed) {
  Rng rng = Rng(seed).fork(0x0D);
  SimOptions options;
  options.seed = seed;
  options.config = draw_config(rng);
  options.latency = between(rng, milliseconds(1), milliseconds(200));
  options.mixer_delay = between(rng, milliseconds(1), milliseconds(100));
  options.publish_every = between(rng, milliseconds(500), milliseconds(2000));
  options.cut_every = between(rng, seconds(3), seconds(20));
  if (on(rng)) options.clip_radius = static_cast<float>(between(rng, 1000, 300'000));
  options.stripes.clear();
  for (std::uint32_t left = between(rng, 1, 4); left > 0; --left) {
    options.stripes.push_back(between(rng, 1, 5));
  }
  options.faulty_time = between(rng, seconds(60), seconds(180));
  draw_message_faults(rng, options.faults);
  draw_process_faults(rng, options.faults);
  draw_nat(rng, options.faults);
  draw_hostile(rng, options);
  if (options.faults.nat > 0 && on(rng)) options.faults.volunteers = rng.unit();
  if (on(rng)) options.faults.corruption = 0.001 * rng.unit();
  draw_states(rng, options);
  return options;
}

}  // namespace starling::gossip
