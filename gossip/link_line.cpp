#include "gossip/link_line.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/assert.h"

namespace starling::gossip {
namespace {

constexpr Duration kMendPause = std::chrono::seconds(1);
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
    : address_(address), number_(number) {
  open(dialler, control_, LinkLane::kControl);
}

Line::~Line() {
  close_monitor(control_);
  close_monitor(bulk_);
}

// A socket, its monitor, and the first dial. Both monitors of a line have one name in the inbox:
// whichever speaks, both are read.
void Line::open(const Dialler& dialler, Lane& lane, LinkLane which) {
  const bool is_control = which == LinkLane::kControl;
  const PortName name{is_control ? PortKind::kControl : PortKind::kBulk, number_};
  lane.port = std::make_unique<Port>(
      make_dialler(dialler.context, which, host(address_), dialler.keys, server_key(address_)),
      dialler.inbox, name);
  const std::string watched =
      "inproc://line-" + std::to_string(number_) + (is_control ? "" : "-bulk");
  constexpr int kWatched =
      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | kOtherFailures;
  if (::zmq_socket_monitor(lane.port->socket().handle(), watched.c_str(), kWatched) != 0) {
    throw zmq::error_t();
  }
  zmq::socket_t monitor(dialler.context, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.connect(watched);
  lane.monitor = std::make_unique<Port>(std::move(monitor), dialler.inbox,
                                        PortName{PortKind::kInternal, number_});
  const std::uint16_t port = is_control ? address_.control_port : address_.bulk_port;
  lane.port->socket().connect(endpoint(host(address_), port));
}

bool Line::is_down() { return control_.failed || (was_up_ && !control_.port->writable()); }

bool Line::try_send(zmq::message_t& frame) {
  static_cast<void>(flush());
  if (!waiting_.empty() || !control_.port->writable()) return false;
  was_up_ = true;
  return control_.port->try_send(frame);
}

void Line::open_bulk(const Dialler& dialler) {
  if (!bulk_.port) open(dialler, bulk_, LinkLane::kBulk);
}

bool Line::mend_bulk(const Dialler& dialler, Instant now) {
  if (!bulk_.failed) return false;
  if (!mend_at_) mend_at_ = now + kMendPause;
  if (now < *mend_at_) return true;
  mend_at_.reset();
  close_bulk();
  open_bulk(dialler);
  return true;
}

void Line::close_bulk() {
  close_monitor(bulk_);
  bulk_ = {};
}

bool Line::flush() {
  if (!was_up_ && control_.port->writable()) was_up_ = true;
  while (!waiting_.empty() && control_.port->writable()) {
    // ZeroMQ may yet refuse, if the connection ended this instant; the message stays in front.
    if (!control_.port->try_send(waiting_.front())) break;
    waiting_.pop_front();
  }
  if (!bulk_hello_.empty() && bulk_writable()) {
    zmq::message_t hello(bulk_hello_.data(), bulk_hello_.size());
    if (bulk_.port->try_send(hello)) bulk_hello_.clear();
  }
  if (was_up_ && bulk_hello_.empty()) test_until_.reset();
  return !waiting_.empty() || !bulk_hello_.empty() || test_until_;
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

Port& Line::port(PortKind kind) {
  Lane& lane = kind == PortKind::kControl ? control_ : bulk_;
  STARLING_ASSERT(lane.port != nullptr);
  return *lane.port;
}

// An event is a frame that begins with its number, and a frame with the address, of no use here.
// The library does not always dial again by itself after a failed handshake: the line is down then,
// and who still wants it makes another.
Line::News Line::read_monitor(Lane& lane) {
  News news = News::kNone;
  bool settled = false;
  zmq::message_t frame;
  while (lane.monitor && lane.monitor->try_receive(frame)) {
    std::uint16_t event = 0;
    if (frame.more() && frame.size() >= sizeof event) {
      std::memcpy(&event, frame.data(), sizeof event);
    }
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
  const News of_bulk = read_monitor(bulk_);
  const News of_control = read_monitor(control_);
  return of_control == News::kNone ? of_bulk : of_control;
}

void Line::close_monitor(Lane& lane) {
  if (!lane.monitor) return;
  static_cast<void>(::zmq_socket_monitor(lane.port->socket().handle(), nullptr, 0));
  lane.monitor.reset();
}

}  // namespace starling::gossip
