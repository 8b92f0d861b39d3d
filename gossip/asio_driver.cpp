#include "gossip/asio_driver.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "gossip/payload_queues.h"
#include "gossip/wire.h"

namespace starling::gossip {
namespace {

using boost::asio::posix::stream_descriptor;
using Failure = boost::system::error_code;

// Taken off the link before the loop's other handlers get their turn.
constexpr int kArrivalsPerTurn = 64;
constexpr Duration kRetryPauseMin = std::chrono::milliseconds(1);
constexpr Duration kRetryPauseMax = std::chrono::milliseconds(32);

struct WaitingOrder {
  MixerOrder order;
  Bytes payload;
};

// Unused rate is kept for this long: one frame usually costs more anyway.
constexpr double kBurstSeconds = 0.05;
constexpr Duration kDownloadPauseMax = std::chrono::milliseconds(2);

TokenBucket bucket(double bytes_per_second, Instant now) {
  return {bytes_per_second, bytes_per_second * kBurstSeconds, now};
}

template <class T>
inline constexpr bool kIsOrder = std::is_constructible_v<MixerOrder, T>;

}  // namespace

struct AsioDriver::Impl {
  boost::asio::io_context& io;
  Core core;
  ZmqLink link;
  MixerPort& mixer;
  EventSink& events;
  StatePort* states = nullptr;  // null: nobody keeps any
  const Clock clock;

  // Declared behind the link, so that they let go of its descriptor first.
  boost::asio::steady_timer deadline_timer{io};
  boost::asio::steady_timer retry_timer{io};
  boost::asio::steady_timer download_timer{io};
  stream_descriptor doorbell{io, link.descriptor()};
  std::optional<Instant> armed_deadline;
  bool retry_armed = false;
  bool doorbell_armed = false;
  bool pump_posted = false;
  bool reached = false;  // and the core knows
  bool draining = false;
  Duration retry_pause = kRetryPauseMin;

  // The payload at hand, of the input being handled: one of the two, or none.
  Bytes arrived_payload;
  std::optional<SlotLease> made_payload;
  std::size_t made_bytes = 0;

  std::deque<WaitingOrder> orders;  // oldest first
  std::vector<PeerId> unreachable;  // to be told to the core
  PayloadQueues payloads;
  TokenBucket download;
  std::uint64_t control_counted = 0;  // bytes of small messages that the limits know of

  Impl(boost::asio::io_context& loop, Core owned_core, ZmqLink owned_link, MixerPort& mixer_port,
       EventSink& event_sink, const DriverLimits& limits, Clock now)
      : io(loop),
        core(std::move(owned_core)),
        link(std::move(owned_link)),
        mixer(mixer_port),
        events(event_sink),
        clock(std::move(now)),
        payloads(bucket(limits.upload_bytes_per_second, clock())),
        download(bucket(limits.download_bytes_per_second, clock())) {
    post_pump();
  }

  ~Impl() {
    doorbell.release();  // it belongs to the link: given back, not closed
  }

  // Gives the core one input and does what it wants.
  template <class Input>
  void feed(Input&& input) {
    STARLING_ASSERT(!draining);
    draining = true;
    const Instant now = clock();
    input(now);
    while (auto action = core.poll_action()) {
      std::visit([this, now](auto& wish) { this->carry_out(wish, now); }, *action);
    }
    arrived_payload.reset();
    made_payload.reset();
    draining = false;
    arm_deadline(now);
  }

  void carry_out(Greet& wish, Instant) { greet(wish.address, wish.hello); }
  void carry_out(SendRefusal& wish, Instant) { greet(wish.address, wish.refuse); }
  void carry_out(Connect& wish, Instant now) {
    if (!link.connect(now, wish)) report_unreachable(wish.peer);
    arm_retry();  // a test of its address has an end
  }
  void carry_out(Disconnect& wish, Instant) {
    link.disconnect(wish.peer);
    payloads.drop(wish.peer);
  }
  void carry_out(Send& wish, Instant) {
    if (link.try_send_control(wish.to, wish.message) == Sending::kFailed) {
      report_unreachable(wish.to);
    }
    arm_retry();  // the message may be waiting for its line to come up
  }
  void carry_out(SendPayload& wish, Instant now) {
    if (!made_payload) return;  // used by an earlier action of the same input
    payloads.push(wish.to, {wish.head, std::move(made_payload), made_bytes});
    made_payload.reset();
    send_payloads(now);
    if (!payloads.empty()) retry_soon();
  }
  void carry_out(ExchangeEnded& fact, Instant) { events.on_exchange_ended(fact); }
  void carry_out(PeerChanged& fact, Instant) { events.on_peer_changed(fact); }
  void carry_out(Refused& fact, Instant) { events.on_refused(fact); }
  void carry_out(StateOrder& order, Instant) {
    if (states == nullptr) return;
    const bool takes_payload = std::holds_alternative<StorePiece>(order);
    states->submit(order, takes_payload ? std::move(arrived_payload) : Bytes());
  }
  void carry_out(JoinEvent& fact, Instant) { events.on_join_event(fact); }
  void carry_out(JoinEnded& fact, Instant) { events.on_join_ended(fact); }
  void carry_out(Rejected& fact, Instant) { events.on_rejected(fact); }
  void carry_out(Muted& fact, Instant) { events.on_muted(fact); }
  template <class Order>
  requires kIsOrder<Order>
  void carry_out(Order& order, Instant) {
    constexpr bool kTakesPayload =
        std::is_same_v<Order, StageDelta> || std::is_same_v<Order, ApplyDelta>;
    submit({order, kTakesPayload ? std::move(arrived_payload) : Bytes()});
  }

