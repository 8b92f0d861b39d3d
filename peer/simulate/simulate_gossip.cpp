#include "peer/simulate/simulate_gossip.h"

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "base/assert.h"
#include "base/hash.h"
#include "base/rng.h"
#include "gossip/wire/wire.h"

namespace starling::peer {

namespace {

constexpr std::uint16_t kFirstPort = 1000;  // of peer 0; both ports of a peer tell which it is
constexpr std::uint32_t kSeeds = 4;

gossip::PeerAddress address_of(std::uint32_t peer) {
  gossip::PeerAddress address;
  const bool fits = gossip::set_host(address, "virtual");
  STARLING_ASSERT(fits);
  address.control_port = address.bulk_port = static_cast<std::uint16_t>(kFirstPort + peer);
  address.key = gossip::stand_in_key(PeerId{peer + 1U});
  return address;
}

std::uint32_t peer_at(const gossip::PeerAddress& address) {
  return std::uint32_t{address.control_port} - kFirstPort;
}

}  // namespace

// What gossip adds to one peer.
class SimulatedGossip::Member {
 public:
  Member(SimulatedGossip& method, std::uint32_t peer, std::unique_ptr<optim::OuterRule> rule)
      : method_(method),
        swarm_(method.swarm_),
        peer_(peer),
        rings_(swarm_.peer(peer).rings()),
        mixer_({.clip_factor = swarm_.config().outer.clip_factor,
                .head_bytes = gossip::kBulkHeadBytes},
               swarm_.world().stripes, std::move(rule), swarm_.peer(peer).floats(),
               swarm_.peer(peer).payloads(), rings_, metrics_, [] {}),
        seal_(PeerId{peer + 1U}),
        feed_(rings_),
        rng_(Rng(swarm_.config().run.seed).fork(digest("halves-" + std::to_string(peer)))) {}

  void start(const CheckpointImage* joined) {
    VirtualPeer& peer = swarm_.peer(peer_);
    if (joined != nullptr) {
      mixer_.restore(*joined);
    } else {
      mixer_.start(peer.weights());
    }
    core_.emplace(gossip_config(swarm_.config()), identity(),
                  gossip::RestoredState{.ledger = {},
                                        .tokens = {},
                                        .passes = {},
                                        .inherited = joined ? joined->progress.inherited : 0},
                  swarm_.now());
    std::vector<gossip::PeerAddress> seeds;
    for (std::uint32_t other = 0; other < swarm_.size() && seeds.size() < kSeeds; ++other) {
      if (other != peer_ && swarm_.lives(other)) seeds.push_back(address_of(other));
    }
    core_->on_join(swarm_.now(), seeds);
    settle();
    begin_step();
  }

  // Between two steps.
  void step_over() {
    swarm_.update(peer_);
    swarm_.peer(peer_).trainer().boundary();
    settle();
    begin_step();
  }

  void leave() {
    core_->on_leave(swarm_.now());
    drain();
    armed_.reset();
  }

  // As a checkpoint's image walks: behind all that the trainer has told.
  void complete(std::unique_ptr<CheckpointImage>& image) {
    const bool room = rings_.trainer_to_mixer.try_push(std::move(image));
    STARLING_ASSERT(room);
    settle();
    image = std::move(image_);
    STARLING_ASSERT(image != nullptr);
  }

  void on_mail(PeerId from, const gossip::Message& message, Bytes payload) {
    at_hand_ = std::move(payload);
    core_->on_message(swarm_.now(), from, message);
    drain();
    at_hand_.reset();
    settle();
  }

  // What stands for a driver, for the feed of the data's parts.
  void part_finished(std::uint16_t part, std::uint16_t times) {
    core_->on_part_finished(swarm_.now(), part, times);
  }
  void parts_held(std::span<const std::uint16_t> parts) {
    core_->on_parts_held(swarm_.now(), parts);
  }
  std::vector<gossip::PartView> parts() const { return core_->parts(); }

