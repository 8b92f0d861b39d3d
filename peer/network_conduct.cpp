// Network, second part: what is told of peers that misbehave, this one among them.
#include "peer/network_conduct.h"

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "peer/clock.h"
#include "peer/network.h"

namespace starling::peer {

namespace {

constexpr int kBadStepsMax = 10;

using Reasons = std::array<std::uint64_t, gossip::kRejectReasons>;

// The reasons that occurred, in words.
nlohmann::json by_reason(const Reasons& counts) {
  nlohmann::json line = nlohmann::json::object();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto reason = static_cast<gossip::RejectReason>(i);
    if (counts[i] > 0) line[std::string(to_string(reason))] = counts[i];
  }
  return line;
}

// Those that occurred.
using Counts = std::initializer_list<std::pair<const char*, std::uint64_t>>;
nlohmann::json by_word(const Counts& counts) {
  nlohmann::json line = nlohmann::json::object();
  for (const auto& [word, count] : counts) {
    if (count > 0) line[word] = count;
  }
  return line;
}

// Ever more rarely: whoever sends rubbish must not fill log and disk too.
bool is_worth_a_line(std::uint64_t count) { return (count & (count - 1)) == 0; }

}  // namespace

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
  Reasons& counts = event.by_us ? rejections_ : rejections_heard_;
  const std::uint64_t count = ++counts[static_cast<std::size_t>(event.reason)];
  if (!is_worth_a_line(count)) return;
  const std::string_view reason = to_string(event.reason);
  if (event.by_us) {
    log_warning("turned down what peer {:016x} sent: {} ({} so far)", event.peer.value, reason,
                count);
  } else {
    log_warning("peer {:016x} turned down what we sent: {} ({} so far)", event.peer.value, reason,
                count);
  }
  outlets_.event(nlohmann::json{
      {"event", "rejected"},
      {"seconds", seconds_since(started_)},
      {"peer", fmt::format("{:016x}", event.peer.value)},
      {"reason", reason},
      {"by_us", event.by_us},
      {"count",
       count}}.dump());
}

void Network::on_muted(const gossip::Muted& event) {
  const std::uint64_t count = ++(event.by_us ? mutes_ : mutes_heard_);
  if (!is_worth_a_line(count)) return;
  const double minutes = to_seconds(event.length) / 60;
  if (event.by_us) {
    log_warning("peer {:016x} is not listened to for {:.0f} minutes: {} ({} so far)",
                event.peer.value, minutes, to_string(event.reason), count);
  } else {
    log_warning("peer {:016x} does not listen to us for {:.0f} minutes ({} so far)",
                event.peer.value, minutes, count);
  }
  outlets_.event(nlohmann::json{
      {"event", "muted"},
      {"seconds", seconds_since(started_)},
      {"peer", fmt::format("{:016x}", event.peer.value)},
      {"reason", to_string(event.reason)},
      {"by_us", event.by_us},
      {"minutes", minutes},
      {"count",
       count}}.dump());
}

// Each peer once, and no more than a bounded number of them.
void Network::on_tokens_clipped(const gossip::TokensClipped& event) {
  log_warning(
      "peer {:016x} claims {:.3g} tokens, which is more than can be believed: {:.3g} count. If it "
      "lies, take its key off trust.allow, and none of them counts",
      event.peer.value, event.said, event.counted);
  outlets_.event(nlohmann::json{{"event", "tokens_clipped"},
                                {"seconds", seconds_since(started_)},
                                {"peer", fmt::format("{:016x}", event.peer.value)},
                                {"said", event.said},
                                {"counted", event.counted}}
                     .dump());
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
  outlets_.event(nlohmann::json{
      {"event", "sick"},
      {"seconds", seconds_since(started_)},
      {"step", trainer_.steps.value()},
      {"what",
       sick.what}}.dump());
  if (driver_) driver_->sick();
  ending_.stop.raise();
}

void add_relays(nlohmann::json& line, const gossip::CoreStats& core,
                const gossip::RelayStats& relayed) {
  line["partners_relayed"] = core.partners_relayed;
  line["relays"] = core.relays;
  line["relay_holders"] = core.relay_holders;
  line["relayed_frames"] = relayed.frames;
  line["relayed_bytes"] = relayed.bytes;
  line["relayed_dropped"] = relayed.unasked + relayed.over_rate + relayed.lost;
  nlohmann::json faults = nlohmann::json::object();
  for (std::size_t i = 1; i < relayed.envelopes.size(); ++i) {
    const auto fault = static_cast<gossip::EnvelopeFault>(i);
    if (relayed.envelopes[i] > 0) faults[std::string(to_string(fault))] = relayed.envelopes[i];
  }
  line["envelopes_dropped"] = faults;
}

void add_link_faults(nlohmann::json& line, const gossip::LinkStats& link) {
  line["frames_dropped"] = by_word({{"damaged", link.damaged},
                                    {"other version", link.other_version},
                                    {"malformed", link.malformed},
                                    {"oversized", link.oversized},
                                    {"several parts", link.multipart},
                                    {"other name", link.forged},
                                    {"no proof of the secret", link.unproven},
                                    {"not allowed", link.not_allowed}});
  const gossip::CallerStats& callers = link.callers;
  line["callers_ended"] = by_word({{"no handshake", callers.unfinished},
                                   {"asked to come again", callers.asked_again},
                                   {"no messages", callers.greedy},
                                   {"not allowed any more", callers.unwelcome},
                                   {"too many", callers.crowded},
                                   {"too fast", callers.hasty},
                                   {"do not read", callers.idle_readers},
                                   {"too many messages", callers.floods}});
  line["handshakes_failed"] = link.handshakes_failed;
}

void add_conduct(nlohmann::json& line, const gossip::CoreStats& core, std::size_t peers_muted) {
  line["rejected"] = by_reason(core.rejected);
  line["rejections_heard"] = by_reason(core.rejections_heard);
  line["peers_muted"] = peers_muted;
  line["peers_clipped"] = core.peers_clipped;
  line["messages_muted"] = core.messages_muted;
  line["messages_refused"] = core.messages_refused;
  line["part_entries_refused"] = core.part_entries_refused;
  line["mutes_heard"] = core.mutes_heard;
  line["attempts_fenced"] = core.attempts_fenced;
  line["attempts_resumed"] = core.attempts_resumed;
}

}  // namespace starling::peer
