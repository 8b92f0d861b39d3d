#include "peer/doctor/doctor_visit.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "base/rng.h"
#include "gossip/net/asio_driver.h"
#include "peer/io/clock.h"
#include "peer/roles/open_link.h"
#include "peer/roles/role_settings.h"

namespace starling::peer {

namespace {

constexpr Duration kTick = std::chrono::milliseconds(50);
constexpr Duration kPingInterval = std::chrono::milliseconds(250);
constexpr Duration kPinged = std::chrono::seconds(3);  // long enough for a dozen round trips
// A test whether we can be called takes so long to fail, and a little for its outcome to be said.
constexpr Duration kCalledBack = gossip::ZmqLink::kTestMax + std::chrono::milliseconds(1500);
constexpr std::uint32_t kStrangers = 16;  // records of others than the seeds
static_assert(kGreetingMax + kCalledBack + kFetchMax < kVisitMax);
static_assert(kPinged < kCalledBack);

gossip::GossipConfig visitor(const PeerConfig& config, std::size_t seeds) {
  gossip::GossipConfig gossip = gossip_config(config);
  gossip.ping_interval = kPingInterval;
  gossip.peers_max = static_cast<std::uint32_t>(seeds) + kStrangers;
  gossip.connections_max = 1;  // beyond the seeds nobody is greeted
  gossip.state = {.moments = true, .donors_max = 8, .serve_max = 0};
  gossip.newcomer_tokens = 0;  // whoever has trained at all can be fetched from
  gossip.relay = {.volunteer = false, .use = false};
  return gossip;
}

gossip::CoreIdentity core_identity(const VisitPlan& plan, const gossip::RecordSeal& seal,
                                   const gossip::PeerAddress& address) {
  gossip::CoreIdentity identity;
  identity.self.key = {plan.identity.id(), plan.process};
  identity.self.address = address;
  identity.self.dialable = false;  // until somebody has
  identity.seal = &seal;
  identity.run = run_identity(plan.config.run, plan.digests, plan.tokenizer);
  identity.stripes = plan.stripes.counts();
  identity.seed = mix64(plan.identity.id().value ^ plan.process);
  return identity;
}

// Has no weights: a core that closed asks nothing of it.
class Visit final : public gossip::MixerPort, public gossip::EventSink {
 public:
  Visit(const VisitPlan& plan, gossip::ZmqLink link, const gossip::PeerAddress& address)
      : plan_(plan),
        seal_(plan.identity),
        timer_(io_),
        driver_(io_,
                gossip::Core(visitor(plan.config, plan.seeds.size()),
                             core_identity(plan, seal_, address), {}, now()),
                std::move(link), *this, *this, driver_limits(plan.config, plan.stripes),
                &peer::now),
        meter_(io_, [this](const gossip::StateInput& input) { driver_.state(input, {}, 0); }),
        begun_(now()) {
    driver_.keep_states(meter_);
    outcome_.seeds.resize(plan.seeds.size());
    outcome_.advertised = address;
  }

  VisitOutcome run() {
    std::vector<PeerId> compared;
    for (const gossip::PeerAddress& seed : plan_.seeds) compared.push_back(gossip::id_of(seed.key));
    driver_.compare_clocks(compared);
    driver_.close();
    driver_.join(plan_.seeds);
    on_tick();
    io_.run();
    return std::move(outcome_);
  }

  bool try_submit(gossip::MixerOrder&, Bytes&) override { return true; }
  void on_refused(const gossip::Refused& event) override {
    for (std::size_t i = 0; i < plan_.seeds.size(); ++i) {
      if (plan_.seeds[i].key == event.address.key) outcome_.seeds[i].refused = event;
    }
  }
  void on_exchange_ended(const gossip::ExchangeEnded&) override {}
  void on_peer_changed(const gossip::PeerChanged&) override {}
  void on_join_event(const gossip::JoinEvent& event) override {
    for (std::size_t i = 0; i < plan_.seeds.size(); ++i) {
      const bool declined = event.step == gossip::JoinStep::kDonorDeclined;
      if (!declined || gossip::id_of(plan_.seeds[i].key) != event.peer) continue;
      outcome_.seeds[i].declined = event.reason;
    }
  }
  void on_join_ended(const gossip::JoinEnded&) override { fetched_ = true; }
  void on_rejected(const gossip::Rejected&) override {}
  void on_muted(const gossip::Muted&) override {}
  void on_swarm_changed(const gossip::SwarmChanged&) override {}
  void on_relay_changed(const gossip::RelayChanged&) override {}
  void on_tokens_clipped(const gossip::TokensClipped&) override {}
  void on_footing_changed(const gossip::FootingChanged&) override {}

