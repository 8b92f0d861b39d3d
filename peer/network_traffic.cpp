// Network, the part that keeps to what the line's owner allows.
#include <utility>

#include "base/log.h"
#include "peer/clock.h"
#include "peer/network.h"

namespace starling::peer {

namespace {

constexpr Duration kTrafficEvery = std::chrono::minutes(1);  // between counts on disk

}  // namespace

// Lets exchanges begin or not, as the owner's plan says, and keeps the day's count on disk.
void Network::watch_traffic(Instant time) {
  if (!driver_) return;
  const WallTime date = wall_now();
  const std::uint64_t bytes = bytes_out() + bytes_in();
  plan_->count(date, bytes - std::exchange(traffic_counted_, bytes));
  if (plan_->limited() && time - last_traffic_ >= kTrafficEvery) {
    last_traffic_ = time;
    outlets_.traffic(plan_->line(date));
  }
  const TrafficPlan::Verdict verdict = plan_->verdict(date);
  if (verdict == std::exchange(verdict_, verdict)) return;
  driver_->allow_exchanges(verdict == TrafficPlan::Verdict::kOpen);
  switch (verdict) {
    case TrafficPlan::Verdict::kOpen: log_info("exchanges go on"); break;
    case TrafficPlan::Verdict::kQuiet:
      log_info("quiet hours (bandwidth.quiet_hours): no exchanges until they end");
      break;
    case TrafficPlan::Verdict::kSpent:
      log_warning(
          "{:.2f} GB in 24 hours (bandwidth.gigabytes_per_day): no exchanges until it is less",
          static_cast<double>(plan_->bytes_in_day(date)) / 1e9);
      break;
  }
}

std::uint64_t Network::bytes_out() const {
  if (!driver_) return 0;
  const gossip::LinkStats& link = driver_->link_stats();
  return link.control.bytes_out + link.bulk.bytes_out;
}

std::uint64_t Network::bytes_in() const {
  if (!driver_) return 0;
  const gossip::LinkStats& link = driver_->link_stats();
  return link.control.bytes_in + link.bulk.bytes_in;
}

}  // namespace starling::peer
