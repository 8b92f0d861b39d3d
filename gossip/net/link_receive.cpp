// What comes in to a ZmqLink, over connections that others made and over its own lines.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/log.h"
#include "gossip/net/link_impl.h"

namespace starling::gossip {
namespace {

constexpr std::size_t kDroppedMax = 16;     // bad frames in one try_receive()
constexpr std::size_t kRefusalsMax = 1024;  // more than a new list can strike off at a time
constexpr std::uint8_t kSlipsMax = 4;

// The part of a received message that is the payload, with the message as its owner.
Bytes payload_of(zmq::message_t&& message, std::size_t payload_bytes) {
  auto* owner = new zmq::message_t(std::move(message));
  return Bytes(view(*owner).last(payload_bytes), owner,
               [](void* held) noexcept { delete static_cast<zmq::message_t*>(held); });
}

// Who the door let in when the connection was made that brought `frame`.
std::optional<PublicKey> caller_of(const zmq::message_t& frame) {
  const char* const user = ::zmq_msg_gets(const_cast<zmq_msg_t*>(frame.handle()), "User-Id");
  return user == nullptr ? std::nullopt : parse_public_key(user);
}

bool goes_in_bulk(const Message& message) {
  return is_bulk(message) || std::holds_alternative<BulkHello>(message);
}

void count_in(LaneStats& lane, std::size_t bytes) {
  ++lane.frames_in;
  lane.bytes_in += bytes;
}

// Drops what lies behind `frame` in its message: how many bytes. Nothing: it has no more parts.
std::optional<std::size_t> drop_extra_parts(Port& port, const zmq::message_t& frame) {
  if (!frame.more()) return std::nullopt;
  std::size_t bytes = 0;
  // The parts of one message arrive together, so this does not come up empty before the last.
  for (zmq::message_t extra; port.try_receive(extra);) {
    bytes += extra.size();
    if (!extra.more()) break;
  }
  return bytes;
}

}  // namespace

std::optional<Arrival> ZmqLink::try_receive(Instant now, bool bulk_too) {
  std::optional<Arrival> arrival;
  impl_->called_at = now;
  impl_->inbox.look();
  for (std::size_t bad = 0; bad < kDroppedMax;) {
    const auto name = impl_->inbox.next(bulk_too);
    if (!name) break;
    if (!impl_->receive(*name, arrival)) {
      impl_->inbox.found_empty(*name);
      continue;
    }
    const bool shared = name->kind == PortKind::kBulk && name->line == 0;
    impl_->inbox.take_turn(*name, shared ? impl_->bulk_senders.count() : 1);
    // One payload for each call, whatever it was: the caller may have a limit to look at.
    if (arrival || name->kind == PortKind::kBulk) break;
    ++bad;
  }
  return arrival;
}

bool ZmqLink::readable(bool bulk_too) {
  impl_->inbox.look();
  return impl_->inbox.next(bulk_too).has_value();
}

// Takes one message off a port: a good one becomes `arrival`, a bad one is counted. False: the
// port is empty.
bool ZmqLink::Impl::receive(PortName name, std::optional<Arrival>& arrival) {
  if (name.line == 0) {
    if (name.kind != PortKind::kInternal) return receive_called(name.kind, arrival);
    callers.read_monitors(called_at);
    door.answer(called_at, [this](const PublicKey& key) { return may_send_payloads(key); });
    stats.callers.asked_again = door.asked_again();
    report_turned_away();
    return false;
  }
  const auto owner = owners.find(name.line);
  STARLING_ASSERT(owner != owners.end());
  Contact& contact = contacts.at(owner->second);
  if (name.kind != PortKind::kInternal) return receive_dialled(name, *contact.line, arrival);
  const Line::News news = contact.line->read_monitors();
  if (news == Line::News::kNotAllowed) {
    report(contact.id(), {contact.address, RefuseReason::kNotAllowed, run, {}, false});
  }
  if (news == Line::News::kFailed) note_failed_handshake(contact);
  return false;
}

// Whoever has not the secret half of the key that we expect can only hang up. So does one who is
// busy or going down, so this is said aloud ever more rarely.
void ZmqLink::Impl::note_failed_handshake(const Contact& contact) {
  if (!is_worth_a_line(++stats.handshakes_failed)) return;
  log_warning("whoever answers at {} ended the handshake: is {} its key? ({} so far)",
              to_string(contact.address), to_string(contact.address.key), stats.handshakes_failed);
}

// The frame comes behind the routing id of its connection.
bool ZmqLink::Impl::receive_called(PortKind lane, std::optional<Arrival>& arrival) {
  const LinkLane which = lane == PortKind::kControl ? LinkLane::kControl : LinkLane::kBulk;
  Port& port = lane == PortKind::kControl ? *control : *bulk;
  if (lane == PortKind::kBulk) port.look_at_all();  // each of these may take seconds of the limit
  zmq::message_t route;
  Came came{.lane = lane, .key = {}, .route = {}, .frame = {}};
  if (!port.try_receive(route)) {
    callers.on_read_empty(which);
    return false;
  }
  if (!route.more() || !port.try_receive(came.frame)) {
    ++stats.multipart;
    return true;
  }
  const auto caller = caller_of(came.frame);
  if (caller) callers.on_frame(called_at, which, came.frame, *caller);
  const auto several = drop_extra_parts(port, came.frame);
  LaneStats& lane_stats = which == LinkLane::kControl ? stats.control : stats.bulk;
  if (several) count_in(lane_stats, came.frame.size() + *several);
  if (!caller) {  // of whoever has no key the door lets nothing in
    ++stats.forged;
    return true;
  }
  if (route.size() > Door::kRouteBytes) {
    callers.end_self_named(came.frame);
    return true;
  }
  came.key = *caller;
  came.route.assign(static_cast<const char*>(route.data()), route.size());
  if (several) {
    drop(came.key, RejectReason::kSeveralParts);
  } else {
    take(std::move(came), arrival);
  }
  return true;
}

// Where a secret is all that tells who belongs here, it is shown on the control lane first. Whoever
// was called by us may be quicker than his Welcome.
bool ZmqLink::Impl::may_send_payloads(const PublicKey& key) const {
  if (!secret) return true;
  const auto known = contacts.find(id_of(key));
  if (known == contacts.end()) return false;
  const Contact& sender = known->second;
  return sender.proven || sender.connected || sender.line != nullptr;
}

bool ZmqLink::Impl::receive_dialled(PortName name, Line& line, std::optional<Arrival>& arrival) {
  Port& port = line.port(name);
  Came came{.lane = name.kind,
            .key = line.address().key,
            .route = {},
            .connection = name.connection,
            .frame = {}};
  if (!port.try_receive(came.frame)) {
    line.note_empty(name);
    return false;
  }
  line.note_came(name, came.frame);
  if (const auto several = drop_extra_parts(port, came.frame)) {
    count_in(name.kind == PortKind::kControl ? stats.control : stats.bulk,
             came.frame.size() + *several);
    drop(came.key, RejectReason::kSeveralParts);
  } else {
    take(std::move(came), arrival);
  }
  return true;
}

void ZmqLink::Impl::take(Came&& came, std::optional<Arrival>& arrival) {
  const bool is_control = came.lane == PortKind::kControl;
  count_in(is_control ? stats.control : stats.bulk, came.frame.size());
  if (!door.allows(came.key)) {
    ++stats.not_allowed;
    return;
  }
  if (const auto known = contacts.find(id_of(came.key)); known != contacts.end()) {
    known->second.traffic.bytes_in += came.frame.size();
  }
  const bool envelope = is_envelope(view(came.frame));
  const std::size_t bytes_max = is_control ? kControlFrameBytesMax : kBulkFrameBytesMax;
  if (came.frame.size() > bytes_max + (envelope ? kEnvelopeBytes : 0)) {
    return drop(came.key, RejectReason::kOversized, std::to_string(came.frame.size()) + " bytes");
  }
  if (envelope) return take_envelope(std::move(came), arrival);
  take_frame(std::move(came), arrival);
}

void ZmqLink::Impl::take_frame(Came&& came, std::optional<Arrival>& arrival) {
  const bool is_control = came.lane == PortKind::kControl;
  auto decoded = decode(view(came.frame), run.versions);
  if (!decoded.ok()) {
    return drop(came.key, undecoded_reason(decoded.error().code()), decoded.error().message());
  }
  Frame& parts = decoded.value();
  if (!is_control && std::holds_alternative<Hello>(parts.message) && dialled_wrong(came.key))
    return;
  if (goes_in_bulk(parts.message) == is_control) {
    return drop(came.key, RejectReason::kMalformed, "a message on the wrong lane");
  }
  if (!believe(came, parts)) return;
  if (std::holds_alternative<BulkHello>(parts.message)) {
    return note_idle(came.key, &Contact::idle, "greetings of the lane of payloads");
  }
  const bool called = !came.route.empty() && came.path.relay == PeerId{};
  if (!is_control && called && connected(parts.from) != nullptr) bulk_senders.note(parts.from);
  const std::size_t payload_bytes = parts.payload.size();
  arrival = Arrival{parts.from, parts.message, {}, came.path.relay};
  if (!is_control) arrival->payload = payload_of(std::move(came.frame), payload_bytes);
}

// Is the frame from whom it names, and may it say this? Then its connection is a way back.
bool ZmqLink::Impl::believe(const Came& came, const Frame& parts) {
  const auto* hello = std::get_if<Hello>(&parts.message);
  const auto* welcome = std::get_if<Welcome>(&parts.message);
  const auto* refuse = std::get_if<Refuse>(&parts.message);
  const bool own_name = parts.from == id_of(came.key) &&
                        (!hello || hello->self.address.key == came.key) &&
                        (!welcome || welcome->self.address.key == came.key) &&
                        (!refuse || refuse->address.key == came.key);
  if (!own_name) {
    drop(came.key, RejectReason::kOthersName);
    return false;
  }
  Contact& sender = contact(came.key);
  note_route(sender, came);
  if (hello) return is_proven(sender, hello->self, hello->identity, hello->proof);
  if (welcome) return is_proven(sender, welcome->self, welcome->identity, welcome->proof);
  return true;
}

// Its connection, or the relay that it came through, is a way back. For those that the core knows
// it chooses the relay itself.
void ZmqLink::Impl::note_route(Contact& sender, const Came& came) {
  if (came.path.relay == PeerId{}) {
    if (came.lane == PortKind::kBulk) return note_bulk_route(sender, came);
    if (!came.route.empty()) sender.control_route = came.route;
    return;
  }
  if (!sender.connected) sender.path.relay = came.path.relay;
  sender.path.process = came.path.process;
}

bool ZmqLink::Impl::pass_back(Contact& way, zmq::message_t& frame) {
  if (!control || way.control_route.empty()) return false;
  const std::size_t bytes = frame.size();
  const Taken taken = control->begin(way.control_route);
  if (taken == Taken::kGone) way.control_route.clear();
  if (taken != Taken::kYes) return false;
  control->finish(std::move(frame));
  count_out(stats.control, way, bytes);
  return true;
}

// Keeps an eye on the connection that brought `came`, and forgets those that it has replaced.
void ZmqLink::Impl::note_bulk_route(Contact& sender, const Came& came) {
  if (came.route.empty()) return;  // its line has done so
  std::vector<BulkRoute>& routes = sender.bulk_routes;
  std::erase_if(routes, [&](const BulkRoute& route) {
    return route.name != came.route && called_at - route.heard >= kRouteSilenceMax;
  });
  const auto known = std::find_if(routes.begin(), routes.end(),
                                  [&](const BulkRoute& route) { return route.name == came.route; });
  if (known != routes.end()) {
    std::rotate(known, known + 1, routes.end());
  } else {
    if (routes.size() >= LineWidener::kConnectionsMax) routes.erase(routes.begin());
    routes.push_back({came.route, {}, {}});
  }
  routes.back().heard = called_at;
  routes.back().path.follow(came.frame);
}

bool ZmqLink::Impl::is_proven(Contact& contact, const PeerRecord& record, const RunIdentity& theirs,
                              const SecretProof& proof) {
  // Of its own run: one of another run is to be told just that.
  if (!secret) return true;
  if (secret->holds(proof, {record.address.key, self, theirs.run})) {
    contact.proven = true;
    return true;
  }
  ++stats.unproven;
  if (!contact.connected && !contact.line) contact.address = record.address;
  refuse(contact, RefuseReason::kSecret, theirs);
  return false;
}

std::uint64_t& ZmqLink::Impl::count_of(RejectReason reason) {
  if (reason == RejectReason::kDamaged) return stats.damaged;
  if (reason == RejectReason::kOtherVersion) return stats.other_version;
  if (reason == RejectReason::kOversized) return stats.oversized;
  if (reason == RejectReason::kSeveralParts) return stats.multipart;
  if (reason == RejectReason::kOthersName) return stats.forged;
  if (reason == RejectReason::kTooMany) return stats.idle;
  STARLING_ASSERT(reason == RejectReason::kMalformed);
  return stats.malformed;
}

// The core judges `from`. Said aloud ever more rarely: whoever sends garbage must not fill the log
// too.
void ZmqLink::Impl::drop(const PublicKey& from, RejectReason reason, std::string_view why) {
  const PeerId sender = id_of(from);
  const std::uint64_t count = ++count_of(reason);
  if (bad_frames.size() < kBadFramesMax) bad_frames.push_back({sender, reason});
  if (!is_worth_a_line(count)) return;
  log_warning("dropped a frame of peer {}: {}{}{} ({} so far)", to_string(sender),
              to_string(reason), why.empty() ? "" : ": ", why, count);
}

// One costs next to nothing, and without a measure many of one member would.
void ZmqLink::Impl::note_idle(const PublicKey& from, MessageMeter Contact::*meter,
                              std::string_view what) {
  const auto known = contacts.find(id_of(from));
  if (known == contacts.end()) return;
  if ((known->second.*meter).take(called_at) == MessageMeter::Intake::kTaken) return;
  drop(from, RejectReason::kTooMany, what);
}

// A seed's address with the second of its ports: a slip, no misdeed; but who is connected has no
// reason to go on greeting there. False: it goes on.
bool ZmqLink::Impl::dialled_wrong(const PublicKey& from) {
  Contact* const known = connected(id_of(from));
  if (known != nullptr && known->slips >= kSlipsMax) return false;
  if (known != nullptr) ++known->slips;
  const std::uint64_t count = ++count_of(RejectReason::kMalformed);
  if (!is_worth_a_line(count)) return true;
  log_warning("peer {} greets at port {}, which is for weights: its gossip.seeds is to name {}",
              to_string(id_of(from)), local.bulk_port, local.control_port);
  return true;
}

// Tells `contact` and whoever counts that we will not talk.
void ZmqLink::Impl::refuse(Contact& contact, RefuseReason reason, const RunIdentity& theirs) {
  static_cast<void>(send_control(contact, Refuse{reason, run, local}, false));
  report(contact.id(), {contact.address, reason, run, theirs, true});
}

void ZmqLink::Impl::report(PeerId id, const Refused& event) {
  if (refusals.size() < kRefusalsMax) refusals.push_back({id, event});
}

void ZmqLink::Impl::set_allow_list(AllowList allow) {
  door.set_allow_list(std::move(allow));
  std::vector<PeerId> removed;
  for (auto& [id, contact] : contacts) {
    if (door.allows(contact.address.key)) continue;
    if (contact.connected) refuse(contact, RefuseReason::kNotAllowed, {});
    if (contact.line) contact.line->linger(kLastWordsMs);
    removed.push_back(id);
  }
  for (const PeerId id : removed) forget(id);
}

void ZmqLink::Impl::report_turned_away() {
  for (const Knock& knock : door.take_turned_away()) {
    PeerAddress from;
    if (!set_host(from, knock.host)) from.host.clear();
    from.key = knock.key;
    report(id_of(knock.key), {from, RefuseReason::kNotAllowed, run, {}, true});
  }
}

}  // namespace starling::gossip
