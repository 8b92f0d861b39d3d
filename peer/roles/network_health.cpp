// Network: how the swarm does, looked at once a second, and the alarms for whoever watches.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "peer/io/clock.h"
#include "peer/io/human_text.h"
#include "peer/roles/network.h"

namespace starling::peer {

namespace {

constexpr Duration kAloneFirst = std::chrono::seconds(2);   // without a partner: say so
constexpr Duration kAloneAgain = std::chrono::seconds(60);  // and again
constexpr Duration kTwinFor = std::chrono::minutes(15);     // while it lives, it is told every 10

// A restart would lose what the peer goes on to train.
Alarm alarm_of(const CheckpointTrouble& trouble) {
  return {"disk",
          fmt::format("No checkpoint could be written since step {} ({}): what is trained is not "
                      "kept. Make room on the disk, or mend this: {}",
                      trouble.since_step, counted(trouble.tries, "attempt"), trouble.why)};
}

}  // namespace

// Also what partners are told of this peer.
void Network::watch_health(Instant time, const std::vector<gossip::PeerView>& views) {
  const auto loss = static_cast<float>(trainer_.loss.value());
  SwarmHealth::Sight sight{.own_loss = std::isfinite(loss) && loss > 0 ? loss : 0,
                           .losses = {},
                           .partners = 0,
                           .disagreement = mixer_.disagreement.value(),
                           .displacement = mixer_.displacement.value(),
                           .outer_gain = mixer_.gain.value(),
                           .bytes_out = bytes_out(),
                           .bytes_in = bytes_in()};
  for (const gossip::PeerView& view : views) sight.add(time, view);
  const bool trains = !joining_ && !closing_since_ && sickness_.empty();
  const bool company = std::any_of(views.begin(), views.end(),
                                   [](const gossip::PeerView& view) { return view.partner; });
  sight.passes = trainer_.passes.value();
  sight.trains = trains && !trainer_.finished.raised();
  sight.exchanges_owed = trains && company && verdict_ == TrafficPlan::Verdict::kOpen;
  health_.look(time, sight);
  if (driver_) driver_->standing(gossip::make_standing(loss, config_.device));
}

std::vector<Alarm> Network::alarms() const {
  std::vector<Alarm> list;
  if (!sickness_.empty()) list.push_back({"diverged", sickness_});
  if (disk_.trouble) list.push_back(alarm_of(*disk_.trouble));
  if (driver_) add_swarm_alarms(list);
  list.insert(list.end(), health_.alarms().begin(), health_.alarms().end());
  return list;
}

// Of those who exchange, or want to.
void Network::add_swarm_alarms(std::vector<Alarm>& list) const {
  if (!closing_since_ && !config_.seeds.empty() && driver_->core().stats().partners == 0) {
    list.push_back(
        {"alone", "Alone: no other peer answers. Training goes on, and so does the search."});
  }
  if (twin_at_ && now() - *twin_at_ < kTwinFor) {
    list.push_back(
        {"twin",
         "Another process takes part with this peer's key. The others listen to the one "
         "that began last, so this one may exchange nothing: give the other a key of its "
         "own (trust.key), and start this one again."});
  }
  if (driver_->core().stats().split) {
    list.push_back({"split", "The swarm has split: many peers fell silent at once."});
  }
  if (verdict_ == TrafficPlan::Verdict::kQuiet) {
    list.push_back({"resting", "Quiet hours: no exchanges until they end."});
  }
  if (verdict_ == TrafficPlan::Verdict::kSpent) {
    list.push_back(
        {"resting", "The bytes of these 24 hours are spent: no exchanges until it is less."});
  }
}

// Each kind once when it comes up, and that it is over. Of those not found by health_ the log has
// told where they were found.
void Network::tell_alarms(const std::vector<Alarm>& now_up) {
  const auto is_up = [&now_up](const std::string& kind) {
    return std::any_of(now_up.begin(), now_up.end(),
                       [&kind](const Alarm& alarm) { return alarm.kind == kind; });
  };
  const auto note = [this](const std::string& kind, bool up, const std::string& text) {
    note_event("alarm", {{"kind", kind}, {"up", up}, {"text", text}});
  };
  for (const Alarm& alarm : now_up) {
    if (!alarms_up_.insert(alarm.kind).second) continue;
    note(alarm.kind, true, alarm.text);
    const bool ours = std::any_of(health_.alarms().begin(), health_.alarms().end(),
                                  [&alarm](const Alarm& mine) { return mine.kind == alarm.kind; });
    if (ours) log_warning("{}", alarm.text);
  }
  for (auto kind = alarms_up_.begin(); kind != alarms_up_.end();) {
    if (is_up(*kind)) {
      ++kind;
      continue;
    }
    note(*kind, false, "");
    kind = alarms_up_.erase(kind);
  }
}

void Network::warn_if_alone(Instant time) {
  if (!driver_ || config_.seeds.empty() || closing_since_) return;
  if (driver_->core().stats().partners > 0) {
    last_company_ = time;
    seed_refused_ = false;
  } else if (time - last_company_ >= kAloneFirst) {
    std::string seeds;
    for (const gossip::PeerAddress& seed : config_.seeds) seeds += " " + gossip::to_string(seed);
    log_warning("no peer at{} {} (gossip.seeds): training alone, and still trying", seeds,
                seed_refused_ ? "takes part with this one" : "answers");
    last_company_ = time + kAloneAgain - kAloneFirst;
  }
}

// Rounds are as long as the fastest peer's: by whose word they become much shorter should be known,
// for it may be a lie.
void Network::tell_pace(Instant time) {
  const double share = trainer_.speed_share.value();
  const bool follows = trainer_.steps_per_round.value() > 0;  // only then it is told
  if (!driver_ || !(share > 0) || !follows) return;
  if (!pace_.differs(share) || !may_tell(time)) return;
  pace_.told(share);
  const PeerId fastest = driver_->core().fastest_peer();
  if (!PaceWatch::is_ahead(share)) {
    log_info(
        "peer {} says that it is faster, and is taken for {:.3g} times as fast as this one: rounds "
        "are as long as its, so they have fewer steps here (outer.local_steps)",
        called(fastest), 1 / share);
  } else {
    log_info("nobody trains much faster than this peer any more: rounds are as long as its own");
  }
  note_event("pace", {{"fastest", gossip::to_string(fastest)},
                      {"behind", !PaceWatch::is_ahead(share)},
                      {"speed_share", share}});
}

// run.total_tokens is what this peer trains by itself, unless somebody sets it: as it should be
// only where nobody else trains.
void Network::warn_of_early_floor() {
  if (!config_.early_floor || warned_of_floor_ || !driver_) return;
  if (driver_->core().stats().partners == 0) return;
  warned_of_floor_ = true;
  log_warning(
      "the learning rate reaches its floor when all peers together have trained {} tokens, which "
      "is what this one is to train alone (run.tokens): if each is to, set run.total_tokens to the "
      "sum of them, the same for all",
      config_.tokens_budget);
}

}  // namespace starling::peer
