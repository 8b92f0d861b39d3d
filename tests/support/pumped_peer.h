// PumpedPeer: one peer of a pumped swarm: its three roles and the mailbag between them. Included by
// pumped_swarm.cpp only. Thread: one owner.
#pragma once

#include <algorithm>
#include <variant>

#include "tests/support/device_floats.h"
#include "tests/support/pattern_batches.h"
#include "tests/support/pumped_states.h"
#include "tests/support/pumped_swarm.h"

namespace starling::testing {

inline gossip::PeerAddress address_of(std::uint32_t index) {
  gossip::PeerAddress address;
  const bool fits = gossip::set_host(address, "peer");
  STARLING_ASSERT(fits);
  address.control_port = static_cast<std::uint16_t>(1000 + index);
  address.bulk_port = static_cast<std::uint16_t>(2000 + index);
  address.key = gossip::stand_in_key(PeerId{index + 1U});
  return address;
}

inline std::uint32_t index_of(const gossip::PeerAddress& address) {
  return address.control_port - 1000U;
}

inline SlotPool make_pool(Device& device, std::uint32_t slots, std::size_t slot_bytes) {
  const std::size_t bytes = slots * ((slot_bytes + 63) / 64 * 64);
  return SlotPool(device.allocate(MemoryKind::kHostPinned, bytes).value(), slots);
}

class PumpedPeer {
 public:
  PumpedPeer(PumpedSwarm& swarm, std::uint32_t index, std::uint64_t incarnation,
             const peer::CheckpointImage* image, bool fetches = false)
      : swarm_(swarm),
        index_(index),
        layout_(model::ParamLayout::plan(swarm.options_.trainer.model, swarm.options_.fragments)
                    .value()),
        stripes_(layout_),
        backend_(swarm.options_.backend()),
        batches_(swarm.options_.seed * 1000 + index),
        floats_(make_pool(*backend_.device, swarm.options_.slots,
                          stripes_.parameters_max() * sizeof(float))),
        payloads_(make_pool(*backend_.device, swarm.options_.slots,
                            stripes_.parameters_max() * sizeof(float) + 4096)),
        rings_(swarm.options_.slots),
        trainer_(peer::Trainer::create(trainer_config(), layout_, stripes_, backend_, batches_,
                                       floats_, rings_, trainer_metrics_)
                     .value()),
        mixer_(swarm.options_.mixer, stripes_, optim::make_outer_rule(swarm.options_.outer).value(),
               floats_, payloads_, rings_, mixer_metrics_, [] {}),
        core_(make_core(incarnation, image)),
        states_(swarm.options_, index, stripes_) {
    if (image != nullptr) {
      trainer_->restore(*image);
      mixer_.restore(*image);
      tokens_before_ = image->progress.tokens;
    } else {
      mixer_.start(floats_of(*backend_.device, trainer_->weights()));
    }
    auto fresh = std::make_unique<peer::CheckpointImage>(layout_.elements(), true);
    STARLING_ASSERT(rings_.images_to_trainer.try_push(std::move(fresh)));
    std::vector<gossip::PeerAddress> seeds;
    for (std::uint32_t other = 0; other < swarm.options_.peers; ++other) {
      if (other != index) seeds.push_back(address_of(other));
    }
    if (fetches) {
      core_.on_state(swarm.now_, states_.fetch(swarm.options_.gossip.state.moments));
      waiting_ = true;
    }
    core_.on_join(swarm.now_, seeds);
    drain();
  }

  peer::TrainerConfig trainer_config() const {
    peer::TrainerConfig config = swarm_.options_.trainer;
    if (swarm_.options_.different_starts) config.init_seed += index_;
    return config;
  }

  gossip::Core make_core(std::uint64_t incarnation, const peer::CheckpointImage* image) {
    gossip::CoreIdentity identity;
    identity.self.key = {PeerId{index_ + 1U}, incarnation};
    identity.self.address = address_of(index_);
    identity.seal = &seal_;
    identity.run = {.run = 1, .model = 2, .layout = layout_.digest()};
    identity.stripes = stripes_.counts();
    identity.seed = swarm_.options_.seed * 77 + index_ + incarnation * 1000;
    gossip::RestoredState restored;
    if (image != nullptr) restored = {image->ledger, image->tokens};
    return gossip::Core(swarm_.options_.gossip, identity, restored, swarm_.now_);
  }

