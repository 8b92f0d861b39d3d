// ZmqLink: payloads on their way out, over which connections and how fast.
#include <utility>

#include "base/log.h"
#include "gossip/net/link_impl.h"

namespace starling::gossip {
namespace {

void log_losses(PeerId peer, Endurance endurance) {
  if (endurance == Endurance::kGiven) {
    log_info("the line to peer {} loses packets though it is not full: payloads use BBR now",
             to_string(peer));
  } else if (endurance == Endurance::kNone) {
    log_warning(
        "the line to peer {} loses packets though it is not full, which slows TCP "
        "down; 'starling doctor' tells how to let payloads use BBR",
        to_string(peer));
  }
}

}  // namespace

// So that the other side, which perhaps cannot dial us, can send payloads.
void ZmqLink::Impl::open_bulk(Contact& way) {
  if (reach.farthest(called_at) == Reach::kAnywhere) return;
  if (open_bulk_lane(way)) way.line->introduce_bulk(frame_for(way, BulkHello{}));
}

zmq::message_t ZmqLink::Impl::freeze(const Contact& contact, const Message& head,
                                     std::optional<SlotLease>& slot, std::size_t bytes) {
  encode_bulk_head(id_of(self), head, slot->bytes().first(bytes), contact.version);
  FrozenSlot frozen(std::move(*slot), bytes);
  slot.reset();
  return sent_frames.add(called_at, contact.id(), std::move(frozen), head);
}

Sending ZmqLink::Impl::send_bulk(Contact& contact, const Message& head,
                                 std::optional<SlotLease>& slot, std::size_t payload_bytes) {
  STARLING_ASSERT(slot.has_value());
  STARLING_ASSERT(payload_bytes <= slot->bytes().size() - kBulkHeadBytes);
  const std::size_t bytes = kBulkHeadBytes + payload_bytes;
  if (!contact.has_way() && relay_of(contact) != nullptr) {
    return send_bulk_sealed(contact, head, slot, bytes);
  }
  return pass_bulk(contact, bytes, [&] { return freeze(contact, head, slot, bytes); });
}

// As pass_control(); `make` is called once there is room for its frame.
Sending ZmqLink::Impl::pass_bulk(Contact& way, std::size_t bytes, const MakeFrame& make) {
  if (Port* port = way.line ? way.line->writable_bulk() : nullptr) {
    zmq::message_t frame = make();
    if (!port->try_send(frame)) {
      ++stats.send_refused;
      return Sending::kFailed;
    }
    count_out(stats.bulk, way, bytes);
    return Sending::kSent;
  }
  if (bulk && pass_back(way, make)) {
    count_out(stats.bulk, way, bytes);
    return Sending::kSent;
  }
  // Where a line stands one can dial, whatever is said.
  const bool can_dial = way.dialable || way.line;
  const bool dials = can_dial && way.bulk_routes.empty();
  const bool fails = dials && !((way.line || open_line(way)) && open_bulk_lane(way));
  // If it cannot be dialled, its own connection is on its way.
  ++stats.send_refused;
  return fails ? Sending::kFailed : Sending::kBusy;
}

// Over one of its own connections, the last heard first.
bool ZmqLink::Impl::pass_back(Contact& way, const MakeFrame& make) {
  for (std::size_t i = way.bulk_routes.size(); i-- > 0;) {
    const Taken taken = bulk->begin(way.bulk_routes[i].name);
    if (taken == Taken::kYes) {
      bulk->finish(make());
      return true;
    }
    if (taken == Taken::kGone) way.bulk_routes.erase(way.bulk_routes.begin() + i);
  }
  return false;
}

Sending ZmqLink::try_send_bulk(PeerId to, const Message& head, std::optional<SlotLease>& slot,
                               std::size_t payload_bytes) {
  Contact* contact = impl_->connected(to);
  if (contact == nullptr) {
    ++impl_->stats.send_refused;
    return Sending::kFailed;
  }
  return impl_->send_bulk(*contact, head, slot, payload_bytes);
}

std::vector<HeldPayloads> ZmqLink::held_payloads() { return impl_->sent_frames.all(); }

void ZmqLink::end_bulk(PeerId peer) { impl_->end_bulk(peer); }

void ZmqLink::Impl::end_bulk(PeerId peer) {
  callers.end_bulk_of(peer);
  const auto found = contacts.find(peer);
  if (found == contacts.end()) return;
  found->second.bulk_routes.clear();
  if (found->second.line) found->second.line->close_bulk();
}

void ZmqLink::pace(Instant now) {
  for (auto& [peer, contact] : impl_->contacts) {
    try {
      impl_->pace(contact, now);
    } catch (const zmq::error_t& error) {
      log_debug("cannot dial {}: {}", to_string(contact.address), error.what());
    }
  }
}

void ZmqLink::Impl::pace(Contact& contact, Instant now) {
  LineUse unused;
  for (BulkRoute& route : contact.bulk_routes) {
    if (const auto lossy = route.path.tend(now, unused)) log_losses(contact.id(), *lossy);
  }
  if (!contact.line) return;
  const Line::Tended tended = contact.line->tend_bulk(dialler, now);
  if (tended.lossy) log_losses(contact.id(), *tended.lossy);
  if (!tended.widened) return;
  log_info("payloads for peer {} are held up by the size of TCP's buffers: connection {}",
           to_string(contact.id()), contact.line->bulk_connections());
}

}  // namespace starling::gossip
