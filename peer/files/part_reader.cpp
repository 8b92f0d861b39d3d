#include "peer/files/part_reader.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "base/rng.h"

namespace starling::peer {

namespace {

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
      cells_(
          std::max<std::uint64_t>(1, plan.tokens / std::max<std::uint64_t>(1, plan.cell_tokens))),
      choice_(plan.parts, {.seed = plan.seed, .stream = plan.stream}) {
  STARLING_ASSERT(plan.parts > 0);
  STARLING_ASSERT(plan.parts <= gossip::kPartsMax);
  STARLING_ASSERT(plan.parts <= cells_);
  STARLING_ASSERT(plan.window_tokens > 0);
}

// As many as come nearest to covering the part once.
std::uint64_t PartReader::windows_of(std::uint16_t part) const {
  const std::uint64_t tokens = (first_cell(part + 1U) - first_cell(part)) * plan_.cell_tokens;
  return std::max<std::uint64_t>(1, (tokens + plan_.window_tokens / 2) / plan_.window_tokens);
}

// A part's windows lie side by side in its cells. A window that is longer than what is left of its
// cell goes on into the tokens behind it, which are another part's.
std::uint64_t PartReader::token_of(const OpenPart& open, std::uint64_t window) const {
  const std::uint64_t at = window * plan_.window_tokens;
  const std::uint64_t cell = first_cell(open.part) + at / plan_.cell_tokens;
  const std::uint64_t shift = mix64(plan_.space ^ mix64(open.passes)) % plan_.cell_tokens;
  return permuted(cell, cells_, plan_.space) * plan_.cell_tokens + at % plan_.cell_tokens + shift;
}

void PartReader::begin_part() {
  const std::uint16_t part = choice_.next();
  open_ = {.part = part, .passes = choice_.passes(part), .read = 0};
  changed_ = true;
}

std::uint64_t PartReader::next() {
  if (!open_) begin_part();
  ++drawn_;
  const std::uint64_t windows = windows_of(open_->part);
  const std::uint64_t first =
      token_of(*open_, permuted(open_->read, windows, key_of(plan_, *open_)));
  ++open_->read;
  if (open_->read >= windows) {
    finished_ = open_->part;
    ++finished_parts_;
    choice_.finish(open_->part);
    begin_part();
  }
  return first;
}

std::optional<std::uint16_t> PartReader::take_finished() {
  return std::exchange(finished_, std::nullopt);
}

bool PartReader::take_changed() { return std::exchange(changed_, false); }

BoundedList<std::uint16_t, gossip::kPartsHeldMax> PartReader::held() const {
  BoundedList<std::uint16_t, gossip::kPartsHeldMax> parts;
  if (open_) STARLING_ASSERT(parts.try_push(open_->part));
  return parts;
}

void PartReader::save(DataPosition& position) const {
  position.space = plan_.space;
  position.drawn = drawn_;
  position.open.clear();
  if (open_) STARLING_ASSERT(position.open.try_push(*open_));
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
  open_.reset();
  for (const OpenPart& open : position.open) {
    // Another batch.tokens cuts a part into another number of windows.
    if (open.part < choice_.parts() && open.read < windows_of(open.part)) open_ = open;
  }
  changed_ = true;
  return true;
}

}  // namespace starling::peer
