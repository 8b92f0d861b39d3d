// What a ZmqLink sends and receives through relays, and forwards as one.
#include <utility>

#include "base/log.h"
#include "gossip/net/link_impl.h"

namespace starling::gossip {
namespace {

std::span<std::byte> span_of(zmq::message_t& message) {
  return {static_cast<std::byte*>(message.data()), message.size()};
}

}  // namespace

// The relay to `contact`, if the core has named one and is connected to it.
Contact* ZmqLink::Impl::relay_of(const Contact& contact) {
  return contact.path.relay == PeerId{} ? nullptr : connected(contact.path.relay);
}

std::optional<zmq::message_t> ZmqLink::Impl::sealed(const Contact& contact, bool bulk_lane,
                                                    std::span<const std::byte> frame) {
  zmq::message_t envelope(frame.size() + kEnvelopeBytes);
  const Sealer::Receiver to{contact.address.key, contact.path.process};
  if (!sealer.seal(to, bulk_lane, frame, span_of(envelope))) return std::nullopt;
  return envelope;
}

bool ZmqLink::Impl::send_sealed(Contact& contact, const std::vector<std::byte>& frame,
                                bool awaits_payload) {
  Contact* relay = relay_of(contact);
  if (relay == nullptr) return false;
  auto envelope = sealed(contact, false, frame);
  if (!envelope) return false;
  const bool sent =
      pass_control(*relay, *envelope) || wait_for_line(*relay, *envelope, relay->dialable);
  if (sent && awaits_payload && relay->line) open_bulk(*relay);
  return sent;
}

// Sealed in one copy once there is room for it; the slot goes home at once.
Sending ZmqLink::Impl::send_bulk_sealed(Contact& contact, const Message& head,
                                        std::optional<SlotLease>& slot, std::size_t bytes) {
  Contact& relay = *relay_of(contact);
  return pass_bulk(relay, bytes + kEnvelopeBytes, [&] {
    const auto frame = slot->bytes().first(bytes);
    encode_bulk_head(id_of(self), head, frame, contact.version);
    auto envelope = sealed(contact, true, frame);
    slot.reset();
    STARLING_ASSERT(envelope.has_value());
    return std::move(*envelope);
  });
}

// An envelope is for us, or to be forwarded.
void ZmqLink::Impl::take_envelope(Came&& came, std::optional<Arrival>& arrival) {
  const auto head = read_head(view(came.frame));
  if (!head || head->bulk != (came.lane == PortKind::kBulk)) {
    ++stats.relayed.envelopes[static_cast<std::size_t>(EnvelopeFault::kMalformed)];
    return drop(came.key, RejectReason::kMalformed, "an envelope that nobody could have sealed");
  }
  if (head->to != id_of(self) || head->from == came.key) return forward(std::move(came), *head);
  const PeerId relay = id_of(came.key);
  if (!door.allows(head->from)) return note_unlisted(*head, relay);
  zmq::message_t frame(came.frame.size() - kEnvelopeBytes);
  const EnvelopeFault fault = open_envelope(came, *head, span_of(frame));
  ++stats.relayed.envelopes[static_cast<std::size_t>(fault)];
  if (fault != EnvelopeFault::kNone) return note_fault(*head, relay, fault);
  take_frame({.lane = came.lane,
              .key = head->from,
              .route = {},
              .frame = std::move(frame),
              .path = {relay, head->from_process}},
             arrival);
}

// For this process only is it worth a token: the rest costs nothing to drop.
EnvelopeFault ZmqLink::Impl::open_envelope(const Came& came, const EnvelopeHead& head,
                                           std::span<std::byte> frame) {
  const bool costs = sealer.is_for_us(head) && !sealer.knows(head.from);
  if (costs && !envelope_limit.take(called_at, id_of(came.key))) return EnvelopeFault::kUnread;
  return sealer.open(view(came.frame), head, frame);
}

// Not reported as a refusal: anybody can write this head, and with it a partner's id.
void ZmqLink::Impl::note_unlisted(const EnvelopeHead& head, PeerId relay) {
  if (!is_worth_a_line(++stats.not_allowed)) return;
  log_warning("dropped an envelope through relay {}: {} is not on the allow-list ({} so far)",
              to_string(relay), to_string(head.from), stats.not_allowed);
}

// Said aloud ever more rarely. Whose fault it is cannot be told: the relay may have changed it, or
// its sender have sealed it so.
void ZmqLink::Impl::note_fault(const EnvelopeHead& head, PeerId relay, EnvelopeFault fault) {
  const std::uint64_t count = stats.relayed.envelopes[static_cast<std::size_t>(fault)];
  if (!is_worth_a_line(count)) return;
  log_warning("dropped an envelope of peer {} through relay {}: {} ({} so far)",
              to_string(id_of(head.from)), to_string(relay), to_string(fault), count);
}

void ZmqLink::Impl::forward(Came&& came, const EnvelopeHead& head) {
  if (head.from != came.key) return drop(came.key, RejectReason::kOthersName, "an envelope");
  if (head.to == id_of(self)) {
    return drop(came.key, RejectReason::kMalformed, "an envelope that its own sender has brought");
  }
  const Forwarded ends{id_of(came.key), head.to};
  if (!forwarder.serves(ends.from, ends.to)) {
    ++stats.relayed.unasked;
    const bool payload = came.lane == PortKind::kBulk;
    return note_idle(came.key, payload ? &Contact::idle_payloads : &Contact::idle,
                     "to be forwarded for nobody who holds our promise");
  }
  // The core is to keep lines to both open, or to open them: one may have been closed as idle.
  if (forwarded.size() < kForwardedMax && (forwarded.empty() || forwarded.back() != ends)) {
    forwarded.push_back(ends);
  }
  Contact* sender = connected(ends.from);
  Contact* receiver = connected(ends.to);
  if (sender == nullptr || receiver == nullptr) {
    ++stats.relayed.unasked;
    return;
  }
  note_route(*sender, came);
  const std::size_t bytes = came.frame.size();
  if (came.lane == PortKind::kBulk) {
    if (!forwarder.hold(called_at, ends.from, ends.to, std::move(came.frame)))
      ++stats.relayed.over_rate;
    pump_forwarder();
  } else if (!forwarder.admit(called_at, ends.from, bytes)) {
    ++stats.relayed.over_rate;
  } else if (pass_control(*receiver, came.frame)) {
    ++stats.relayed.frames;
    stats.relayed.bytes += bytes;
  } else {
    ++stats.relayed.lost;
  }
}

void ZmqLink::Impl::pump_forwarder() {
  const auto pumped = forwarder.pump(called_at, [this](PeerId to, zmq::message_t& frame) {
    Contact* receiver = connected(to);
    if (receiver == nullptr) return Sending::kFailed;
    return pass_bulk(*receiver, frame.size(), [&frame] { return std::move(frame); });
  });
  stats.relayed.frames += pumped.sent;
  stats.relayed.bytes += pumped.bytes;
  stats.relayed.payload_bytes += pumped.bytes;
  stats.relayed.lost += pumped.lost;
  stats.relayed.waiting = forwarder.held();
}

void ZmqLink::relay_for(PeerId peer, bool wanted) { impl_->forwarder.set_holder(peer, wanted); }

std::vector<Forwarded> ZmqLink::take_forwarded() { return std::exchange(impl_->forwarded, {}); }

}  // namespace starling::gossip
