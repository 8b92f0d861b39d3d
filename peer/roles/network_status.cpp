// Network: how things stand. The lines of metrics.jsonl, the status lines of `--status-json`, and
// the reports that the status server shows all say the same things under the same names.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "peer/io/clock.h"
#include "peer/roles/network.h"
#include "peer/status/metrics_fields.h"

namespace starling::peer {

namespace {

constexpr std::size_t kPeersTold = 64;  // of a larger view, in each report
constexpr double kFarOff = 0.25;        // by the default radius: of 16 times the usual difference

}  // namespace

void Network::tell_status(Instant time) {
  last_status_ = time;
  if (outlets_.disk) disk_ = outlets_.disk();
  std::vector<gossip::PeerView> views;
  if (driver_) {
    views = driver_->core().peer_views(time, std::numeric_limits<std::size_t>::max());
  }
  watch_health(time, views);
  tell_pace(time);
  const std::vector<Alarm> up = alarms();
  tell_alarms(up);
  tell_progress(time);
  if (!config_.status_lines && !outlets_.status) return;
  const PeerStatus current = status(time);
  if (config_.status_lines) status_lines_.tell(to_json(current));
  if (outlets_.status) outlets_.status(report(current, time, views, up));
}

// Often at first, while whoever started it looks on, and then once a minute.
void Network::tell_progress(Instant time) {
  constexpr Duration kFirst = std::chrono::seconds(5), kMost = std::chrono::seconds(60);
  if (next_line_ == Instant{}) {
    line_after_ = kFirst;
    next_line_ = started_ + kFirst;
  }
  if (time < next_line_ || joining_ || closing_since_ || ending_.closed.raised()) return;
  line_after_ = std::min(2 * line_after_, kMost);
  next_line_ = time + line_after_;
  if (trainer_.tokens_per_second.value() == 0) {  // what stood in a checkpoint is old news
    return log_info("training: the first step is not done yet");
  }
  log_info("{}", to_line(status(time)));
}

void Network::write_metrics(const StepReport& step) {
  nlohmann::json line = counters();
  line["started"] = started_at_;
  line["step"] = step.step;
  line["tokens"] = step.tokens;
  line["swarm_tokens"] = step.swarm_tokens;
  line["loss"] = step.loss;
  line["learning_rate"] = step.learning_rate;
  line["gradient_norm"] = step.gradient_norm;
  line["step_seconds"] = step.step_seconds;
  line["tokens_per_second"] = trainer_.tokens_per_second.value();
  if (const double steps = trainer_.steps_per_round.value(); steps > 0) {
    line["steps_per_round"] = steps;
  }
  if (step.validation_loss) line["validation_loss"] = *step.validation_loss;
  outlets_.metrics(line);
}

nlohmann::json Network::counters() const {
  nlohmann::json line{{"seconds", seconds_since(started_)},
                      {"held_seconds", trainer_.held_seconds.value()},
                      {"train_seconds", trainer_.train_seconds.value()},
                      {"snapshots", trainer_.snapshots.value()},
                      {"snapshots_skipped", trainer_.snapshots_skipped.value()},
                      {"checkpoints_skipped", trainer_.checkpoints_skipped.value()},
                      {"checkpoints_failed", disk_.checkpoints_failed},
                      {"corrections", trainer_.corrections.value()},
                      {"disagreement", mixer_.disagreement.value()},
                      {"displacement", mixer_.displacement.value()},
                      {"outer_gain", mixer_.gain.value()},
                      {"outer_steps", mixer_.outer_steps.value()},
                      {"outer_steps_refused", mixer_.outer_steps_refused.value()},
                      {"reports_dropped", trainer_.reports_dropped.value()},
                      {"lines_dropped", disk_.lines_dropped},
                      {"blocks_skipped", mixer_.blocks_skipped.value()},
                      {"blocks_seen", mixer_.blocks_seen.value()},
                      {"payloads_refused", mixer_.payloads_refused.value()},
                      {"slots_missing", mixer_.slots_missing.value()},
                      {"exchanges", exchanges_},
                      {"exchanges_declined", exchanges_declined_},
                      {"exchanges_failed", exchanges_failed_},
                      {"parts", trainer_.data.parts.value()},
                      {"parts_never", trainer_.data.parts_never.value()},
                      {"parts_once", trainer_.data.parts_once.value()},
                      {"parts_more", trainer_.data.parts_more.value()},
                      {"parts_read", trainer_.data.parts_read.value()}};
  if (!driver_) return line;
  const gossip::LinkStats& link = driver_->link_stats();
  const gossip::CoreStats core = driver_->core().stats();
  line["bytes_out"] = bytes_out();
  line["bytes_in"] = bytes_in();
  const auto add_known = [&line](const char* key, double value) {
    if (value > 0) line[key] = value;
  };
  line["equal_peers"] = driver_->core().equal_peers();
  add_known("swarm_loss", health_.loss());
  add_known("drift", health_.drift());
  line["missed_seconds"] = driver_->core().missed();
  line["dialable"] = driver_->core().self().dialable;
  line["partners"] = core.partners;
  line["rounds_skipped"] = core.rounds_skipped;
  line["stripes_compensated"] = core.stripes_compensated;
  line["stripes_orphaned"] = core.stripes_orphaned;
  line["payloads_given_up"] = driver_->stats().frames_dropped;
  line["health_score"] = core.health_score;
  add_relays(line, core, link.relayed);
  add_conduct(line, core, driver_->core().peers_muted(now()));
  add_link_faults(line, link);
  return line;
}

// What a status page wants to know beyond a line of the metrics.
nlohmann::json Network::report(const PeerStatus& current, Instant time,
                               const std::vector<gossip::PeerView>& views,
                               const std::vector<Alarm>& up) const {
  nlohmann::json report = counters();
  report.update(to_object(current));
  report["learning_rate"] = trainer_.learning_rate.value();
  report["gradient_norm"] = trainer_.gradient_norm.value();
  report["outcomes"] = exchange_log_.by_outcome();
  report["recent"] = exchange_log_.recent(time);
  nlohmann::json& list = report["alarms"] = nlohmann::json::array();
  for (const Alarm& alarm : up) list.push_back({{"kind", alarm.kind}, {"text", alarm.text}});
  nlohmann::json& fragments = report["fragments"] = nlohmann::json::array();
  for (const auto& [fragment, state] : published_) {
    if (state.difference <= 0) continue;
    nlohmann::json row{{"fragment", fragment.value}, {"disagreement", state.difference}};
    if (const auto age = health_.age(time, fragment)) row["age_seconds"] = to_seconds(*age);
    fragments.push_back(std::move(row));
  }
  if (!driver_) return report;
  report["footing"] = gossip::to_string(driver_->core().footing());
  add_peers(report, time, std::span(views).first(std::min(views.size(), kPeersTold)));
  const gossip::CoreStats core = driver_->core().stats();
  report["peers_known"] = {
      {"alive", core.peers_alive}, {"suspect", core.peers_suspect}, {"dead", core.peers_dead}};
  report["peers_total"] = core.peers_alive + core.peers_suspect + core.peers_dead;
  return report;
}

void Network::add_peers(nlohmann::json& report, Instant time,
                        std::span<const gossip::PeerView> views) const {
  nlohmann::json& list = report["peers"] = nlohmann::json::array();
  for (const gossip::PeerView& view : views) {
    const PeerId id = view.record.key.id;
    const gossip::PeerTraffic traffic = driver_->traffic_with(id);
    const ExchangeLog::WithPartner* together = exchange_log_.with(id);
    nlohmann::json row{{"id", gossip::to_string(id)},
                       {"address", gossip::to_string(view.record.address)},
                       {"health", gossip::to_string(view.record.health)},
                       {"partner", view.partner},
                       {"muted", view.muted},
                       {"doubtful", view.doubtful},
                       {"rests", view.rests},
                       {"relayed", view.relayed},
                       {"tokens", view.tokens},
                       {"tokens_per_second", view.tokens_per_second},
                       {"bytes_in", traffic.bytes_in},
                       {"bytes_out", traffic.bytes_out},
                       {"exchanges", together == nullptr ? 0 : together->completed},
                       {"exchanges_declined", together == nullptr ? 0 : together->declined},
                       {"exchanges_failed", together == nullptr ? 0 : together->failed}};
    if (const auto named = names_.find(id); named != names_.end()) row["name"] = named->second;
    if (view.standing_at) {
      row["device"] = gossip::device(view.standing);
      if (view.standing.loss > 0) row["loss"] = view.standing.loss;
    }
    if (view.round_trip > Duration::zero()) {
      row["round_trip_seconds"] = to_seconds(view.round_trip);
    }
    if (together != nullptr && together->last_completed) {
      row["last_exchange_seconds_ago"] = to_seconds(time - *together->last_completed);
    }
    if (together != nullptr && together->clip_factor < 1) {
      row["clip_factor"] = together->clip_factor;
      row["far_off"] = together->clip_factor < kFarOff;
    }
    list.push_back(std::move(row));
  }
}

PeerStatus Network::status(Instant time) const {
  PeerStatus status;
  status.peer = config_.peer_name;
  status.phase = ending_.written.raised() ? "done"
                 : closing_since_         ? "closing"
                 : join_waits_            ? "waiting"
                 : joining_               ? "joining"
                                          : "training";
  status.step = trainer_.steps.value();
  status.tokens = trainer_.tokens.value();
  status.tokens_budget = config_.tokens_budget;
  status.swarm_tokens = trainer_.swarm_tokens.value();
  status.tokens_per_second = trainer_.tokens_per_second.value();
  status.loss = trainer_.loss.value();
  status.validation_loss = trainer_.validation_loss.value();
  status.exchanges = exchanges_;
  status.exchanges_declined = exchanges_declined_;
  status.exchanges_failed = exchanges_failed_;
  status.disagreement = mixer_.disagreement.value();
  status.displacement = mixer_.displacement.value();
  status.held_seconds = trainer_.held_seconds.value();
  status.train_seconds = trainer_.train_seconds.value();
  status.parts = trainer_.data.parts.value();
  status.parts_never = trainer_.data.parts_never.value();
  status.parts_once = trainer_.data.parts_once.value();
  status.parts_read = trainer_.data.parts_read.value();
  status.checkpoints = checkpoints_;
  status.checkpoints_failed = disk_.checkpoints_failed;
  status.checkpoint = checkpoint_;
  if (last_exchange_) status.last_exchange_seconds_ago = to_seconds(time - *last_exchange_);
  if (driver_) {
    status.bytes_out = bytes_out();
    status.bytes_in = bytes_in();
    status.dialable = driver_->core().self().dialable;
    const gossip::CoreStats core = driver_->core().stats();
    status.partners = static_cast<std::uint32_t>(core.partners);
    status.relays = static_cast<std::uint32_t>(core.relays);
    status.relay_holders = static_cast<std::uint32_t>(core.relay_holders);
  }
  return status;
}

}  // namespace starling::peer
