#include "peer/roles/swarm_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gossip/core.h"
#include "peer/status/status_board.h"

namespace starling::peer {

namespace {

double per_second(std::uint64_t before, std::uint64_t after, double seconds) {
  return after > before && seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

}  // namespace

void SwarmHealth::Averaged::add(Instant now) {
  if (count++ == 0) first = now;
  last = now;
}

std::optional<Duration> SwarmHealth::Averaged::usual() const {
  if (count < 3) return std::nullopt;
  return (last - first) / static_cast<Duration::rep>(count - 1);
}

void SwarmHealth::Sight::add(Instant now, const gossip::PeerView& other) {
  if (other.record.health != gossip::Health::kAlive || !other.partner) return;
  ++partners;
  if (!other.standing_at || !(other.standing.loss > 0)) return;
  losses.push_back({other.standing.loss, now - *other.standing_at});
}

void SwarmHealth::on_completed(Instant now, FragmentId fragment) {
  averaged_[fragment].add(now);
  all_.add(now);
}

void SwarmHealth::look(Instant now, const Sight& sight) {
  alarms_.clear();
  loss_ = mean_loss(sight);
  const double step = sight.outer_gain * sight.displacement;
  drift_ = step > 0 && std::isfinite(step) ? sight.disagreement / step : 0;
  watch_stall(now, sight);
  watch_trend();
  watch_drift();
  watch_ages(now, sight.exchanges_owed);
  watch_link(now, sight.bytes_out, sight.bytes_in);
}

std::optional<Duration> SwarmHealth::age(Instant now, FragmentId fragment) const {
  const auto found = averaged_.find(fragment);
  if (found == averaged_.end()) return std::nullopt;
  return now - found->second.last;
}

double SwarmHealth::mean_loss(const Sight& sight) const {
  Duration fresh = kLossFresh;
  if (const auto usual = all_.usual()) {
    const auto each = static_cast<double>(kLossIntervals) * static_cast<double>(sight.partners);
    const double seconds =
        std::clamp(each * to_seconds(*usual), to_seconds(kLossFreshMin), to_seconds(kLossFresh));
    fresh = from_seconds(seconds);
  }
  double sum = 0;
  int count = 0;
  const auto add = [&](double loss) {
    sum += loss;
    ++count;
  };
  if (sight.own_loss > 0) add(sight.own_loss);
  for (const Sight::Told& told : sight.losses) {
    if (told.age < fresh) add(told.loss);
  }
  return count == 0 ? 0 : sum / count;
}

void SwarmHealth::watch_stall(Instant now, const Sight& sight) {
  // One that hangs is not well because it is told to end.
  stall_.look(now, sight.passes, sight.trains || stall_.stalled());
  const auto still = stall_.stalled();
  if (!still) return;
  const auto usual = stall_.usual();
  alarms_.push_back(
      {std::string(kStalledAlarm),
       fmt::format("Training stands still: no pass of the model has ended for {:.0f} min{}. Its "
                   "device or the disk of its data may hang (the system's log may tell): start "
                   "this peer again, and it goes on from its last checkpoint.",
                   to_seconds(*still) / 60,
                   usual ? fmt::format(", and one usually takes {:.2g} s", to_seconds(*usual))
                         : std::string())});
}

void SwarmHealth::watch_trend() {
  const auto rise = trend_.rise();
  if (!rise) return;
  alarms_.push_back(
      {"risen",
       fmt::format("The loss has risen from {:.3f} to {:.3f} and stays there: training may have "
                   "diverged, or the data are of another kind. Lower optimizer.learning_rate or "
                   "optimizer.clip_norm, and go on from a checkpoint of before (checkpoint.keep of "
                   "them are there).",
                   rise->lowest, rise->now)});
}

// A newcomer, and whoever comes back from a split, is far away for some exchanges: that is theirs
// to mend.
void SwarmHealth::watch_drift() {
  if (!(drift_ > kDriftMax)) {
    far_since_.reset();
    return;
  }
  if (!far_since_) far_since_ = all_.count;
  if (all_.count - *far_since_ < kDriftExchanges) return;
  alarms_.push_back(
      {"drifting",
       fmt::format(
           "Your model is drifting: it is {:.0f} outer steps away from its partners', and "
           "exchanges leave fewer than 3. Exchange more often (a smaller outer.steps_per_round), "
           "or compare its data and optimizer settings with the others'.",
           drift_)});
}

void SwarmHealth::watch_ages(Instant now, bool owed) {
  if (owed && !owed_) owed_since_ = now;
  owed_ = owed;
  if (!owed) return;
  for (const auto& [fragment, row] : averaged_) {
    const auto usual = row.usual();
    if (!usual) continue;
    // Where nothing was owed for a while, it is late from then on.
    const Duration waited = now - std::max(row.last, owed_since_);
    if (waited < std::max<Duration>(kLateMin, kLateIntervals * *usual)) continue;
    alarms_.push_back(
        {"late", fmt::format("Fragment {} was averaged {:.0f} min ago, and usually is every "
                             "{:.0f} s: its exchanges fail, or find nobody. How they ended tells "
                             "why.",
                             fragment.value, to_seconds(now - row.last) / 60, to_seconds(*usual))});
    return;  // the others are late for the same reason
  }
}

void SwarmHealth::watch_link(Instant now, std::uint64_t out, std::uint64_t in) {
  link_is_full_ = false;
  moved_.push_back({now, out, in});
  while (now - moved_.front().at > kLinkSpan) moved_.pop_front();
  const double seconds = to_seconds(now - moved_.front().at);
  if (seconds < to_seconds(kLinkSpan) / 2) return;
  const auto tell = [this](double rate, double limit, const char* done, const char* key) {
    if (!(limit > 0) || rate < kLinkFull * limit) return;
    link_is_full_ = true;
    alarms_.push_back(
        {"link",
         fmt::format("Your link is the limit: {:.2f} MB/s {}, and no more is allowed. Raise "
                     "{}, or send less: a larger outer.steps_per_round, fewer bits in "
                     "outer.wire_format.",
                     rate / 1e6, done, key)});
  };
  tell(per_second(moved_.front().out, out, seconds), limits_.upload, "sent",
       "bandwidth.upload_mbit");
  tell(per_second(moved_.front().in, in, seconds), limits_.download, "received",
       "bandwidth.download_mbit");
}

}  // namespace starling::peer
