#include "gossip/part_choice.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/assert.h"
#include "base/rng.h"

namespace starling::gossip {

namespace {

void count(std::uint16_t& passes) {
  if (passes < std::numeric_limits<std::uint16_t>::max()) ++passes;
}

}  // namespace

PartChoice::PartChoice(std::uint16_t parts, const Order& order)
    : order_(order), views_(parts), own_passes_(parts), finished_at_(parts, -1) {
  STARLING_ASSERT(parts > 0);
  read_[0] = parts;
}

void PartChoice::restore(std::span<const std::uint16_t> passes,
                         std::span<const std::uint16_t> own_passes) {
  STARLING_ASSERT(passes.size() == parts());
  STARLING_ASSERT(own_passes.size() == parts());
  for (std::uint16_t part = 0; part < parts(); ++part) {
    set_passes(part, std::max(passes[part], own_passes[part]));
    own_passes_[part] = own_passes[part];
  }
}

void PartChoice::set_passes(std::uint16_t part, std::uint16_t passes) {
  std::uint16_t& known = views_.at(part).passes;
  --read_[std::min<std::uint16_t>(known, 2)];
  known = passes;
  ++read_[std::min<std::uint16_t>(known, 2)];
}

void PartChoice::learn(std::uint16_t part, const PartView& view) {
  set_passes(part, std::max(passes(part), view.passes));
  views_[part].claims = view.claims;
  views_[part].ours = view.ours;
}

void PartChoice::finish(std::uint16_t part) {
  finished_at_.at(part) = least();
  std::uint16_t times = passes(part);
  count(times);
  set_passes(part, times);
  count(own_passes_[part]);
}

int PartChoice::least() const {
  std::uint16_t least = std::numeric_limits<std::uint16_t>::max();
  for (const PartView& view : views_) least = std::min(least, view.passes);
  return least;
}

std::uint16_t PartChoice::next() const {
  const int least_read = least();
  const std::uint64_t order = mix64(order_.seed ^ mix64(order_.stream));
  std::uint16_t best = 0;
  std::tuple<int, bool, std::uint16_t, std::uint64_t> best_rank;
  for (std::uint16_t part = 0; part < parts(); ++part) {
    const PartView& view = views_[part];
    int believed = view.passes;
    if (view.passes - least_read > kAheadMax) {
      const bool due = view.ours && finished_at_[part] != least_read;
      believed = due ? least_read : least_read + kAheadMax;
    }
    const int times = believed + std::min<int>(view.claims, kClaimsCounted);
    const std::uint64_t turn = mix64(order ^ mix64(std::uint64_t{view.passes} << 16 | part));
    const std::tuple rank(times, !view.ours, own_passes_[part], turn);
    if (part > 0 && rank >= best_rank) continue;
    best = part;
    best_rank = rank;
  }
  return best;
}

}  // namespace starling::gossip
