#include "peer/roles/network.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "peer/io/clock.h"
#include "peer/io/hangup.h"
#include "peer/io/human_text.h"
#include "peer/roles/run_start.h"

namespace starling::peer {

namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr Duration kSameSignal = std::chrono::seconds(1);  // another within this is the same one
constexpr Duration kStatusEvery = std::chrono::seconds(1);
constexpr Duration kSettleMax = std::chrono::seconds(5);  // for exchanges still open at the end

// Only then does its end mean that somebody has gone: /dev/null ends at once. And a terminal is
// others' too, for whom asio would make it one that never waits.
bool has_other_end(int descriptor) {
  struct stat kind {};
  return ::fstat(descriptor, &kind) == 0 && (S_ISFIFO(kind.st_mode) || S_ISSOCK(kind.st_mode));
}

}  // namespace

Network::Network(const NetworkConfig& config, Rings& rings, TrainerMetrics& trainer,
                 const MixerMetrics& mixer, Ending& ending, NetworkOutlets outlets)
    : config_(config),
      rings_(rings),
      trainer_(trainer),
      mixer_(mixer),
      ending_(ending),
      outlets_(std::move(outlets)),
      tick_(io_),
      signals_(io_),
      input_(io_),
      started_at_(unix_seconds_now()),
      started_(now()),
      last_status_(started_),
      last_company_(started_),
      last_look_(started_),
      health_(config.health),
      checkpoint_(config.checkpoint) {
  if (!config_.allow_list.empty()) {
    allow_list_.emplace(config_.allow_list);
    auto list = load_allow_list(config_.allow_list);
    if (list.ok()) names_ = list.value().names();
  }
}

Network::~Network() = default;

void Network::attach(gossip::Core core, gossip::ZmqLink link, const gossip::DriverLimits& limits,
                     TrafficPlan plan, Date date) {
  plan_ = std::move(plan);
  date_ = std::move(date);
  driver_.emplace(io_, std::move(core), std::move(link), *this, *this, limits, &peer::now);
}

// Until then a signal has its ordinary effect: what a start takes time for can be left at once.
void Network::watch_signals() {
  signals_.add(SIGINT);
  signals_.add(SIGTERM);
  if (!hangup_is_ignored()) signals_.add(SIGHUP);
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) return;
    log_info(
        "signal {}: writing a last checkpoint and leaving; again, in a second, to stop at once",
        signal);
    ending_.stop.raise();
    // A launcher may say the same twice, to the process and to its group.
    once_more_.expires_after(kSameSignal);
    once_more_.async_wait([this](const boost::system::error_code& ended) {
      if (ended) return;
      boost::system::error_code ignored;  // the next has its ordinary effect; a hangup has none
      signals_.remove(SIGINT, ignored);
      signals_.remove(SIGTERM, ignored);
    });
  });
}

// Whoever reads our status lines holds the other end: when it is gone, so are we.
void Network::watch_input() {
  input_.async_read_some(boost::asio::buffer(typed_),
                         [this](const boost::system::error_code& error, std::size_t) {
                           if (!error) return watch_input();
                           if (error == boost::asio::error::operation_aborted) return;
                           log_info("standard input has ended: leaving");
                           ending_.stop.raise();
                         });
}

void Network::run() {
  watch_signals();
  if (config_.status_lines && has_other_end(STDIN_FILENO)) {
    boost::system::error_code unusable;
    input_.assign(::dup(STDIN_FILENO), unusable);
    if (!unusable) watch_input();
  }
  tell_start();
  if (driver_) driver_->join(config_.seeds);
  on_tick();
  io_.run();
  // From here on they end the process, whatever it waits for.
  boost::system::error_code ignored;
  signals_.remove(SIGINT, ignored);
  signals_.remove(SIGTERM, ignored);
}

// From here on the log counts the seconds of this process.
void Network::tell_start() {
  nlohmann::json started{{"started", started_at_}, {"step", trainer_.steps.value()}};
  if (driver_) started["peer"] = gossip::to_string(driver_->core().self().key.id);
  note_event("started", std::move(started));
}

