#include "gossip/sim/sim_graves.h"

#include <algorithm>

namespace starling::gossip {
namespace {

// Who is silent for as long as a probe lasts that must dial, three times suspect_after, is let go;
// one begun just before may say it once more, a third of the way through: as slowly, by a peer that
// thinks itself unwell, as eight times suspect_after.
constexpr int kSilences = 12;

}  // namespace

SimGraves::SimGraves(const SimOptions& options)
    : peers_(options.peers),
      // By the slowest clock.
      silence_max_(from_seconds(kSilences * to_seconds(options.config.suspect_after) /
                                (1 - options.faults.clock_drift))),
      since_(std::size_t{options.peers} * options.peers) {}

void SimGraves::on_health(Instant now, Route route, Health health) {
  since_[at(route)] = health == Health::kDead ? now : Instant{};
}

void SimGraves::on_heard(Instant now, Route route) {
  Instant& since = since_[at(route)];
  if (since != Instant{}) since = now;
}

void SimGraves::on_started(std::uint32_t peer) {
  const auto first = since_.begin() + static_cast<std::ptrdiff_t>(at({peer, 0}));
  std::fill_n(first, peers_, Instant{});
}

void SimGraves::on_paused(std::uint32_t peer, Duration length) {
  for (std::uint32_t other = 0; other < peers_; ++other) {
    Instant& since = since_[at({peer, other})];
    if (since != Instant{}) since += length;
  }
}

bool SimGraves::long_dead(Instant now, Route route) const {
  const Instant since = since_[at(route)];
  return since != Instant{} && now - since > silence_max_;
}

bool SimGraves::may_say(Instant now, Route route, const Message& message) const {
  return is_greeting(message) || !long_dead(now, route);
}

}  // namespace starling::gossip
