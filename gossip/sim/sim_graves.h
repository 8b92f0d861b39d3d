// SimGraves: whom each simulated peer holds dead, and since when it has had no word of them.
//
// The dead are greeted, ever more rarely, and told why they are refused; nothing else is meant for
// them. Who speaks again is answered, and if it falls silent before it has denied its death asked
// whether it lives: for twelve times suspect_after at most. Thread: one owner.
#pragma once

#include <cstdint>
#include <vector>

#include "gossip/messages.h"
#include "gossip/sim/sim_options.h"
#include "gossip/sim/sim_transport.h"

namespace starling::gossip {

class SimGraves {
 public:
  explicit SimGraves(const SimOptions& options);

  // In `route` it is always `from` who sends, or thinks so of `to`.
  void on_health(Instant now, Route route, Health health);
  void on_heard(Instant now, Route route);              // by `from`, of `to`
  void on_started(std::uint32_t peer);                  // a new process knows nothing
  void on_paused(std::uint32_t peer, Duration length);  // it did not run: no time has passed for it
  // May `from` still say this?
  bool may_say(Instant now, Route route, const Message& message) const;
  bool long_dead(Instant now, Route route) const;

 private:
  std::size_t at(Route route) const { return std::size_t{route.from} * peers_ + route.to; }

  const std::uint32_t peers_;
  const Duration silence_max_;
  std::vector<Instant> since_;  // the epoch: it is not held dead
};

}  // namespace starling::gossip