// What others sent may be in it, in bytes that are no text.
void Network::note_event(const char* kind, nlohmann::json event) {
  event["event"] = kind;
  event["seconds"] = seconds_since(started_);
  outlets_.event(event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void Network::wake() {
  boost::asio::post(io_, [this] { drain_mixer(); });
}

void Network::note_checkpoint(std::string path, const TrainerProgress& progress, bool last) {
  boost::asio::post(io_, [this, last, step = progress.steps, tokens = progress.tokens,
                          path = std::move(path)]() mutable {
    checkpoint_ = std::move(path);
    ++checkpoints_;
    if (last) {
      log_info("wrote {}: step {}, {} tokens of this peer; 'starling generate' goes on from a text",
               checkpoint_, step, tokens);
    }
    const std::filesystem::path written(checkpoint_);
    note_event("checkpoint", {{"step", step},
                              {"file", written.filename().string()},
                              {"folder", written.parent_path().string()}});
    if (desk_ == nullptr) return;
    desk_->note_checkpoint(checkpoint_);
    driver_->state(gossip::NewCheckpoint{}, std::nullopt, 0);
  });
}

// --- the driver's seams ---

bool Network::try_submit(gossip::MixerOrder& order, Bytes& payload) {
  const std::size_t bytes = payload.view().size();
  OrderParcel parcel{order, std::move(payload)};
  if (!rings_.network_to_mixer.try_push(std::move(parcel))) {
    payload = std::move(parcel.payload);
    return false;
  }
  exchange_bytes_ += bytes;
  rings_.mixer_bell.ring();
  return true;
}

void Network::on_exchange_ended(const gossip::ExchangeEnded& event) {
  const Instant time = now();
  switch (event.outcome) {
    case gossip::Outcome::kCompleted:
      ++exchanges_;
      last_exchange_ = time;
      health_.on_completed(time, event.fragment);
      break;
    case gossip::Outcome::kDeclined: ++exchanges_declined_; break;
    default: ++exchanges_failed_;
  }
  exchange_log_.note(time, event);
  const bool costs_nothing = event.role == gossip::Role::kResponder && event.stripes_applied == 0;
  if (costs_nothing && !may_tell(time)) return;
  const gossip::ExchangeKey& key = event.exchange;
  // The same at both partners, and never used again.
  const std::string name = fmt::format("{}-{}-{}", gossip::to_string(key.initiator.id),
                                       key.initiator.incarnation, key.counter);
  nlohmann::json told{{"exchange", name},
                      {"partner", gossip::to_string(partner_of(event))},
                      {"fragment", event.fragment.value},
                      {"initiated", event.role == gossip::Role::kInitiator},
                      {"outcome", gossip::to_string(event.outcome)},
                      {"stripes", event.stripes_applied}};
  if (event.clip_factor < 1) told["clip_factor"] = event.clip_factor;
  note_event("exchange", std::move(told));
}

void Network::on_peer_changed(const gossip::PeerChanged& event) {
  if (!may_tell(now())) return;
  const std::string address = gossip::to_string(event.record.address);
  const bool gone = event.record.health == gossip::Health::kLeft;
  log_info("peer {} at {} {} {}", called(event.record.key.id), address, gone ? "has" : "is",
           gossip::to_string(event.record.health));
  note_event("peer", {{"peer", gossip::to_string(event.record.key.id)},
                      {"address", address},
                      {"health", gossip::to_string(event.record.health)}});
}

void Network::on_swarm_changed(const gossip::SwarmChanged& event) {
  const double percent = 100 * event.share;
  switch (event.change) {
    case gossip::SwarmChange::kAlone:
      log_warning("alone: all {} other peers fell silent; training goes on, and so does the search",
                  event.moved);
      break;
    case gossip::SwarmChange::kSplit:
      log_warning("the swarm has split: {} peers ({:.0f} %) fell silent at once, {} are left",
                  event.moved, percent, event.alive);
      break;
    case gossip::SwarmChange::kHealed:
      log_info("the swarm is whole again: {} peers came back, {} are here; weights merge gently",
               event.moved, event.alive);
      break;
  }
  note_event("swarm", {{"change", gossip::to_string(event.change)},
                       {"alive", event.alive},
                       {"moved", event.moved},
                       {"share", event.share}});
}

// --- from the mixer ---

void Network::drain_mixer() {
  bool any = false;
  while (auto parcel = rings_.mixer_to_network.try_pop()) {
    std::visit([this](auto& content) { take(content); }, *parcel);
    any = true;
  }
  if (any) rings_.mixer_bell.ring();  // it may have been waiting for room
}

void Network::take(FragmentPublished& published) {
  published_[published.fragment] = published.state;
  if (!driver_) return;
  if (published.offer) {
    driver_->publish(published.fragment, published.state);
  } else {
    driver_->fragment_state(published.fragment, published.state);
  }
}

void Network::take(Encoded& encoded) {
  exchange_bytes_ += encoded.payload_bytes;
  driver_->encoded(encoded.ref, std::move(encoded.slot), encoded.payload_bytes, encoded.verdict);
}
void Network::take(Staged& staged) {
  exchange_bytes_ += staged.payload_bytes;
  driver_->staged(staged.ref, std::move(staged.slot), staged.payload_bytes, staged.verdict);
}
void Network::take(Applied& applied) { driver_->applied(applied.ref, applied.verdict); }
void Network::take(Compensated& compensated) { driver_->compensated(compensated.ref); }

void Network::take(std::unique_ptr<CheckpointImage>& image) {
  drain_reports();  // whoever goes on from this image finds the figures of all steps behind it
  if (!sickness_.empty()) image->sound = false;
  if (driver_) {
    // The image's own count, not that of the last tick.
    driver_->progress(image->progress.tokens - config_.tokens_before,
                      static_cast<float>(trainer_.tokens_per_second.value()));
    image->tokens = driver_->core().token_map();
    image->age = to_date(driver_->core().age(now()));
  }
  outlets_.checkpoint(std::move(image));
}

// --- ten times a second ---

void Network::on_tick() {
  const Instant time = now();
  drain_mixer();
  drain_reports();
  if (driver_) {
    driver_->progress(trainer_.tokens.value() - config_.tokens_before,
                      static_cast<float>(trainer_.tokens_per_second.value()));
    trainer_.swarm_tokens.set(driver_->core().swarm_tokens(time));
    trainer_.speed_share.set(driver_->core().speed_share());
    trainer_.equal_peers.set(driver_->core().equal_peers());
    part_feed_.carry(*driver_);
  } else {
    part_feed_.discard();
  }
  warn_if_alone(time);
  warn_of_early_floor();
  watch_traffic(time);
  tell_of_join(time);
  tell_reachability(time);
  reload_allow_list(time);
  advance_ending(time);
  if (ending_.written.raised()) {
    // Behind what the disk has posted: the last line names the last checkpoint.
    boost::asio::post(io_, [this] {
      if (driver_) count_traffic(date_(), true);
      tell_status(now());
      status_lines_.finish();
      io_.stop();
    });
    return;
  }
  if (time - last_status_ >= kStatusEvery) tell_status(time);
  tick_.expires_after(kTick);
  tick_.async_wait([this](const boost::system::error_code& error) {
    if (!error) on_tick();
  });
}

void Network::drain_reports() {
  while (auto report = rings_.trainer_to_network.try_pop()) {
    watch_losses(*report);
    const bool last = report->tokens >= config_.tokens_budget || ending_.stop.raised();
    if (report->validation_loss && !last) {  // that of the end is told by whoever ends
      log_info("step {}: validation loss {:.4f}", report->step, *report->validation_loss);
    }
    if (report->step % config_.metrics_every_steps == 0 || report->validation_loss) {
      write_metrics(*report);
    }
  }
}

// --- the end ---

// training -> (budget spent) closing -> no new exchanges -> closed -> final image -> written
void Network::advance_ending(Instant time) {
  if (ending_.closed.raised()) return;
  // A newcomer that has trained all it was to train leaves when its fetching has ended, or whoever
  // waits for that would wait for good.
  const bool finished = trainer_.finished.raised() && !joining_;
  if (!finished && !ending_.stop.raised()) return;
  if (!driver_) {
    tell_end("there is nobody to come together with");
    return ending_.closed.raise();
  }
  if (!closing_since_) {
    closing_since_ = time;
    tell_end(ending_.stop.raised() ? "leaving" : "coming together with the others");
  }
  const bool closing = !ending_.stop.raised() && time - *closing_since_ < config_.closing;
  if (closing && !settling_since_) return offer_again();
  if (!settling_since_) settling_since_ = time;
  driver_->close();
  const gossip::Core& core = driver_->core();
  const bool settled = core.exchanges_open() == 0 && core.stripes_unsettled() == 0;
  if (!settled && time - *settling_since_ <= kSettleMax) return;
  // Before the final image is cut: nothing may be applied behind it and lost.
  driver_->leave();
  ending_.closed.raise();
}

void Network::tell_end(const char* why) {
  if (trainer_.finished.raised()) {
    log_info("training has ended after {} steps; {}", trainer_.steps.value(), why);
    warn_of_high_end();
  } else {
    log_info("told to end{}; {}", joining_ ? "" : ", behind the step under way", why);
  }
  note_event("ending", {{"step", trainer_.steps.value()}, {"why", why}});
}

// As when a peer whose share is in run.total_tokens has left for good.
void Network::warn_of_high_end() {
  const double rate = trainer_.learning_rate.value();
  const double swarm =
      std::max(trainer_.swarm_tokens.value(), static_cast<double>(trainer_.tokens.value()));
  if (!(rate > config_.end_rate_max) || swarm >= config_.schedule_tokens) return;
  log_warning(
      "the learning rate is still {:.2g}: it falls until all peers together have trained {} tokens "
      "(run.total_tokens), and they have trained {}. If nobody will train the rest, raise "
      "run.tokens, set run.total_tokens to the sum of it for those that stay, and start again: "
      "training goes on, and ends as it should",
      rate, human_count(config_.schedule_tokens), human_count(swarm));
}

// Fragments in turn, with nothing new in them but what gossip brought.
void Network::offer_again() {
  if (published_.empty()) return;
  const auto next = published_.upper_bound(last_offered_);
  const auto chosen = next == published_.end() ? published_.begin() : next;
  last_offered_ = chosen->first;
  driver_->publish(chosen->first, chosen->second);
}

}  // namespace starling::peer
