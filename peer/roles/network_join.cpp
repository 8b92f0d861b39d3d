// Network: joining. What the desk answers, and what the operator hears.
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "peer/io/clock.h"
#include "peer/roles/network.h"

namespace starling::peer {

namespace {

constexpr Duration kLineEvery = std::chrono::seconds(2);
constexpr Duration kWantAgain = std::chrono::minutes(1);  // the last one may not have been written

}  // namespace

void Network::keep_states(StateDesk& desk, const std::optional<gossip::FetchState>& fetch) {
  desk_ = &desk;
  desk.start([this](StateAnswer answer) {
    boost::asio::post(io_, [this, answer = std::move(answer)]() mutable {
      const auto* ready = std::get_if<gossip::SnapshotReady>(&answer.input);
      if (ready && !ready->offer) want_checkpoint(now());
      driver_->state(answer.input, std::move(answer.slot), answer.payload_bytes);
    });
  });
  driver_->keep_states(desk);
  if (!fetch) return;
  joining_ = true;
  last_join_line_ = now();
  watch_traffic(last_join_line_);  // before anything is fetched
  driver_->state(*fetch, std::nullopt, 0);
}

void Network::want_checkpoint(Instant now) {
  if (!checkpoint_.empty() || (wanted_at_ && now - *wanted_at_ < kWantAgain)) return;
  wanted_at_ = now;
  trainer_.checkpoints_wanted.add();
}

void Network::on_join_event(const gossip::JoinEvent& event) {
  using gossip::JoinStep;
  const bool declined = event.step == JoinStep::kDonorDeclined;
  if (declined) {  // it is asked again and again: once is enough for the user
    if (!declined_.emplace(event.peer, event.reason).second) return;
  }
  // What others can bring about again and again.
  const bool often = declined || event.step == JoinStep::kDonorFound ||
                     event.step == JoinStep::kServing || event.step == JoinStep::kServed;
  if (often && !may_tell(now())) return;
  const std::string_view reason = declined ? gossip::to_string(event.reason) : "";
  const bool wrong =
      event.step == JoinStep::kDonorWrong || event.step == JoinStep::kDonorDisagrees ||
      event.step == JoinStep::kDonorImpossible || event.step == JoinStep::kStartedOver;
  const std::string line = fmt::format("state: {} peer {}{}{}", gossip::to_string(event.step),
                                       called(event.peer), declined ? ": " : "", reason);
  if (wrong) {
    log_warning("{}", line);
  } else {
    log_info("{}", line);
  }
  note_event("join", {{"step", gossip::to_string(event.step)},
                      {"peer", gossip::to_string(event.peer)},
                      {"reason", reason}});
}

void Network::on_join_ended(const gossip::JoinEnded& event) {
  const bool fetched = event.outcome == gossip::JoinOutcome::kFetched;
  if (fetched) {
    log_info("state: fetched in {:.1f} s: step {}, {} tokens behind it", seconds_since(started_),
             event.step, event.tokens);
  } else if (event.outcome == gossip::JoinOutcome::kNobodyServes) {
    log_warning(
        "state: {}: training from this peer's own weights, which count for nothing until they have "
        "met the others'. Start it again to fetch once more: what has come is kept",
        gossip::to_string(event.outcome));
  } else {
    log_info("state: {}: training from this peer's own weights", gossip::to_string(event.outcome));
  }
  note_event("joined", {{"outcome", gossip::to_string(event.outcome)},
                        {"step", event.step},
                        {"tokens", event.tokens}});
  joining_ = join_waits_ = false;
  join_result_ = event;
  join_tokens_ = driver_->core().token_map();
  join_clock_ = driver_->core().swarm_tokens(now());
  join_ended_.raise();
}

void Network::on_footing_changed(const gossip::FootingChanged& event) {
  switch (event.footing) {
    case gossip::Footing::kSettled:
      log_info("this peer has met the others: its weights count like theirs");
      break;
    case gossip::Footing::kLate:
      log_warning(
          "this peer's weights are {:.0f} s of the others' training behind: they count for "
          "less until it has met them",
          event.missed_seconds);
      break;
    case gossip::Footing::kPulled:
      log_warning(
          "the others have trained far more than this peer's weights{}: they count for "
          "nothing, then for little, until it has met them",
          event.missed_seconds > 0
              ? fmt::format(" ({:.0f} s since its checkpoint)", event.missed_seconds)
              : "");
      break;
    case gossip::Footing::kLeftAlone:
      log_info(
          "all who have trained more are gone: this peer's weights count in full until some "
          "are back");
      break;
  }
  note_event("footing", {{"footing", gossip::to_string(event.footing)},
                         {"missed_seconds", event.missed_seconds}});
}

void Network::tell_of_join(Instant time) {
  if (!joining_ || time - last_join_line_ < kLineEvery) return;
  const gossip::JoinProgress progress = driver_->core().join_progress();
  const double seconds = to_seconds(time - last_join_line_);
  last_join_line_ = time;
  if (!progress.fetching) return;
  const bool waited = std::exchange(join_waits_, verdict_ != TrafficPlan::Verdict::kOpen);
  if (join_waits_ && !waited) {
    log_info(
        "state: {} of {} pieces; the others, and training, wait until this peer may exchange. To "
        "train alone at once set join.state = \"none\"",
        progress.pieces, progress.pieces_total);
  }
  if (join_waits_) return;
  // Some may have been dropped since, with their donors.
  const auto news = progress.pieces - std::min<std::uint64_t>(pieces_told_, progress.pieces);
  pieces_told_ = progress.pieces;
  log_info("state: {} of {} pieces, {:.1f} a second, from {} donors", progress.pieces,
           progress.pieces_total, static_cast<double>(news) / seconds, progress.donors);
}

}  // namespace starling::peer
