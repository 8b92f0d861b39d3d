// What AsioDriver is made of: the loop's timers and the link's descriptor, and what waits. The loop
// is in asio_driver.cpp, the driver's face in asio_driver_inputs.cpp. Included by those two only.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "gossip/net/asio_driver.h"
#include "gossip/net/payload_queues.h"

namespace starling::gossip {

struct WaitingOrder {
  MixerOrder order;
  Bytes payload;
};

template <class T>
inline constexpr bool kIsOrder = std::is_constructible_v<MixerOrder, T>;

struct AsioDriver::Impl {
  boost::asio::io_context& io;
  Core core;
  // What it advertises leads here from this network alone.
  const bool near = reach_of(host(core.self().address)) <= Reach::kThisNetwork;
  ZmqLink link;
  MixerPort& mixer;
  EventSink& events;
  StatePort* states = nullptr;  // null: nobody keeps any
  const Clock clock;
  const TimeOfDay time_of_day;
  ClockOffsets clocks;

  // Declared behind the link, so that they let go of its descriptor first.
  boost::asio::steady_timer deadline_timer{io};
  boost::asio::steady_timer retry_timer{io};
  boost::asio::steady_timer hearing_timer{io};
  boost::asio::steady_timer pace_timer{io};
  boost::asio::steady_timer watch_timer{io};
  boost::asio::posix::stream_descriptor doorbell{io, link.descriptor()};
  std::optional<Instant> armed_deadline;
  bool retry_armed = false;
  bool pace_armed = false;
  bool doorbell_armed = false;
  bool pump_posted = false;
  Reach reached_from = Reach::kUnspecified;  // as the core knows
  bool draining = false;
  static constexpr Duration kRetryPauseMin = std::chrono::milliseconds(1);
  static constexpr Duration kPauseLeast = std::chrono::seconds(1);
  Duration retry_pause = kRetryPauseMin;

  // The payload at hand, of the input being handled: one of the two, or none.
  Bytes arrived_payload;
  std::optional<SlotLease> made_payload;
  std::size_t made_bytes = 0;

  std::deque<WaitingOrder> orders;  // oldest first
  std::vector<PeerId> unreachable;  // to be told to the core
  PayloadQueues payloads;
  const std::size_t pieces_of_peer_max;
  TokenBucket download;
  // Read before the download limit had room for all of it, and heard when it has. As over a line of
  // that speed: whoever sent it measures the limit, and sends no more ahead than it fits.
  std::optional<Arrival> early;
  // Bytes that the upload limit knows of: forwarded payloads, small messages.
  std::uint64_t taken = 0, charged = 0;
  Instant last_payload;  // was sent

  Impl(boost::asio::io_context& loop, Core owned_core, ZmqLink owned_link, MixerPort& mixer_port,
       EventSink& event_sink, const DriverLimits& limits, Clock now, TimeOfDay date)
      : io(loop),
        core(std::move(owned_core)),
        link(std::move(owned_link)),
        mixer(mixer_port),
        events(event_sink),
        clock(std::move(now)),
        time_of_day(std::move(date)),
        payloads(limit_of(limits.upload_bytes_per_second, clock()),
                 {limits.deltas_of_peer_max, limits.deltas_max}),
        pieces_of_peer_max(limits.pieces_of_peer_max),
        download(limit_of(limits.download_bytes_per_second, clock())) {
    if (const auto& allow = link.allow_list()) core.on_members(clock(), allow->ids());
    post_pump();
    arm_watch();
  }

  ~Impl() {
    doorbell.release();  // it belongs to the link: given back, not closed
  }

  static TokenBucket limit_of(double bytes_per_second, Instant now) {
    // Unused rate is kept for this long: one frame usually costs more anyway.
    constexpr double kBurstSeconds = 0.05;
    return {bytes_per_second, bytes_per_second * kBurstSeconds, now};
  }

  // Gives the core one input and does what it wants.
  template <class Input>
  void feed(Input&& input) {
    STARLING_ASSERT(!draining);
    draining = true;
    const Instant now = clock();
    // After a pause what it finds in the sockets is heard first; what that begins is not to be
    // taken for as old as the pause.
    if (armed_deadline && now - *armed_deadline > kPauseLeast) core.on_deadline(now);
    input(now);
    while (auto action = core.poll_action()) {
      std::visit([this, now](auto& wish) { this->carry_out(wish, now); }, *action);
    }
    arrived_payload.reset();
    made_payload.reset();
    draining = false;
    arm_deadline(now);
  }

