// Puppet: a member without a core, over a real link: it says what it is told to, answers for its
// life, and reads payloads while it wants any. One thread.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "tests/gossip/net/driver_peer.h"

namespace starling::gossip {

class Puppet {
 public:
  static constexpr std::size_t kSlotBytes = kBulkHeadBytes + TestMixer::kPayloadBytes;

  // `slots`: pushes that may be under way.
  explicit Puppet(std::uint8_t number, std::uint32_t slots = 8)
      : identity_(test_identity(number)), pool_(host_memory(device_, slots * kSlotBytes), slots) {}

  PeerKey key() const { return {identity_.id(), 1}; }
  void join(const PeerAddress& address) {
    const RunIdentity run{.run = 1, .model = 1, .layout = 1};
    PeerRecord self{.key = record_key(key(), 0), .address = link_.local_address()};
    self.signature = IdentitySeal(identity_).sign(sealed_text(run.run, self));
    REQUIRE(link_.greet(address, Hello{self, run}, {}));
    REQUIRE(connect(link_, address));
    target_ = id_of(address.key);
  }
  void say(const Message& message) { static_cast<void>(link_.try_send_control(target_, message)); }
  void offer(const ExchangeKey& key, FragmentId fragment) {
    Offer offer;
    offer.exchange = key;
    offer.fragment = fragment;
    offer.stripes = TestMixer::kStripes;
    offer.format = 1;
    offer.patience_ms = 5000;
    say(offer);
  }
  // True if it is under way.
  bool push(const StripeRef& ref) {
    auto slot = pool_.try_acquire();
    if (!slot) return false;
    return link_.try_send_bulk(target_, Push{ref}, slot, TestMixer::kPayloadBytes) ==
           Sending::kSent;
  }
  // Takes in what has come, and answers for its life.
  void turn() {
    link_.flush(steady_now());
    while (const auto arrival = link_.try_receive(steady_now(), payloads_wanted > 0)) {
      if (const auto* asked = std::get_if<Ping>(&arrival->message)) {
        Pong pong;
        pong.nonce = asked->nonce;
        say(pong);
      }
      if (const auto* accept = std::get_if<Accept>(&arrival->message)) accepted = accept->exchange;
      payloads_wanted -= is_bulk(arrival->message) ? 1 : 0;
      ++heard[arrival->message.index()];
    }
  }

  std::optional<ExchangeKey> accepted;
  int payloads_wanted = INT_MAX;                                  // 0: it reads none
  std::array<std::size_t, std::variant_size_v<Message>> heard{};  // messages by kind
  template <class Kind>
  std::size_t heard_of() const {
    return heard[Message(Kind{}).index()];
  }

 private:
  Identity identity_;
  CpuDevice device_;
  SlotPool pool_;
  ZmqLink link_ = open_link(identity_);
  PeerId target_;
};

}  // namespace starling::gossip