  void greet(const PeerAddress& address, const Message& message) {
    // An address that cannot be dialled is greeted again by the core, like one that is silent.
    static_cast<void>(link.greet(address, message));
    arm_retry();
  }
  void submit(WaitingOrder order);
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
  void arm_doorbell();
  void tell_core();
  void arm_deadline(Instant now);
  void arm_retry();
  void retry_soon();
  void retry();
  bool retry_orders();
  bool send_payloads(Instant now);
  bool hears_payloads();
  void wait_for_download();
};

void AsioDriver::Impl::submit(WaitingOrder order) {
  if (orders.empty() && mixer.try_submit(order.order, order.payload)) return;
  orders.push_back(std::move(order));
  retry_soon();
}

bool AsioDriver::Impl::send_payloads(Instant now) {
  const std::uint64_t control = link.stats().control.bytes_out;
  payloads.charge(now, control - std::exchange(control_counted, control));
  return payloads.pump(
      now,
      [this](PeerId peer, PayloadQueues::Frame& frame) {
        return link.try_send_bulk(peer, frame.head, frame.slot, frame.payload_bytes);
      },
      [this](PeerId peer) { report_unreachable(peer); });
}

void AsioDriver::Impl::post_pump() {
  if (std::exchange(pump_posted, true)) return;
  boost::asio::post(io, [this] {
    pump_posted = false;
    pump();
  });
}

// Only after the link was emptied may we wait for it, and whoever stops earlier must come back by
// himself.
void AsioDriver::Impl::pump() {
  for (int i = 0; i < kArrivalsPerTurn; ++i) {
    const std::uint64_t before = link.stats().control.bytes_in + link.stats().bulk.bytes_in;
    auto arrival = link.try_receive(clock(), hears_payloads());
    download.take(clock(), link.stats().control.bytes_in + link.stats().bulk.bytes_in - before);
    if (!arrival) break;
    arrived_payload = std::move(arrival->payload);
    feed([&](Instant now) { core.on_message(now, arrival->from, arrival->message); });
  }
  tell_core();
  const bool bulk_too = hears_payloads();
  if (link.readable(bulk_too)) {
    post_pump();
  } else if (bulk_too) {
    arm_doorbell();
  } else {
    wait_for_download();
  }
}

// Over the download limit payloads stay where they are, and TCP tells their senders to slow down.
bool AsioDriver::Impl::hears_payloads() { return download.may_take(clock()); }

// What is left unread keeps the doorbell ringing, so small messages are looked for by the clock.
void AsioDriver::Impl::wait_for_download() {
  download_timer.expires_after(std::min(download.wait(clock()), kDownloadPauseMax));
  download_timer.async_wait([this](Failure failure) {
    if (!failure) pump();
  });
}

// What the link has found out by itself.
void AsioDriver::Impl::tell_core() {
  for (const LinkRefusal& refusal : link.take_refusals()) {
    feed([&](Instant now) { core.on_refused(now, refusal.id, refusal.event); });
  }
  for (const PeerId peer : link.take_malformed()) {
    feed([&](Instant now) { core.on_malformed(now, peer); });
  }
  if (link.was_reached() && !std::exchange(reached, true)) {
    feed([&](Instant now) { core.on_reached(now); });
  }
}

void AsioDriver::Impl::arm_doorbell() {
  if (std::exchange(doorbell_armed, true)) return;
  doorbell.async_wait(stream_descriptor::wait_read, [this](Failure failure) {
    if (failure) return;
    doorbell_armed = false;
    pump();
  });
}

void AsioDriver::Impl::arm_deadline(Instant now) {
  const auto deadline = core.next_deadline();
  if (deadline == armed_deadline) return;
  armed_deadline = deadline;
  if (!deadline) {
    deadline_timer.cancel();
    return;
  }
  deadline_timer.expires_after(std::max(*deadline - now, Duration::zero()));
  deadline_timer.async_wait([this](Failure failure) {
    if (failure) return;
    armed_deadline.reset();
    feed([this](Instant at) { core.on_deadline(at); });
  });
}

void AsioDriver::Impl::arm_retry() {
  if (std::exchange(retry_armed, true)) return;
  retry_timer.expires_after(retry_pause);
  retry_timer.async_wait([this](Failure failure) {
    if (failure) return;
    retry_armed = false;
    retry();
  });
}

// Something new waits: that old things are stuck must not delay it.
void AsioDriver::Impl::retry_soon() {
  if (retry_pause > kRetryPauseMin) {
    retry_pause = kRetryPauseMin;
    retry_armed = false;
  }
  arm_retry();
}

void AsioDriver::Impl::retry() {
  const bool orders_moved = retry_orders();
  const bool frames_moved = send_payloads(clock());
  const bool lines_wait = link.flush(clock());
  tell_core();
  for (const PeerId peer : std::exchange(unreachable, {})) {
    feed([this, peer](Instant now) { core.on_send_failed(now, peer); });
  }
  const bool idle = orders.empty() && payloads.empty() && !lines_wait;
  const bool quick = orders_moved || frames_moved || idle;
  retry_pause = quick ? kRetryPauseMin : std::min(2 * retry_pause, kRetryPauseMax);
  if (!idle) arm_retry();
}

// True if any was taken.
bool AsioDriver::Impl::retry_orders() {
  bool moved = false;
  while (!orders.empty() && mixer.try_submit(orders.front().order, orders.front().payload)) {
    orders.pop_front();
    moved = true;
  }
  return moved;
}

Instant steady_now() {
  return Instant(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

AsioDriver::AsioDriver(boost::asio::io_context& io, Core core, ZmqLink link, MixerPort& mixer,
                       EventSink& events, const DriverLimits& limits, Clock clock)
    : impl_(std::make_unique<Impl>(io, std::move(core), std::move(link), mixer, events, limits,
                                   std::move(clock))) {}
AsioDriver::~AsioDriver() = default;
AsioDriver::AsioDriver(AsioDriver&&) noexcept = default;

void AsioDriver::join(std::span<const PeerAddress> seeds) {
  impl_->feed([&](Instant now) { impl_->core.on_join(now, seeds); });
}

void AsioDriver::publish(FragmentId fragment, const FragmentState& state) {
  impl_->feed([&](Instant now) { impl_->core.on_published(now, fragment, state); });
}

void AsioDriver::fragment_state(FragmentId fragment, const FragmentState& state) {
  impl_->feed([&](Instant now) { impl_->core.on_fragment_state(now, fragment, state); });
}

void AsioDriver::progress(std::uint64_t tokens, float tokens_per_second) {
  impl_->feed([&](Instant now) { impl_->core.on_progress(now, tokens, tokens_per_second); });
}

void AsioDriver::part_finished(std::uint16_t part, std::uint16_t times) {
  impl_->feed([&](Instant now) { impl_->core.on_part_finished(now, part, times); });
}

void AsioDriver::parts_held(std::span<const std::uint16_t> parts) {
  impl_->feed([&](Instant now) { impl_->core.on_parts_held(now, parts); });
}

void AsioDriver::sick() {
  impl_->feed([&](Instant now) { impl_->core.on_sick(now); });
}

void AsioDriver::encoded(const StripeRef& ref, std::optional<SlotLease> slot,
                         std::size_t payload_bytes, const Verdict& verdict) {
  STARLING_ASSERT(slot.has_value() == verdict.done());
  impl_->payload_made(std::move(slot), payload_bytes);
  impl_->feed([&](Instant now) { impl_->core.on_encoded(now, ref, verdict, payload_bytes); });
}

void AsioDriver::staged(const StripeRef& ref, std::optional<SlotLease> slot,
                        std::size_t payload_bytes, const Verdict& verdict) {
  STARLING_ASSERT(slot.has_value() == verdict.done());
  impl_->payload_made(std::move(slot), payload_bytes);
  impl_->feed([&](Instant now) { impl_->core.on_staged(now, ref, verdict, payload_bytes); });
}

void AsioDriver::applied(const StripeRef& ref, const Verdict& verdict) {
  impl_->feed([&](Instant now) { impl_->core.on_applied(now, ref, verdict); });
}

void AsioDriver::compensated(const StripeRef& ref) {
  impl_->feed([&](Instant now) { impl_->core.on_compensated(now, ref); });
}

void AsioDriver::keep_states(StatePort& states) { impl_->states = &states; }

void AsioDriver::state(const StateInput& input, std::optional<SlotLease> slot, std::size_t bytes) {
  impl_->payload_made(std::move(slot), bytes);
  impl_->feed([&](Instant now) { impl_->core.on_state(now, input); });
}

void AsioDriver::allow(AllowList allow) {
  impl_->link.set_allow_list(std::move(allow));
  impl_->tell_core();
}

void AsioDriver::close() {
  impl_->feed([&](Instant now) { impl_->core.on_close(now); });
}

void AsioDriver::allow_exchanges(bool allowed) {
  impl_->feed([&](Instant now) { impl_->core.on_exchanges_allowed(now, allowed); });
}

void AsioDriver::leave() {
  impl_->feed([&](Instant now) { impl_->core.on_leave(now); });
}

const Core& AsioDriver::core() const { return impl_->core; }
const PeerAddress& AsioDriver::local_address() const { return impl_->link.local_address(); }
const LinkStats& AsioDriver::link_stats() const { return impl_->link.stats(); }

DriverStats AsioDriver::stats() const {
  return {.frames_waiting = impl_->payloads.frames(),
          .frames_dropped = impl_->payloads.dropped(),
          .orders_waiting = impl_->orders.size()};
}

}  // namespace starling::gossip
