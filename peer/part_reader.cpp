#include "peer/part_reader.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace starling::peer {

namespace {

// Few enough that most parts of a small data set are left to others.
std::size_t open_max(std::uint16_t parts) {
  return std::clamp<std::size_t>(parts / 8, 1, gossip::kPartsHeldMax);
}

std::uint64_t key_of(const ReadingPlan& plan, const OpenPart& open) {
  const std::uint64_t who = mix64(plan.seed ^ mix64(plan.stream));
  return mix64(who ^ mix64(std::uint64_t{open.passes} << 16 | open.part));
}

}  // namespace

// A balanced Feistel network on the next even number of bits, walked until it falls into the range
// (Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section 4). Fewer than
// four steps on average, and no memory.
std::uint64_t permuted(std::uint64_t index, std::uint64_t count, std::uint64_t key) {
  STARLING_ASSERT(index < count);
  const int half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = index >> half;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      left ^= mix64(key ^ mix64(right << 2 | round)) & mask;
      std::swap(left, right);
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

PartReader::PartReader(const ReadingPlan& plan)
    : plan_(plan),
      dice_(Rng(plan.seed).fork(plan.stream)),
      open_max_(open_max(plan.parts)),
      choice_(plan.parts, {.seed = plan.seed, .stream = plan.stream}) {
  STARLING_ASSERT(plan.parts > 0);
  STARLING_ASSERT(plan.parts <= gossip::kPartsMax);
  STARLING_ASSERT(plan.tokens >= plan.parts);
  STARLING_ASSERT(plan.window_tokens > 0);
}

// As many as come nearest to covering the part once.
std::uint64_t PartReader::windows_of(std::uint16_t part) const {
  const std::uint64_t tokens = first_token(part + 1U) - first_token(part);
  return std::max<std::uint64_t>(1, (tokens + plan_.window_tokens / 2) / plan_.window_tokens);
}

void PartReader::open_more() {
  while (open_.size() < open_max_) {
    const auto held_now = held();
    const auto part = choice_.next({held_now.begin(), held_now.size()});
    if (!part) return;
    STARLING_ASSERT(open_.try_push({.part = *part, .passes = choice_.passes(*part), .read = 0}));
    changed_ = true;
  }
}

std::uint64_t PartReader::next() {
  open_more();
  Rng dice = dice_.fork(drawn_);
  ++drawn_;
  OpenPart& open = open_[static_cast<std::size_t>(dice.below(open_.size()))];
  const std::uint64_t windows = windows_of(open.part);
  const std::uint64_t key = key_of(plan_, open);
  const std::uint64_t offset = mix64(key) % plan_.window_tokens;
  const std::uint64_t first =
      first_token(open.part) + offset + permuted(open.read, windows, key) * plan_.window_tokens;
  ++open.read;
  if (open.read >= windows) {
    finished_ = open.part;
    ++finished_parts_;
    choice_.finish(open.part);
    open = open_[open_.size() - 1];
    open_.pop_back();
    open_more();
  }
  return first;
}

std::optional<std::uint16_t> PartReader::take_finished() {
  return std::exchange(finished_, std::nullopt);
}

bool PartReader::take_changed() { return std::exchange(changed_, false); }

BoundedList<std::uint16_t, gossip::kPartsHeldMax> PartReader::held() const {
  BoundedList<std::uint16_t, gossip::kPartsHeldMax> parts;
  for (const OpenPart& open : open_) STARLING_ASSERT(parts.try_push(open.part));
  return parts;
}

void PartReader::save(DataPosition& position) const {
  position.space = plan_.space;
  position.drawn = drawn_;
  position.open = open_;
  position.passes.resize(choice_.parts());
  for (std::uint16_t part = 0; part < choice_.parts(); ++part) {
    position.passes[part] = choice_.passes(part);
  }
  position.own_passes.assign(choice_.own_passes().begin(), choice_.own_passes().end());
}

bool PartReader::restore(const DataPosition& position) {
  const bool same = position.space == plan_.space && position.passes.size() == choice_.parts() &&
                    position.own_passes.size() == choice_.parts();
  if (!same) return false;
  choice_.restore(position.passes, position.own_passes);
  drawn_ = position.drawn;
  finished_parts_ =
      std::accumulate(position.own_passes.begin(), position.own_passes.end(), std::uint64_t{0});
  open_.clear();
  for (const OpenPart& open : position.open) {
    // Another batch.tokens cuts a part into another number of windows.
    const bool readable = open.part < choice_.parts() && open.read < windows_of(open.part);
    if (!readable || open_.size() >= open_max_) continue;
    STARLING_ASSERT(open_.try_push(open));
  }
  changed_ = true;
  return true;
}

}  // namespace starling::peer
