// A whole peer for the driver's tests: a real Core over real sockets, with a mixer that holds one
// integer per stripe. The mean of a pair moves a stripe's difference by halves, so the sum over all
// peers is exact whatever happens on the way.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "gossip/net/asio_driver.h"
#include "gossip/wire/wire.h"
#include "tests/gossip/net/net_support.h"

namespace starling::gossip {

struct PeerSetup {
  std::uint8_t id = 1;  // of test_identity
  std::uint64_t incarnation = 1;
  std::uint64_t model = 1;
  std::int64_t value = 0;                // of every stripe at the start
  std::size_t orders_max = 64;           // the mixer is full beyond
  std::uint16_t control_port = 0;        // 0: any
  std::uint16_t bulk_port = 0;           // 0: any
  std::uint16_t advertised_control = 0;  // 0: the true one
  std::uint16_t advertised_bulk = 0;     // 0: the true one
  Duration stripe_timeout = std::chrono::seconds(5);
  DriverLimits limits{};
  bool listens = true;
  Versions versions = kVersions;
  std::optional<AllowList> allow = {};
  std::optional<SwarmSecret> secret = {};
  RelayConfig relay{};
  double relay_bytes_per_second = 0;
};

class TestMixer final : public MixerPort {
 public:
  static constexpr std::size_t kPayloadBytes = 64 * 1024;
  static constexpr std::size_t kStripes = 8;
  static constexpr std::size_t kSlots = 12;

  TestMixer(std::int64_t value, std::size_t orders_max)
      : orders_max_(orders_max), values_(kStripes, value) {}

  bool try_submit(MixerOrder& order, Bytes& payload) override {
    if (orders_.size() >= orders_max_) {
      ++refused_;
      return false;
    }
    orders_.emplace_back(order, std::move(payload));
    return true;
  }

  // Carries out the oldest order and tells the driver.
  void work(AsioDriver& driver) {
    if (orders_.empty()) return;
    auto next = std::move(orders_.front());
    orders_.pop_front();
    const auto payload = next.second.view();
    std::visit([&](const auto& wish) { carry_out(wish, payload, driver); }, next.first);
  }

  std::int64_t sum() const {
    std::int64_t total = 0;
    for (const std::int64_t value : values_) total += value;
    return total;
  }
  const std::vector<std::int64_t>& values() const { return values_; }
  std::uint64_t refused() const { return refused_; }
  std::size_t slots_free() const { return pool_.free_count(); }
  bool slots_home() const { return slots_free() == kSlots; }
  bool idle() const { return orders_.empty(); }

 private:
  std::optional<SlotLease> slot_with(std::int64_t value) {
    auto slot = pool_.try_acquire();
    if (slot) std::memcpy(slot->bytes().data() + kBulkHeadBytes, &value, sizeof value);
    return slot;
  }
  static Verdict verdict_on(const std::optional<SlotLease>& slot) {
    return {slot ? RejectReason::kNone : RejectReason::kNoRoom};
  }
  void send_staged(const StripeRef& ref, AsioDriver& driver) {
    auto slot = slot_with(staged_[ref]);
    const Verdict verdict = verdict_on(slot);
    driver.staged(ref, std::move(slot), kPayloadBytes, verdict);
  }
  static std::int64_t value_in(std::span<const std::byte> payload) {
    STARLING_ASSERT(payload.size() == kPayloadBytes);
    std::int64_t value = 0;
    std::memcpy(&value, payload.data(), sizeof value);
    return value;
  }

  void carry_out(const EncodeStripe& wish, std::span<const std::byte>, AsioDriver& driver) {
    auto slot = slot_with(values_[wish.ref.stripe]);
    const Verdict verdict = verdict_on(slot);
    driver.encoded(wish.ref, std::move(slot), kPayloadBytes, verdict);
  }
  void carry_out(const StageDelta& wish, std::span<const std::byte> payload, AsioDriver& driver) {
    staged_[wish.ref] = (value_in(payload) - values_[wish.ref.stripe]) / 2;
    send_staged(wish.ref, driver);
  }
  void carry_out(const ReissueDelta& wish, std::span<const std::byte>, AsioDriver& driver) {
    send_staged(wish.ref, driver);
  }
  void carry_out(const ApplyDelta& wish, std::span<const std::byte> payload, AsioDriver& driver) {
    applied_[wish.ref] = value_in(payload);
    values_[wish.ref.stripe] -= applied_[wish.ref];
    driver.applied(wish.ref, {});
  }
  void carry_out(const ApplyStaged& wish, std::span<const std::byte>, AsioDriver& driver) {
    values_[wish.ref.stripe] += staged_[wish.ref];
    driver.applied(wish.ref, {});
  }
  void carry_out(const DropStaged& wish, std::span<const std::byte>, AsioDriver&) {
    staged_.erase(wish.ref);
  }
  void carry_out(const Compensate& wish, std::span<const std::byte>, AsioDriver& driver) {
    values_[wish.ref.stripe] += applied_[wish.ref];
    driver.compensated(wish.ref);
  }
  void carry_out(const ForgetDelta& wish, std::span<const std::byte>, AsioDriver&) {
    applied_.erase(wish.ref);
  }

