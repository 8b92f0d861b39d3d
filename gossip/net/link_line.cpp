#include "gossip/net/link_line.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/host.h"

namespace starling::gossip {
namespace {

constexpr Duration kMendPause = std::chrono::seconds(1);
// More than a connection has time to be made (link_sockets.cpp). Another address is tried then.
constexpr Duration kDialledMax = std::chrono::seconds(6);
// One that refuses says so at once. As long as ZeroMQ waits before it dials the same again.
constexpr Duration kDialledMin = std::chrono::milliseconds(500);
// ZeroMQ dials again what the network broke within a second; not what ended by an error of the
// other's bytes (a box that does not open), of which nobody tells behind the first handshake.
constexpr Duration kLostMax = std::chrono::seconds(15);
// As long as whoever answers may send what nobody counts, once ZeroMQ has dialled again.
constexpr Duration kUnknownMax = std::chrono::seconds(1);
constexpr int kOtherFailures =
    ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

CurveKey server_key(const PeerAddress& address) {
  const auto key = curve_key_of(address.key);
  if (key) return *key;
  errno = EINVAL;
  throw zmq::error_t();
}

}  // namespace

Line::Line(const Dialler& dialler, const PeerAddress& address, std::uint32_t number)
    : address_(address), number_(number), by_name_(!is_ip_literal(host(address_))) {
  if (!by_name_) dialled_ = host(address_);
  open(dialler, control_, {PortKind::kControl, number_});
}

Line::~Line() {
  close_monitor(control_);
  close_bulk();
}

// A socket, its monitor, and the first dial. All monitors of a line have one name in the inbox:
// whichever speaks, all are read.
void Line::open(const Dialler& dialler, Lane& lane, PortName name) {
  const bool is_control = name.kind == PortKind::kControl;
  const LinkLane which = is_control ? LinkLane::kControl : LinkLane::kBulk;
  lane.port = std::make_unique<Port>(
      make_dialler(dialler.context, which, dialler.keys, server_key(address_)), dialler.inbox,
      name);
  // Each has an address of its own: ZeroMQ gives the one of a socket that went back when it likes.
  const std::string watched =
      "inproc://line-" + std::to_string(number_) + "-" + std::to_string(++last_monitor_);
  const int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                     ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | kOtherFailures |
                     (by_name_ ? ZMQ_EVENT_CONNECT_RETRIED : 0);
  if (::zmq_socket_monitor(lane.port->socket().handle(), watched.c_str(), events) != 0) {
    throw zmq::error_t();
  }
  zmq::socket_t monitor(dialler.context, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.connect(watched);
  lane.monitor = std::make_unique<Port>(std::move(monitor), dialler.inbox,
                                        PortName{PortKind::kInternal, number_});
  const std::uint16_t port = is_control ? address_.control_port : address_.bulk_port;
  if (!dialled_.empty()) dial(lane.port->socket(), dialled_, port);
}

// The lane for control tells how it goes; those for bulk go where it goes. Until a look-up brings
// something else the address that was lost is dialled on.
void Line::follow_name(const Dialler& dialler, Instant now) {
  if (!by_name_ || given_up_) return;
  const std::string name(host(address_));
  if (control_.port->writable()) {
    if (!std::exchange(reached_, true)) dialler.names.note_reached(now, name);
    return;
  }
  if (std::exchange(reached_, false)) dialled_at_ = now;
  const bool in_vain = dialled_in_vain(now);
  if (in_vain) dialler.names.give_up(name, dialled_);
  given_up_ = control_.failed;  // whoever still wants the peer makes another line
  const std::span<const std::string> found = dialler.names.addresses(now, name);
  if (given_up_ || found.empty()) return;
  const bool stays = !in_vain && std::find(found.begin(), found.end(), dialled_) != found.end();
  if (stays || found.front() == dialled_) return;
  redial(found.front());
  dialled_at_ = now;
}

bool Line::dialled_in_vain(Instant now) {
  if (dialled_.empty()) return false;
  const Duration least = control_.in_vain ? kDialledMin : kDialledMax;
  if (!control_.failed && now - dialled_at_ < least) return false;
  control_.in_vain = false;
  dialled_at_ = now;
  return true;
}

void Line::redial(const std::string& address) {
  const std::string before = std::exchange(dialled_, address);
  const auto redial_lane = [&](const Lane& lane, std::uint16_t port) {
    if (!before.empty()) stop_dialling(lane.port->socket(), before, port);
    dial(lane.port->socket(), dialled_, port);
  };
  redial_lane(control_, address_.control_port);
  for (const Lane& lane : bulk_) redial_lane(lane, address_.bulk_port);
}

bool Line::is_down() { return control_.failed || (was_up_ && !control_.port->writable()); }

bool Line::try_send(zmq::message_t& frame) {
  static_cast<void>(flush());
  if (!waiting_.empty() || !control_.port->writable()) return false;
  was_up_ = true;
  return control_.port->try_send(frame);
}

void Line::open_bulk(const Dialler& dialler) {
  if (bulk_.empty()) open_next_bulk(dialler);
}

void Line::widen_bulk(const Dialler& dialler) {
  if (bulk_.size() < LineWidener::kConnectionsMax) open_next_bulk(dialler);
}

void Line::open_next_bulk(const Dialler& dialler) {
  Lane lane;
  open(dialler, lane, {PortKind::kBulk, number_, static_cast<std::uint8_t>(bulk_.size())});
  bulk_.push_back(std::move(lane));
}

Port* Line::writable_bulk() {
  for (const Lane& lane : bulk_) {
    if (lane.port->writable()) return lane.port.get();
  }
  return nullptr;
}

void Line::note_lost_bulk(Instant now) {
  for (Lane& lane : bulk_) {
    const bool stands = lane.port->writable();
    lane.stood = lane.stood || stands;
    const bool lost = lane.stood && !stands && !lane.path.stands() && control_.port->writable();
    if (!lost) lane.lost_since.reset();
    if (lost && !lane.lost_since) lane.lost_since = now;
    if (lost && now - *lane.lost_since >= kLostMax) lane.failed = true;
  }
}

bool Line::mend_bulk(const Dialler& dialler, Instant now) {
  if (std::none_of(bulk_.begin(), bulk_.end(), [](const Lane& lane) { return lane.failed; })) {
    return false;
  }
  if (!mend_at_) mend_at_ = now + kMendPause;
  if (now < *mend_at_) return true;
  mend_at_.reset();
  for (Lane& lane : bulk_) {
    if (!lane.failed) continue;
    const PortName name = lane.port->name();
    Lane mended;
    open(dialler, mended, name);  // the failed one stays if that throws
    lane = std::move(mended);
    dialler.inbox.mark(name);  // the one that went had the same name there
  }
  return true;
}

void Line::introduce_bulk(std::vector<std::byte> hello) {
  bulk_hello_ = std::move(hello);
  for (Lane& lane : bulk_) lane.introduced = false;
}

bool Line::is_introduced() const {
  return bulk_hello_.empty() ||
         std::all_of(bulk_.begin(), bulk_.end(), [](const Lane& lane) { return lane.introduced; });
}

Line::Tended Line::tend_bulk(const Dialler& dialler, Instant now) {
  Tended tended;
  LineUse use;
  for (Lane& lane : bulk_) {
    if (const auto lossy = lane.path.tend(now, use)) tended.lossy = lossy;
  }
  tended.widened = widener_.update(now, bulk_.size(), use);
  if (tended.widened) widen_bulk(dialler);
  return tended;
}

void Line::note_came(PortName name, const zmq::message_t& frame) {
  Lane& lane = lane_of(name);
  if (lane.path.follow(frame)) lane.intake = {};
  lane.intake.note_frame(frame.size());
  said_ += frame.size();
}

Line::Fault Line::look(const Inbox& inbox, Instant now) {
  Fault fault = look_at(control_, LinkLane::kControl, inbox, now);
  for (Lane& lane : bulk_) {
    const Fault of_bulk = look_at(lane, LinkLane::kBulk, inbox, now);
    if (of_bulk == Fault::kUnknown) lane.failed = true;  // mend_bulk()
    if (of_bulk == Fault::kGreedy) fault = of_bulk;
  }
  return fault;
}

Line::Fault Line::look_at(Lane& lane, LinkLane which, const Inbox& inbox, Instant now) {
  const bool emptied = std::exchange(lane.emptied, false) || !inbox.is_marked(lane.port->name());
  if (const auto taken = lane.path.taken()) {
    lane.unknown_since.reset();
    lane.intake.look(*taken, emptied);
    const HeldBytes bounds = held_bytes(which);
    const bool greedy =
        lane.intake.unfinished() > bounds.unfinished_max || lane.intake.held() > bounds.waiting_max;
    return greedy ? Fault::kGreedy : Fault::kNone;
  }
  if (lane.monitor || !lane.port->writable() || !sockets_have_numbers()) {
    lane.unknown_since.reset();
    return Fault::kNone;
  }
  if (!lane.unknown_since) lane.unknown_since = now;
  return now - *lane.unknown_since >= kUnknownMax ? Fault::kUnknown : Fault::kNone;
}

void Line::close_bulk() {
  for (Lane& lane : bulk_) close_monitor(lane);
  bulk_.clear();
}

bool Line::flush() {
  if (!was_up_ && control_.port->writable()) was_up_ = true;
  while (!waiting_.empty() && control_.port->writable()) {
    // ZeroMQ may yet refuse, if the connection ended this instant; the message stays in front.
    if (!control_.port->try_send(waiting_.front())) break;
    waiting_.pop_front();
  }
  for (Lane& lane : bulk_) {
    if (bulk_hello_.empty() || lane.introduced || !lane.port->writable()) continue;
    zmq::message_t hello(bulk_hello_.data(), bulk_hello_.size());
    lane.introduced = lane.port->try_send(hello);
  }
  if (was_up_ && is_introduced()) test_until_.reset();
  return !waiting_.empty() || !is_introduced() || test_until_;
}

bool Line::passes_test(Instant now) {
  if (!test_until_ || now < *test_until_) return true;
  test_until_.reset();
  if (!was_up_) return false;
  bulk_hello_.clear();
  close_bulk();
  return true;
}

void Line::linger(int milliseconds) {
  control_.port->socket().set(zmq::sockopt::linger, milliseconds);
}

Port& Line::port(PortName name) { return *lane_of(name).port; }

// An event is a frame with its number and a value, and one with the address, of no use here.
// The library does not always dial again by itself after a failed handshake: the line is down then,
// and who still wants it makes another.
Line::News Line::read_monitor(Lane& lane) {
  News news = News::kNone;
  bool settled = false;
  zmq::message_t frame;
  while (lane.monitor && lane.monitor->try_receive(frame)) {
    std::uint16_t event = 0;
    std::int32_t value = 0;
    if (frame.more() && frame.size() >= sizeof event + sizeof value) {
      std::memcpy(&event, frame.data(), sizeof event);
      std::memcpy(&value, frame.data<char>() + sizeof event, sizeof value);
    }
    if (event == ZMQ_EVENT_CONNECTED && lane.path.follow(value)) lane.intake = {};  // a descriptor
    if (event == ZMQ_EVENT_CONNECT_RETRIED) lane.in_vain = true;
    settled = settled || event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) news = News::kNotAllowed;
    if ((event & kOtherFailures) != 0 && news == News::kNone) news = News::kFailed;
  }
  if (settled) news = News::kNone;
  lane.failed = lane.failed || news != News::kNone;
  if (settled || lane.failed) close_monitor(lane);
  return news;
}

Line::News Line::read_monitors() {
  News news = read_monitor(control_);
  for (Lane& lane : bulk_) {
    const News of_bulk = read_monitor(lane);
    if (news == News::kNone) news = of_bulk;
  }
  return news;
}

void Line::close_monitor(Lane& lane) {
  if (!lane.monitor) return;
  static_cast<void>(::zmq_socket_monitor(lane.port->socket().handle(), nullptr, 0));
  lane.monitor.reset();
}

}  // namespace starling::gossip