  void carry_out(Greet& wish, Instant) { greet(wish.address, wish.hello, wish.path); }
  void carry_out(Reply& wish, Instant) {
    link.reply(wish.to, wish.message);
    arm_retry();
  }
  void carry_out(Connect& wish, Instant now) {
    if (!link.connect(now, wish)) report_unreachable(wish.peer);
    arm_retry();  // a test of its address has an end
  }
  void carry_out(Disconnect& wish, Instant) {
    link.disconnect(wish.peer);
    payloads.drop(wish.peer);
  }
  void carry_out(Send& wish, Instant now) {
    if (auto* ping = std::get_if<Ping>(&wish.message)) clocks.on_ping(now, wish.to, ping->nonce);
    if (auto* pong = std::get_if<Pong>(&wish.message)) pong->time_of_day = time_of_day();
    if (link.try_send_control(wish.to, wish.message) == Sending::kFailed) {
      report_unreachable(wish.to);
    }
    arm_retry();  // the message may be waiting for its line to come up
  }
  void carry_out(SendPayload& wish, Instant now) {
    if (!made_payload) return;  // used by an earlier action of the same input
    payloads.push(wish.to, {wish.head, std::move(made_payload), made_bytes}, deltas_sent(wish.to));
    made_payload.reset();
    send_payloads(now);
    if (!payloads.empty()) retry_soon();
  }
  void carry_out(ExchangeEnded& fact, Instant) { events.on_exchange_ended(fact); }
  void carry_out(PeerChanged& fact, Instant) { events.on_peer_changed(fact); }
  void carry_out(Refused& fact, Instant) { events.on_refused(fact); }
  void carry_out(StateOrder& order, Instant) {
    if (states == nullptr) return;
    if (const auto* read = std::get_if<ReadPiece>(&order)) {
      if (holds_its_pieces(read->to)) return put_off(*read);
    }
    const bool takes_payload = std::holds_alternative<StorePiece>(order);
    states->submit(order, takes_payload ? std::move(arrived_payload) : Bytes());
  }
  void carry_out(JoinEvent& fact, Instant) { events.on_join_event(fact); }
  void carry_out(JoinEnded& fact, Instant) { events.on_join_ended(fact); }
  // Whoever floods is not even to be read; it may come again, and has to be let in first.
  void carry_out(Rejected& fact, Instant) {
    if (fact.by_us && fact.reason == RejectReason::kDeluge) link.cut_off(fact.peer);
    events.on_rejected(fact);
  }
  void carry_out(Muted& fact, Instant now) {
    const bool floods = fact.by_us && fact.reason == RejectReason::kDeluge;
    if (floods) link.shun_bulk(now, fact.peer, fact.length);
    events.on_muted(fact);
  }
  void carry_out(SwarmChanged& fact, Instant) { events.on_swarm_changed(fact); }
  void carry_out(RelayFor& wish, Instant) { link.relay_for(wish.peer, wish.wanted); }
  void carry_out(RelayChanged& fact, Instant) { events.on_relay_changed(fact); }
  void carry_out(TokensClipped& fact, Instant) { events.on_tokens_clipped(fact); }
  void carry_out(FootingChanged& fact, Instant) { events.on_footing_changed(fact); }
  template <class Order>
  requires kIsOrder<Order>
  void carry_out(Order& order, Instant) {
    constexpr bool kTakesPayload =
        std::is_same_v<Order, StageDelta> || std::is_same_v<Order, ApplyDelta>;
    submit({order, kTakesPayload ? std::move(arrived_payload) : Bytes()});
  }

  void greet(const PeerAddress& address, const Message& message, const RelayPath& path) {
    // An address that cannot be dialled is greeted again by the core, like one that is silent.
    static_cast<void>(link.greet(address, message, path));
    arm_retry();
  }
  void submit(WaitingOrder order);
  bool holds_its_pieces(PeerId newcomer);
  void put_off(const ReadPiece& order);
  // Told to the core later: it is busy with the input that led here.
  void report_unreachable(PeerId peer) {
    const bool known = std::count(unreachable.begin(), unreachable.end(), peer) > 0;
    if (!known) unreachable.push_back(peer);
    arm_retry();
  }

  void payload_made(std::optional<SlotLease> slot, std::size_t payload_bytes) {
    made_payload = std::move(slot);
    made_bytes = payload_bytes;
  }

  void post_pump();
  void pump();
  void hear(Arrival arrival);
  void arm_doorbell();
  void tell_core();
  void arm_deadline(Instant now);
  void arm_retry();
  void retry_soon();
  void retry();
  bool retry_orders();
  bool send_payloads(Instant now);
  void arm_pace();
  DeltaCount deltas_sent(PeerId to);
  void arm_watch();
  void leave_idle_readers(Instant now);
  bool hears_payloads();
  bool has_room();  // for one more payload
  void wait_to_hear_payloads();
};

}  // namespace starling::gossip