  CpuDevice device_;
  SlotPool pool_{host_memory(device_, kSlots*(kBulkHeadBytes + kPayloadBytes)), kSlots};
  const std::size_t orders_max_;
  std::deque<std::pair<MixerOrder, Bytes>> orders_;
  std::vector<std::int64_t> values_;
  std::map<StripeRef, std::int64_t> staged_;
  std::map<StripeRef, std::int64_t> applied_;
  std::uint64_t refused_ = 0;
};

struct TestEvents final : EventSink {
  std::vector<ExchangeEnded> ended;
  std::vector<PeerChanged> changed;
  std::vector<Refused> refused;
  std::vector<Rejected> rejected;
  std::vector<Muted> muted;
  std::vector<RelayChanged> relays;

  void on_exchange_ended(const ExchangeEnded& event) override { ended.push_back(event); }
  void on_peer_changed(const PeerChanged& event) override { changed.push_back(event); }
  void on_refused(const Refused& event) override { refused.push_back(event); }
  void on_join_event(const JoinEvent&) override {}
  void on_join_ended(const JoinEnded&) override {}
  void on_rejected(const Rejected& event) override { rejected.push_back(event); }
  void on_muted(const Muted& event) override { muted.push_back(event); }
  void on_swarm_changed(const SwarmChanged&) override {}
  void on_relay_changed(const RelayChanged& event) override { relays.push_back(event); }
  void on_tokens_clipped(const TokensClipped&) override {}
  void on_footing_changed(const FootingChanged&) override {}
  bool saw(std::uint8_t id, Health health) const {
    for (const PeerChanged& event : changed) {
      if (event.record.key.id == test_identity(id).id() && event.record.health == health)
        return true;
    }
    return false;
  }
};

class DriverPeer {
 public:
  explicit DriverPeer(const PeerSetup& setup)
      : mixer(setup.value, setup.orders_max),
        identity_(test_identity(setup.id)),
        driver_(make_driver(setup)) {}

  AsioDriver& driver() { return driver_; }
  PeerAddress address() const { return driver_.local_address(); }
  // One turn of the loop and of the mixer.
  void turn() {
    io_.poll();
    io_.restart();
    if (!mixer_sleeps) mixer.work(driver_);
  }

  // The clocks are the real ones, moved by this much.
  Duration ahead{};
  Duration time_of_day_ahead{};
  bool mixer_sleeps = false;
  TestEvents events;
  TestMixer mixer;  // its slots outlive the driver's link

 private:
  AsioDriver make_driver(const PeerSetup& setup) {
    using std::chrono::milliseconds;
    LinkConfig link_setup = link_config(identity_);
    link_setup.run = {.run = 1, .model = setup.model, .layout = 1, .versions = setup.versions};
    link_setup.host = setup.listens ? "127.0.0.1" : "";
    link_setup.control_port = setup.control_port;
    link_setup.bulk_port = setup.bulk_port;
    link_setup.allow = setup.allow;
    link_setup.secret = setup.secret;
    link_setup.process = setup.incarnation;
    link_setup.relay_bytes_per_second = setup.relay_bytes_per_second;
    auto link = ZmqLink::open(link_setup).value();
    GossipConfig config;
    config.ping_interval = milliseconds(100);
    config.suspect_after = milliseconds(600);
    config.dead_after = milliseconds(600);
    config.redial_interval = milliseconds(300);
    config.stripe_timeout = setup.stripe_timeout;
    config.relay = setup.relay;
    CoreIdentity self{.self = {.key = {identity_.id(), setup.incarnation},
                               .address = link.local_address(),
                               .dialable = false},
                      .seal = &seal_,
                      .run = link_setup.run,
                      .stripes = {TestMixer::kStripes},
                      .seed = setup.id};
    PeerAddress& address = self.self.address;
    if (setup.advertised_control != 0) address.control_port = setup.advertised_control;
    if (setup.advertised_bulk != 0) address.bulk_port = setup.advertised_bulk;
    const auto clock = [this] { return steady_now() + ahead; };
    const auto time_of_day = [this] {
      using std::chrono::duration_cast, std::chrono::microseconds;
      const auto moved = duration_cast<microseconds>(time_of_day_ahead).count();
      return time_of_day_now() + static_cast<std::uint64_t>(moved);
    };
    return AsioDriver(io_, Core(config, self, {}, clock()), std::move(link), mixer, events,
                      setup.limits, clock, time_of_day);
  }

  boost::asio::io_context io_;
  Identity identity_;
  IdentitySeal seal_{identity_};
  AsioDriver driver_;
};

// Turns all of `peers` until `done` holds.
template <class Predicate>
bool run_until(std::initializer_list<DriverPeer*> peers, Predicate&& done, double seconds = 10) {
  return eventually(
      [&] {
        for (DriverPeer* peer : peers) peer->turn();
        return done();
      },
      seconds);
}

inline void join(DriverPeer& peer, const PeerAddress& seed) {
  const std::array<PeerAddress, 1> seeds{seed};
  peer.driver().join(seeds);
}

inline bool sees(DriverPeer& peer, std::uint64_t peers_alive) {
  return peer.driver().core().stats().peers_alive == peers_alive;
}

}  // namespace starling::gossip