  void step() {
    if (waiting_) return;
    swarm_.options_.before_pump();
    trainer_->pump();
    swarm_.options_.after_pump();
    mix();
    const auto seconds = to_seconds(swarm_.options_.step_time);
    core_.on_progress(swarm_.now_, trainer_->progress().tokens - tokens_before_,
                      static_cast<float>(1 / seconds));
    if (trainer_->finished() && !swarm_.settling_) offer_again();
    drain();
    trainer_metrics_.swarm_tokens.set(core_.swarm_tokens(swarm_.now_));
    trainer_metrics_.equal_peers.set(core_.equal_peers());
  }

  // Closing: fragments are offered in turn, with nothing new in them but what gossip brought.
  void offer_again() {
    if (published_.empty()) return;
    const auto next = published_.upper_bound(last_offered_);
    const auto chosen = next == published_.end() ? published_.begin() : next;
    last_offered_ = chosen->first;
    core_.on_published(swarm_.now_, chosen->first, chosen->second);
  }

  void on_mail(const gossip::Message& message, PeerId from, std::vector<std::byte> payload) {
    at_hand_ = Bytes::copy_of(payload);
    core_.on_message(swarm_.now_, from, message);
    drain();
    at_hand_.reset();
  }

  void on_time() {
    if (core_.next_deadline() && *core_.next_deadline() <= swarm_.now_) {
      core_.on_deadline(swarm_.now_);
      drain();
    }
  }

  // Everything the mixer has to do and everything the core makes of its answers.
  void mix() {
    while ((!waiting_ && mixer_.pump()) || answers() || keep_states()) drain();
    drain();
  }

  bool keep_states() {
    auto answer = states_.work(newest_.get());
    if (!answer) return false;
    at_hand_ = Bytes::copy_of(answer->payload);
    core_.on_state(swarm_.now_, answer->input);
    drain();
    at_hand_.reset();
    return true;
  }

  void begin() {
    waiting_ = false;
    if (joined_.ended.back().outcome != gossip::JoinOutcome::kFetched) return;
    const auto image = states_.image(joined_.ended.back());
    trainer_->restore(*image);
    mixer_.restore(*image);
  }

  bool answers() {
    auto parcel = rings_.mixer_to_network.try_pop();
    if (!parcel) return false;
    std::visit([this](auto& content) { answer(content); }, *parcel);
    return true;
  }

  void answer(peer::FragmentPublished& published) {
    published_[published.fragment] = published.state;
    if (published.offer) {
      core_.on_published(swarm_.now_, published.fragment, published.state);
    } else {
      core_.on_fragment_state(swarm_.now_, published.fragment, published.state);
    }
  }
  template <class T>
  void answer_payload(T& made, bool encoded) {
    if (made.slot) {
      at_hand_ = Bytes::copy_of(made.slot->bytes().first(made.payload_bytes));
    }
    if (encoded) {
      core_.on_encoded(swarm_.now_, made.ref, made.verdict, made.payload_bytes);
    } else {
      core_.on_staged(swarm_.now_, made.ref, made.verdict, made.payload_bytes);
    }
    drain();
    at_hand_.reset();
  }
  void answer(peer::Encoded& encoded) { answer_payload(encoded, true); }
  void answer(peer::Staged& staged) { answer_payload(staged, false); }
  void answer(peer::Applied& applied) {
    core_.on_applied(swarm_.now_, applied.ref, applied.verdict);
  }
  void answer(peer::Compensated& done) { core_.on_compensated(swarm_.now_, done.ref); }
  void answer(peer::Sick&) { core_.on_sick(swarm_.now_); }
  void answer(std::unique_ptr<peer::CheckpointImage>& image) {
    image->tokens = core_.token_map();
    if (image->sound) newest_ = std::make_unique<peer::CheckpointImage>(*image);
    STARLING_ASSERT(rings_.images_to_trainer.try_push(std::move(image)));
  }

