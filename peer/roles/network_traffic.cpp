// Network: keeps to what the line's owner allows.
#include <string>
#include <utility>

#include "base/log.h"
#include "peer/io/clock.h"
#include "peer/roles/network.h"

namespace starling::peer {

namespace {

constexpr double kHourSeconds = 3600;

}  // namespace

// Counts what has moved since the last time, and keeps the day's count on disk; `last`: all of it.
void Network::count_traffic(WallTime date, bool last) {
  const std::uint64_t bytes = bytes_out() + bytes_in();
  plan_->count(date, bytes - std::exchange(traffic_counted_, bytes));
  if (!plan_->limited() || !(last || plan_->lines_due(date))) return;
  if (const std::string lines = plan_->take_lines(date); !lines.empty()) outlets_.traffic(lines);
}

// Lets exchanges begin or not, as the owner's plan says.
void Network::watch_traffic(Instant time) {
  if (!driver_) return;
  const WallTime date = date_();
  count_traffic(date, false);
  TrafficPlan::Verdict verdict = plan_->verdict(date);
  // A state is fetched once, and peers come together once: what that takes is made up for
  // afterwards.
  if (verdict == TrafficPlan::Verdict::kPaced && (joining_ || closing_since_)) {
    verdict = TrafficPlan::Verdict::kOpen;
  }
  const TrafficPlan::Verdict before = std::exchange(verdict_, verdict);
  fit_codes(time);
  if (verdict == before) return;
  const bool paced = verdict == TrafficPlan::Verdict::kPaced;
  driver_->allow_exchanges(paced || verdict == TrafficPlan::Verdict::kOpen);
  driver_->pace_exchanges(paced);
  switch (verdict) {
    case TrafficPlan::Verdict::kOpen:
      if (before != TrafficPlan::Verdict::kPaced) log_info("exchanges go on");
      break;
    case TrafficPlan::Verdict::kPaced:
      if (std::exchange(paced_before_, true)) break;  // it goes on like this
      log_info(
          "exchanges pause now and then from here on, so that bandwidth.gigabytes_per_day last all "
          "day");
      break;
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

// Where the line or the day is the limit, fewer bits let more exchanges through.
void Network::fit_codes(Instant time) {
  if (!config_.fewer_bits || joining_) return;
  if (!code_choice_) {
    code_choice_.emplace(CodeChoice::Limits{.upload = config_.health.upload,
                                            .download = config_.health.download,
                                            .pace = plan_->hour_share() / kHourSeconds},
                         config_.fewer_bits->ratio);
  }
  const bool paced = verdict_ == TrafficPlan::Verdict::kPaced;
  const bool fewer =
      code_choice_->look(time, {.bytes = {bytes_out(), bytes_in(), exchange_bytes_},
                                .line_full = health_.link_is_full(),
                                .rests = paced,
                                .allowed = paced || verdict_ == TrafficPlan::Verdict::kOpen});
  if (fewer == std::exchange(fewer_bits_, fewer)) return;
  driver_->wish_format(fewer ? config_.fewer_bits->code : config_.fewer_bits->configured);
  log_info("{}", fewer ? "the limits of [bandwidth] hold exchanges back: weights travel in fewer "
                         "bits from now on (bandwidth.fewer_bits)"
                       : "the limits of [bandwidth] leave room again: weights travel in "
                         "outer.wire_format from now on");
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