  const Mixer& mixer() const { return mixer_; }
  ExchangeCounts counts() const {
    ExchangeCounts counts = counts_;
    counts.blocks = metrics_.blocks_seen.value();
    counts.blocks_skipped = metrics_.blocks_skipped.value();
    return counts;
  }

 private:
  gossip::CoreIdentity identity() const {
    const VirtualWorld& world = swarm_.world();
    gossip::CoreIdentity identity;
    identity.self.key = {PeerId{peer_ + 1U}, 1};
    identity.self.address = address_of(peer_);
    identity.seal = &seal_;
    identity.run = {.run = 1, .model = 1, .layout = world.layout.digest()};
    identity.stripes = world.stripes.counts();
    const ReadingPlan reading = world.reading(peer_);
    identity.data = {.digest = reading.space, .parts = reading.parts};
    identity.seed = mix64(world.config.run.seed ^ mix64(peer_ + 1U));
    return identity;
  }

  void begin_step() {
    VirtualPeer& peer = swarm_.peer(peer_);
    const double tokens =
        static_cast<double>(swarm_.config().batch.sequences * swarm_.config().batch.tokens);
    core_->on_progress(swarm_.now(), peer.trainer().progress().tokens,
                       static_cast<float>(tokens * peer.steps_per_second()));
    drain();
    feed_.carry(*this);
    drain();
    arm();
    peer.learn_clock(core_->swarm_tokens(swarm_.now()));
    if (swarm_.config().outer.local_steps == LocalSteps::kDynamic) {
      peer.learn_speed(core_->speed_share());
    }
    peer.learn_equal_peers(core_->equal_peers());
    swarm_.begin_step(peer_);
  }

  // All that the mixer has to do, and all that the core makes of its answers.
  void settle() {
    drain();
    while (mixer_.pump() || answer_next()) {
      pass_orders();
      drain();
    }
    arm();
  }

  bool answer_next() {
    auto parcel = rings_.mixer_to_network.try_pop();
    if (!parcel) return false;
    std::visit([this](auto& content) { answer(content); }, *parcel);
    return true;
  }
  void answer(FragmentPublished& published) {
    if (published.offer) {
      core_->on_published(swarm_.now(), published.fragment, published.state);
    } else {
      core_->on_fragment_state(swarm_.now(), published.fragment, published.state);
    }
  }
  template <class Made>
  void take_payload(Made& made) {
    if (!made.slot) return;
    const auto payload = made.slot->bytes().subspan(gossip::kBulkHeadBytes, made.payload_bytes);
    at_hand_ = Bytes::copy_of(payload);
  }
  void answer(Encoded& encoded) {
    take_payload(encoded);
    core_->on_encoded(swarm_.now(), encoded.ref, encoded.verdict, encoded.payload_bytes);
    drain();
    at_hand_.reset();
  }
  void answer(Staged& staged) {
    take_payload(staged);
    core_->on_staged(swarm_.now(), staged.ref, staged.verdict, staged.payload_bytes);
    drain();
    at_hand_.reset();
  }
  void answer(Applied& applied) { core_->on_applied(swarm_.now(), applied.ref, applied.verdict); }
  void answer(Compensated& done) {
    if (lost_.erase(done.ref) == 0) core_->on_compensated(swarm_.now(), done.ref);
  }
  void answer(Sick&) { core_->on_sick(swarm_.now()); }
  void answer(std::unique_ptr<CheckpointImage>& image) { image_ = std::move(image); }