 private:
  void on_tick();
  void look();
  bool is_known(Instant time) const;
  bool is_fetched(Instant time) const;

  const VisitPlan& plan_;
  const gossip::IdentitySeal seal_;
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_;
  gossip::AsioDriver driver_;
  FetchMeter meter_;
  const Instant begun_;
  std::optional<Instant> fetching_since_;
  bool fetched_ = false;
  std::optional<Instant> welcomed_at_;  // the last of those that did
  VisitOutcome outcome_;
};

void Visit::on_tick() {
  look();
  const Instant time = now();
  if (!fetching_since_ && is_known(time)) {
    fetching_since_ = time;
    fetched_ = !plan_.fetches || !welcomed_at_;
    const std::vector<std::uint64_t> nothing(plan_.stripes.size(), 0);
    if (!fetched_) driver_.state(gossip::FetchState{nothing}, {}, 0);
  }
  if (fetching_since_ && is_fetched(time)) {
    driver_.leave();
    io_.stop();
    return;
  }
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) on_tick();
  });
}

void Visit::look() {
  const gossip::Core& core = driver_.core();
  const gossip::CoreStats stats = core.stats();
  outcome_.others = stats.peers_alive + stats.peers_suspect;
  for (const gossip::PeerView& view : core.peer_views(now(), plan_.seeds.size() + kStrangers)) {
    for (std::size_t i = 0; i < plan_.seeds.size(); ++i) {
      if (plan_.seeds[i].key != view.record.address.key || !view.partner) continue;
      SeedVisit& seed = outcome_.seeds[i];
      if (!seed.welcomed) welcomed_at_ = now();
      seed.welcomed = true;
      seed.advertised = view.record.address;
      // Beside a state a ping takes longer.
      const bool idle = !fetching_since_ && view.round_trip > Duration::zero();
      if (idle) seed.round_trip = view.round_trip;
      seed.clock = driver_.clock_of(view.record.key.id);
      seed.fetched = meter_.from(view.record.key.id);
      seed.calls_back = driver_.was_reached_by(view.record.key.id);
    }
  }
}

bool Visit::is_fetched(Instant time) const {
  return fetched_ || time - *fetching_since_ >= kFetchMax || meter_.bytes() >= kFetchBytesMax;
}

// All but how fast they send.
bool Visit::is_known(Instant time) const {
  const auto answered = [](const SeedVisit& seed) { return seed.welcomed || seed.refused; };
  const auto& seeds = outcome_.seeds;
  if (!std::all_of(seeds.begin(), seeds.end(), answered) && time - begun_ < kGreetingMax) {
    return false;
  }
  if (!welcomed_at_) return true;
  const auto waits_for_call = [](const SeedVisit& seed) {
    return seed.welcomed && !seed.calls_back;
  };
  const bool waits = gossip::listens(outcome_.advertised) &&
                     std::any_of(seeds.begin(), seeds.end(), waits_for_call);
  return time - *welcomed_at_ >= (waits ? kCalledBack : kPinged);
}

}  // namespace

Result<VisitOutcome> visit_seeds(const VisitPlan& plan) {
  auto link = open_link(plan.config, plan.identity,
                        run_identity(plan.config.run, plan.digests, plan.tokenizer), plan.process);
  if (!link.ok()) return std::move(link).error();
  auto address = advertised_address(plan.config.gossip, link.value().local_address());
  if (!address.ok()) return std::move(address).error();
  return Visit(plan, std::move(link).value(), address.value()).run();
}

}  // namespace starling::peer
