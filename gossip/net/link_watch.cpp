// ZmqLink: what is looked at ten times a second: connections that others made to us and ours to
// them.
#include "base/log.h"
#include "gossip/net/link_impl.h"

namespace starling::gossip {
namespace {

constexpr Duration kReachNotedEvery = std::chrono::seconds(5);

}  // namespace

Callers::Standing ZmqLink::Impl::standing_of(const PublicKey& key) const {
  if (!door.allows(key)) return Callers::Standing::kUnwelcome;
  const auto known = contacts.find(id_of(key));
  const bool member = known != contacts.end() && known->second.connected;
  return member ? Callers::Standing::kMember : Callers::Standing::kStranger;
}

void ZmqLink::Impl::follow_names(Instant now) {
  for (auto& [peer, contact] : contacts) {
    if (!contact.line) continue;
    try {
      contact.line->follow_name(dialler, now);
    } catch (const zmq::error_t& error) {
      log_debug("cannot dial {}: {}", to_string(contact.address), error.what());
    }
  }
}

// ZeroMQ would dial whom we greeted for ever. The next greeting makes another line.
void ZmqLink::Impl::give_up_greeting(Instant now) {
  for (auto& [peer, contact] : contacts) {
    if (contact.connected || !contact.line || contact.line_stands()) continue;
    if (!contact.greeted_at) contact.greeted_at = now;
    if (now - *contact.greeted_at >= kGreetingMax) drop_line(contact);
  }
}

void ZmqLink::Impl::look_at_callers(Instant now) {
  if (!inbox.is_marked(control->name())) callers.on_read_empty(LinkLane::kControl);
  if (!inbox.is_marked(bulk->name())) callers.on_read_empty(LinkLane::kBulk);
  callers.look(now, [this](const PublicKey& key) { return standing_of(key); });
}

// Of whom we have called we believe no more than of those who call. What is lost with a line is
// sent again over the next.
void ZmqLink::Impl::look_at_lines(Instant now) {
  for (auto& [peer, contact] : contacts) {
    if (!contact.line) continue;
    if (contact.connected) contact.line->forget_said();
    const Line::Fault fault = contact.line->look(inbox, now);
    const bool floods = contact.line->said() > Callers::kStrangerMessagesMax;
    if (fault == Line::Fault::kNone && !floods) continue;
    if (fault == Line::Fault::kGreedy) {
      drop(contact.address.key, RejectReason::kSeveralParts, "a message that never ends");
    } else if (floods && is_worth_a_line(++stats.callers.floods)) {
      log_warning("ended the line to {}: it says much and does not introduce itself ({} so far)",
                  to_string(contact.address), stats.callers.floods);
    }
    drop_line(contact);
  }
}

void ZmqLink::watch(Instant now) {
  Impl& impl = *impl_;
  impl.called_at = now;
  impl.follow_names(now);
  impl.give_up_greeting(now);
  impl.inbox.look();  // what is not marked behind this has nothing whole to read
  impl.look_at_lines(now);
  const bool is_called = impl.control != nullptr;  // else it only calls
  if (is_called) impl.look_at_callers(now);
  if (now - impl.reach_noted < kReachNotedEvery) return;
  impl.reach_noted = now;
  if (is_called) impl.callers.note_reach(now, impl.self, impl.reach);
  for (auto& [peer, contact] : impl.contacts) {
    if (!contact.line_stands()) continue;
    impl.reach.note_line(now, contact.line->dialled());
    contact.line->note_lost_bulk(now);
    // What it has found is mended here: nothing else may call for it.
    static_cast<void>(impl.tend(contact, now));
  }
}

}  // namespace starling::gossip