  void drain() {
    while (auto action = core_.poll_action()) {
      std::visit([this](auto& wish) { fulfil(wish); }, *action);
      core_.assert_invariants();
    }
  }
  void fulfil(gossip::Greet& greet) { send(index_of(greet.address), greet.hello); }
  void fulfil(gossip::Connect& connect) { known_[connect.peer] = index_of(connect.address); }
  void fulfil(gossip::Disconnect& gone) { known_.erase(gone.peer); }
  void fulfil(gossip::Send& wish) {
    if (known_.contains(wish.to)) send(known_[wish.to], wish.message);
  }
  void fulfil(gossip::Reply& reply) {
    send(static_cast<std::uint32_t>(reply.to.value - 1), reply.message);
  }
  void fulfil(gossip::SendPayload& wish) {
    if (known_.contains(wish.to)) {
      swarm_.post(index_, known_[wish.to], wish.head, at_hand_.view());
    }
  }
  void fulfil(gossip::StageDelta& order) { submit(order, std::move(at_hand_)); }
  void fulfil(gossip::ApplyDelta& order) { submit(order, std::move(at_hand_)); }
  void fulfil(gossip::EncodeStripe& order) { submit(order, {}); }
  void fulfil(gossip::ReissueDelta& order) { submit(order, {}); }
  void fulfil(gossip::ApplyStaged& order) { submit(order, {}); }
  void fulfil(gossip::DropStaged& order) { submit(order, {}); }
  void fulfil(gossip::Compensate& order) { submit(order, {}); }
  void fulfil(gossip::ForgetDelta& order) { submit(order, {}); }
  void fulfil(gossip::ExchangeEnded&) {}
  void fulfil(gossip::PeerChanged&) {}
  void fulfil(gossip::Refused&) {}
  void fulfil(gossip::StateOrder& order) {
    const bool takes_payload = std::holds_alternative<gossip::StorePiece>(order);
    states_.submit(order, takes_payload ? std::move(at_hand_) : Bytes());
  }
  void fulfil(gossip::JoinEvent& event) { joined_.events.push_back(event); }
  void fulfil(gossip::JoinEnded& ended) {
    joined_.ended.push_back(ended);
    begin();
  }
  void fulfil(gossip::Rejected& event) { rejected_.push_back(event); }
  void fulfil(gossip::SwarmChanged&) {}
  // Everybody can be dialled: nobody asks for a relay.
  void fulfil(gossip::RelayFor&) {}
  void fulfil(gossip::RelayChanged&) {}
  void fulfil(gossip::TokensClipped&) {}
  void fulfil(gossip::FootingChanged&) {}
  void fulfil(gossip::Muted& event) { muted_.push_back(event); }

  void submit(gossip::MixerOrder order, Bytes payload) {
    const bool taken =
        rings_.network_to_mixer.try_push(peer::OrderParcel{std::move(order), std::move(payload)});
    STARLING_ASSERT(taken);
  }
  void send(std::uint32_t to, const gossip::Message& message) {
    swarm_.post(index_, to, message, {});
  }

  PumpedSwarm& swarm_;
  const std::uint32_t index_;
  model::ParamLayout layout_;
  peer::StripeTable stripes_;
  peer::Backend backend_;
  PatternBatches batches_;
  SlotPool floats_, payloads_;
  peer::Rings rings_;
  peer::TrainerMetrics trainer_metrics_;
  peer::MixerMetrics mixer_metrics_;
  std::unique_ptr<peer::Trainer> trainer_;
  peer::Mixer mixer_;
  gossip::StandInSeal seal_{PeerId{index_ + 1U}};
  gossip::Core core_;
  PumpedStates states_;
  PumpedJoin joined_;
  bool waiting_ = false;  // for the end of its joining
  std::map<PeerId, std::uint32_t> known_;
  std::map<FragmentId, gossip::FragmentState> published_;
  FragmentId last_offered_;
  Bytes at_hand_;
  std::vector<gossip::Rejected> rejected_;
  std::vector<gossip::Muted> muted_;
  std::unique_ptr<peer::CheckpointImage> newest_;
  Instant next_step_{};
  std::uint64_t incarnation_ = 1;
  std::uint64_t tokens_before_ = 0;  // trained in the life before
  bool alive_ = true;
};

}  // namespace starling::testing