  void drain() {
    while (auto action = core_->poll_action()) {
      std::visit([this](auto& wish) { fulfil(wish); }, *action);
    }
  }
  void fulfil(gossip::Greet& greet) { send(peer_at(greet.address), greet.hello); }
  void fulfil(gossip::Connect& connect) { known_[connect.peer] = peer_at(connect.address); }
  void fulfil(gossip::Disconnect& gone) { known_.erase(gone.peer); }
  void fulfil(gossip::Send& wish) {
    if (const auto* offer = std::get_if<gossip::Offer>(&wish.message)) {
      offered_[offer->exchange] = swarm_.now();
    }
    const auto to = known_.find(wish.to);
    if (to != known_.end()) send(to->second, wish.message);
  }
  void fulfil(gossip::Reply& reply) {
    send(static_cast<std::uint32_t>(reply.to.value - 1), reply.message);
  }
  void fulfil(gossip::SendPayload& wish) {
    const auto to = known_.find(wish.to);
    if (to == known_.end()) return;
    post(to->second, wish.head, Bytes::copy_of(at_hand_.view()));
  }
  void fulfil(gossip::StageDelta& order) { submit(order, std::move(at_hand_)); }
  void fulfil(gossip::ApplyDelta& order) {
    const gossip::StripeRef ref = order.ref;
    submit(order, std::move(at_hand_));
    if (lost_halves_ > 0 && rng_.chance(lost_halves_)) lose_half(ref);
  }
  void fulfil(gossip::EncodeStripe& order) { submit(order, {}); }
  void fulfil(gossip::ReissueDelta& order) { submit(order, {}); }
  void fulfil(gossip::ApplyStaged& order) { submit(order, {}); }
  void fulfil(gossip::DropStaged& order) { submit(order, {}); }
  void fulfil(gossip::Compensate& order) { submit(order, {}); }
  void fulfil(gossip::ForgetDelta& order) { submit(order, {}); }
  void fulfil(gossip::ExchangeEnded& ended) {
    if (const auto offered = offered_.extract(ended.exchange)) {
      const bool completed = ended.outcome == gossip::Outcome::kCompleted;
      if (completed) counts_.begun_seconds += to_seconds(swarm_.now() - offered.mapped());
      counts_.begun += completed ? 1 : 0;
    }
    switch (ended.outcome) {
      case gossip::Outcome::kCompleted:
        ++counts_.completed;
        counts_.clipped += 1 - static_cast<double>(ended.clip_factor);
        break;
      case gossip::Outcome::kDeclined: ++counts_.declined; break;
      default: ++counts_.failed;
    }
  }
  // Told to whoever watches.
  void fulfil(gossip::PeerChanged&) {}
  void fulfil(gossip::Refused&) {}
  void fulfil(gossip::Rejected&) {}
  void fulfil(gossip::Muted&) {}
  void fulfil(gossip::SwarmChanged&) {}
  void fulfil(gossip::TokensClipped&) {}
  void fulfil(gossip::FootingChanged&) {}
  // A peer that can be dialled and fetches nothing never wants these.
  void fulfil(gossip::StateOrder&) {}
  void fulfil(gossip::JoinEvent&) {}
  void fulfil(gossip::JoinEnded&) {}
  void fulfil(gossip::RelayFor&) {}
  void fulfil(gossip::RelayChanged&) {}

  // Undone, and neither the core nor the partner hears of it.
  void lose_half(const gossip::StripeRef& ref) {
    lost_.insert(ref);
    submit(gossip::Compensate{ref}, {});
  }

  void submit(gossip::MixerOrder order, Bytes payload) {
    orders_.push_back({std::move(order), std::move(payload)});
    pass_orders();
  }
  // As many as there is room for; one input of the core may give more orders than a ring takes.
  void pass_orders() {
    while (!orders_.empty() && rings_.network_to_mixer.try_push(std::move(orders_.front()))) {
      orders_.pop_front();
    }
  }
  void send(std::uint32_t to, const gossip::Message& message) { post(to, message, {}); }

  void post(std::uint32_t to, const gossip::Message& message, Bytes payload);
  void arm();

