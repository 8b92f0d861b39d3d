#include "gossip/clock_offsets.h"

#include <algorithm>

namespace starling::gossip {

namespace {

using std::chrono::microseconds;

// Both readings are cut to whole microseconds.
constexpr Duration kCut = microseconds(1);

Duration since_1970(std::uint64_t time_of_day) {
  return microseconds(static_cast<std::int64_t>(std::min(time_of_day, kTimeOfDayMax)));
}

}  // namespace

std::uint64_t to_time_of_day(Duration since_1970) {
  const auto count = std::chrono::floor<microseconds>(since_1970).count();
  return static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(count, 1, static_cast<std::int64_t>(kTimeOfDayMax)));
}

void ClockOffsets::watch(std::span<const PeerId> peers) {
  for (const PeerId peer : peers) rows_.try_emplace(peer);
}

void ClockOffsets::on_ping(Instant now, PeerId to, std::uint64_t nonce) {
  const auto row = rows_.find(to);
  if (row == rows_.end()) return;
  row->second.asked[row->second.count++ % kAskedMax] = {nonce, now};
}

void ClockOffsets::on_pong(Instant now, PeerId from, const Answer& answer) {
  const auto found = rows_.find(from);
  if (found == rows_.end() || answer.theirs == 0) return;
  Row& row = found->second;
  const auto kept = std::span(row.asked).first(std::min(row.count, kAskedMax));
  const auto asked = std::find_if(kept.begin(), kept.end(),
                                  [&](const Asked& ping) { return ping.nonce == answer.nonce; });
  if (asked == kept.end()) return;
  const Duration half = (now - asked->at) / 2;
  const Duration within = half + kCut;
  if (row.offset && row.offset->within <= within) return;
  row.offset = ClockOffset{since_1970(answer.theirs) - since_1970(answer.ours) + half, within};
}

std::optional<ClockOffset> ClockOffsets::of(PeerId peer) const {
  const auto row = rows_.find(peer);
  return row == rows_.end() ? std::nullopt : row->second.offset;
}

}  // namespace starling::gossip
