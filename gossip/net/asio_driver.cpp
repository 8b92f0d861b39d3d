#include "gossip/net/asio_driver.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "gossip/net/asio_driver_impl.h"

namespace starling::gossip {
namespace {

using boost::asio::posix::stream_descriptor;
using Failure = boost::system::error_code;

// Taken off the link before the loop's other handlers get their turn.
constexpr int kArrivalsPerTurn = 64;
constexpr Duration kRetryPauseMax = std::chrono::milliseconds(32);
constexpr Duration kPacedAfter = std::chrono::seconds(2);
constexpr Duration kDeafPauseMax = std::chrono::milliseconds(2);

}  // namespace

void AsioDriver::Impl::submit(WaitingOrder order) {
  if (orders.empty() && mixer.try_submit(order.order, order.payload)) return;
  orders.push_back(std::move(order));
  retry_soon();
}

bool AsioDriver::Impl::send_payloads(Instant now) {
  const std::uint64_t forwarded = link.stats().relayed.payload_bytes;
  const std::uint64_t said = link.stats().control.bytes_out;
  const std::uint64_t of_others = forwarded - std::exchange(taken, forwarded);
  payloads.take(now, of_others);
  payloads.charge(now, said - std::exchange(charged, said));
  const bool sent = payloads.pump(
      now,
      [this](PeerId peer, PayloadQueues::Frame& frame) {
        return link.try_send_bulk(peer, frame.head, frame.slot, frame.payload_bytes);
      },
      [this](PeerId peer) { report_unreachable(peer); },
      [this](PeerId peer, std::size_t bytes) { return core.payload_within(peer, bytes); });
  if (sent || of_others > 0) {
    last_payload = now;
    arm_pace();
  }
  return sent;
}

// For as long as payloads go out, and until the last ones have arrived.
void AsioDriver::Impl::arm_pace() {
  if (std::exchange(pace_armed, true)) return;
  pace_timer.expires_after(ZmqLink::kPaceEvery);
  pace_timer.async_wait([this](Failure failure) {
    if (failure) return;
    pace_armed = false;
    const Instant now = clock();
    link.pace(now);
    if (now - last_payload < kPacedAfter) arm_pace();
  });
}

void AsioDriver::Impl::arm_watch() {
  watch_timer.expires_after(ZmqLink::kWatchEvery);
  watch_timer.async_wait([this](Failure failure) {
    if (failure) return;
    const Instant now = clock();
    link.watch(now);
    leave_idle_readers(now);
    arm_watch();
  });
}

DeltaCount AsioDriver::Impl::deltas_sent(PeerId to) {
  DeltaCount sent;
  for (const HeldPayloads& held : link.held_payloads()) {
    sent.of_all += held.deltas;
    if (held.to == to) sent.of_peer = held.deltas;
  }
  return sent;
}

// One newcomer that does not read its pieces is not to keep the slots of the others' pieces.
bool AsioDriver::Impl::holds_its_pieces(PeerId newcomer) {
  std::size_t pieces = payloads.pieces(newcomer);
  for (const HeldPayloads& held : link.held_payloads()) {
    if (held.to == newcomer) pieces += held.pieces;
  }
  return pieces >= pieces_of_peer_max;
}

// The core is busy with the input that led here.
void AsioDriver::Impl::put_off(const ReadPiece& order) {
  boost::asio::post(io, [this, order] {
    feed([&](Instant now) { core.on_state(now, PieceReadDone{order, PieceRead::kNoRoom}); });
  });
}

// The oldest frame in ZeroMQ counts: a line that now and then takes one keeps slots, too.
void AsioDriver::Impl::leave_idle_readers(Instant now) {
  for (const HeldPayloads& held : link.held_payloads()) {
    const Duration patience = core.payload_within(held.to, held.bytes);
    if (now - held.since <= PayloadQueues::stuck_max(patience)) continue;
    log_debug("peer {} does not read its payloads: {} given up", to_string(held.to), held.frames);
    link.end_bulk(held.to);
    payloads.drop(held.to);
  }
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
    if (early && has_room()) hear(*std::exchange(early, std::nullopt));
    const std::uint64_t control = link.stats().control.bytes_in, bulk = link.stats().bulk.bytes_in;
    auto arrival = link.try_receive(clock(), hears_payloads());
    download.take(clock(), link.stats().bulk.bytes_in - bulk);
    download.charge(clock(), link.stats().control.bytes_in - control);
    if (!arrival) break;
    if (is_bulk(arrival->message) && !download.may_take(clock())) {
      early = std::move(arrival);
    } else {
      hear(std::move(*arrival));
    }
  }
  tell_core();
  if (link.stats().relayed.waiting > 0) arm_retry();
  // The doorbell also rings when a line has room again.
  if (!payloads.empty() || link.stats().relayed.payload_bytes != taken) send_payloads(clock());
  const bool bulk_too = hears_payloads();
  if (link.readable(bulk_too)) {
    post_pump();
  } else if (bulk_too) {
    arm_doorbell();
  } else {
    wait_to_hear_payloads();
  }
}

void AsioDriver::Impl::hear(Arrival arrival) {
  arrived_payload = std::move(arrival.payload);
  if (const auto* pong = std::get_if<Pong>(&arrival.message)) {
    const std::uint64_t ours = time_of_day();
    clocks.on_pong(clock(), arrival.from, {pong->nonce, ours, pong->time_of_day});
  }
  feed([&](Instant now) {
    if (arrival.through == PeerId{}) {
      core.on_message(now, arrival.from, arrival.message);
    } else {
      core.on_relayed(now, arrival.through, arrival.from, arrival.message);
    }
  });
}

// Over the download limit, and while the mixer is behind, payloads stay where they are, and TCP
// tells their senders to slow down. The mixer waits for none of them to get on.
bool AsioDriver::Impl::hears_payloads() { return !early && has_room(); }

bool AsioDriver::Impl::has_room() {
  return orders.size() < kOrdersWaitingMax && download.may_take(clock());
}

// What is left unread keeps the doorbell ringing, so small messages are looked for by the clock.
void AsioDriver::Impl::wait_to_hear_payloads() {
  const Duration limit = download.wait(clock());
  const bool limited = limit > Duration::zero();
  hearing_timer.expires_after(limited ? std::min(limit, kDeafPauseMax) : kDeafPauseMax);
  hearing_timer.async_wait([this](Failure failure) {
    if (!failure) pump();
  });
}

// What the link has found out by itself.
void AsioDriver::Impl::tell_core() {
  for (const LinkRefusal& refusal : link.take_refusals()) {
    feed([&](Instant now) { core.on_refused(now, refusal.id, refusal.event); });
  }
  for (const BadFrame& frame : link.take_bad_frames()) {
    feed([&](Instant now) { core.on_bad_frame(now, frame.from, frame.reason); });
  }
  for (const Forwarded& ends : link.take_forwarded()) {
    feed([&](Instant now) { core.on_forwarded(now, ends.from, ends.to); });
  }
  const Reach from = link.reached_from(clock(), near);
  if (from != std::exchange(reached_from, from)) {
    feed([&](Instant now) { core.on_reached(now, from); });
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

}  // namespace starling::gossip
