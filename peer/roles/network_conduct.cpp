// Network: what is told of peers that misbehave, this one among them.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "peer/io/clock.h"
#include "peer/roles/network.h"

namespace starling::peer {

namespace {

constexpr int kBadStepsMax = 10;

}  // namespace

std::string Network::called(PeerId peer) const {
  const auto named = names_.find(peer);
  if (named == names_.end()) return gossip::to_string(peer);
  return fmt::format("{} ({})", named->second, gossip::to_string(peer));
}

bool Network::may_tell(Instant time) {
  if (lines_.may_take(time)) {
    lines_.take(time, 1);
    return true;
  }
  if (is_worth_a_line(++untold_)) {
    log_warning("other peers bring about more than is worth a line: {} not told so far", untold_);
  }
  return false;
}

void Network::on_rejected(const gossip::Rejected& event) {
  auto& counts = event.by_us ? rejections_ : rejections_heard_;
  const std::uint64_t count = ++counts[static_cast<std::size_t>(event.reason)];
  if (!is_worth_a_line(count)) return;
  const std::string_view reason = to_string(event.reason);
  if (event.by_us) {
    log_warning("turned down what peer {} sent: {} ({} so far)", called(event.peer), reason, count);
  } else {
    log_warning("peer {} turned down what we sent: {} ({} so far)", called(event.peer), reason,
                count);
  }
  note_event("rejected", {{"peer", gossip::to_string(event.peer)},
                          {"reason", reason},
                          {"by_us", event.by_us},
                          {"count", count}});
}

// Each by name, for the list that it may be taken off.
void Network::on_muted(const gossip::Muted& event) {
  const std::uint64_t count = ++(event.by_us ? mutes_ : mutes_heard_);
  if (!may_tell(now())) return;
  const double minutes = to_seconds(event.length) / 60;
  if (event.by_us) {
    log_warning("peer {} is not listened to for {:.0f} minutes: {} ({} so far)", called(event.peer),
                minutes, to_string(event.reason), count);
  } else {
    log_warning("peer {} does not listen to us for {:.0f} minutes ({} so far)", called(event.peer),
                minutes, count);
  }
  note_event("muted", {{"peer", gossip::to_string(event.peer)},
                       {"reason", to_string(event.reason)},
                       {"by_us", event.by_us},
                       {"minutes", minutes},
                       {"count", count}});
}

// Each peer once, and no more than a bounded number of them.
void Network::on_tokens_clipped(const gossip::TokensClipped& event) {
  log_warning(
      "peer {} claims {:.3g} tokens, which is more than can be believed: {:.3g} count. If it "
      "lies, take its key off trust.allow, and none of them counts",
      called(event.peer), event.said, event.counted);
  note_event(
      "tokens_clipped",
      {{"peer", gossip::to_string(event.peer)}, {"said", event.said}, {"counted", event.counted}});
}

// The optimizer skips a step whose gradient is not finite; when all of them are, weights are finite
// and useless.
void Network::watch_losses(const StepReport& report) {
  health_.on_step(report.loss);
  const bool finite = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
  bad_steps_ = finite ? 0 : bad_steps_ + 1;
  if (bad_steps_ < kBadStepsMax) return;
  Sick sick{"the losses of many steps in a row"};
  take(sick);
}

// Weights that are not finite never become finite again, and a checkpoint of them would only make
// room for itself: stop, write nothing, and say what there is to go on from.
void Network::take(Sick& sick) {
  if (!sickness_.empty()) return;
  sickness_ = fmt::format(
      "{} are no finite numbers after step {}: training has diverged. Nothing of it was written. "
      "{} "
      "If it happens again, lower optimizer.learning_rate, or optimizer.clip_norm, which 0 turns "
      "off",
      sick.what, trainer_.steps.value(),
      checkpoint_.empty() ? "There is no checkpoint yet."
                          : "Start again to go on from " + checkpoint_ + ".");
  log_error("{}", sickness_);
  note_event("sick", {{"step", trainer_.steps.value()}, {"what", sick.what}});
  if (driver_) driver_->sick();
  ending_.stop.raise();
}

}  // namespace starling::peer