  SimulatedGossip& method_;
  SimulatedSwarm& swarm_;
  const std::uint32_t peer_;
  Rings& rings_;
  MixerMetrics metrics_;
  Mixer mixer_;
  gossip::StandInSeal seal_;
  std::optional<gossip::Core> core_;
  PartFeed feed_;
  std::map<PeerId, std::uint32_t> known_;
  std::deque<OrderParcel> orders_;                  // that wait for room, oldest first
  std::map<gossip::ExchangeKey, Instant> offered_;  // by this peer, and not ended
  Bytes at_hand_;
  std::optional<Instant> armed_;
  std::uint64_t ticket_ = 0;  // of the armed timer
  std::unique_ptr<CheckpointImage> image_;
  ExchangeCounts counts_;
  const double lost_halves_ = swarm_.config().simulate.lost_halves;
  Rng rng_;
  std::set<gossip::StripeRef> lost_;  // of which the mixer has not answered yet
};

void SimulatedGossip::Member::post(std::uint32_t to, const gossip::Message& message,
                                   Bytes payload) {
  if (to >= swarm_.size()) return;
  const PeerId from{peer_ + 1U};
  const std::size_t weights = payload.view().size();
  const bool bulk = weights > 0;
  const std::size_t bytes =
      bulk ? gossip::kBulkHeadBytes + weights : gossip::encode(from, message).size();
  const auto arrives =
      swarm_.network().send(swarm_.now(), {peer_, to}, bytes,
                            bulk ? VirtualNetwork::Lane::kWeights : VirtualNetwork::Lane::kSmall);
  if (!arrives) return;
  const std::uint32_t mail = method_.keep({from, to, message, std::move(payload)});
  swarm_.at(*arrives, [this_method = &method_, mail] { this_method->deliver(mail); });
}

// One timer; a later one makes it void.
void SimulatedGossip::Member::arm() {
  const std::optional<Instant> due = core_->next_deadline();
  if (due == armed_) return;
  armed_ = due;
  ++ticket_;
  if (!due) return;
  swarm_.at(*due, [this, ticket = ticket_] {
    if (ticket != ticket_ || !swarm_.lives(peer_)) return;
    armed_.reset();
    core_->on_deadline(swarm_.now());
    settle();
  });
}

SimulatedGossip::SimulatedGossip(SimulatedSwarm& swarm) : swarm_(swarm), members_(swarm.size()) {}
SimulatedGossip::~SimulatedGossip() = default;

Status SimulatedGossip::start(std::uint32_t peer, const CheckpointImage* joined) {
  auto rule = optim::make_outer_rule(swarm_.config().outer.rule);
  if (!rule.ok()) return std::move(rule).error().with_context("outer");
  members_[peer] = std::make_unique<Member>(*this, peer, std::move(rule).value());
  members_[peer]->start(joined);
  return ok_status();
}

void SimulatedGossip::computed(std::uint32_t peer) { members_[peer]->step_over(); }

void SimulatedGossip::stop(std::uint32_t peer, bool crashed) {
  if (!crashed) members_[peer]->leave();
}

void SimulatedGossip::complete(std::uint32_t peer, std::unique_ptr<CheckpointImage>& image) {
  members_[peer]->complete(image);
}

ExchangeCounts SimulatedGossip::exchanges(std::uint32_t peer) const {
  return members_[peer] ? members_[peer]->counts() : ExchangeCounts{};
}

const Mixer& SimulatedGossip::mixer(std::uint32_t peer) const { return members_[peer]->mixer(); }

// --- the mail ---

std::uint32_t SimulatedGossip::keep(Mail mail) {
  if (free_mail_.empty()) {
    free_mail_.push_back(static_cast<std::uint32_t>(mail_.size()));
    mail_.emplace_back();
  }
  const std::uint32_t place = free_mail_.back();
  free_mail_.pop_back();
  mail_[place] = std::move(mail);
  return place;
}

void SimulatedGossip::deliver(std::uint32_t place) {
  Mail mail = std::move(mail_[place]);
  free_mail_.push_back(place);
  if (swarm_.lives(mail.to) && members_[mail.to]) {
    members_[mail.to]->on_mail(mail.from, mail.message, std::move(mail.payload));
  }
}

}  // namespace starling::peer
