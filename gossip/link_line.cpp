#include "gossip/link_line.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/assert.h"

namespace starling::gossip {
namespace {

constexpr int kOtherFailures =
    ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

CurveKey server_key(const PeerAddress& address) {
  const auto key = curve_key_of(address.key);
  if (key) return *key;
  errno = EINVAL;
  throw zmq::error_t();
}

std::unique_ptr<Port> open_port(const Dialler& dialler, LinkLane lane, const PeerAddress& address,
                                PortName name) {
  return std::make_unique<Port>(
      make_dialler(dialler.context, lane, host(address), dialler.keys, server_key(address)),
      dialler.inbox, name);
}

}  // namespace

Line::Line(const Dialler& dialler, const PeerAddress& address, std::uint32_t number)
    : address_(address), number_(number) {
  control_ = open_port(dialler, LinkLane::kControl, address, {PortKind::kControl, number});
  const std::string watched = "inproc://line-" + std::to_string(number);
  constexpr int kWatched =
      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | kOtherFailures;
  if (::zmq_socket_monitor(control_->socket().handle(), watched.c_str(), kWatched) != 0) {
    throw zmq::error_t();
  }
  zmq::socket_t monitor(dialler.context, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.connect(watched);
  monitor_ = std::make_unique<Port>(std::move(monitor), dialler.inbox,
                                    PortName{PortKind::kInternal, number});
  control_->socket().connect(endpoint(host(address), address.control_port));
}

Line::~Line() { close_monitor(); }

bool Line::is_down() { return refused_ || (was_up_ && !control_->writable()); }

bool Line::try_send(zmq::message_t& frame) {
  static_cast<void>(flush());
  if (!waiting_.empty() || !control_->writable()) return false;
  was_up_ = true;
  return control_->try_send(frame);
}

void Line::open_bulk(const Dialler& dialler) {
  if (bulk_) return;
  bulk_ = open_port(dialler, LinkLane::kBulk, address_, {PortKind::kBulk, number_});
  bulk_->socket().connect(endpoint(host(address_), address_.bulk_port));
}

bool Line::flush() {
  if (!was_up_ && control_->writable()) was_up_ = true;
  while (!waiting_.empty() && control_->writable()) {
    // ZeroMQ may yet refuse, if the connection ended this instant; the message stays in front.
    if (!control_->try_send(waiting_.front())) break;
    waiting_.pop_front();
  }
  if (!bulk_hello_.empty() && bulk_writable()) {
    zmq::message_t hello(bulk_hello_.data(), bulk_hello_.size());
    if (bulk_->try_send(hello)) bulk_hello_.clear();
  }
  if (was_up_ && bulk_hello_.empty()) test_until_.reset();
  return !waiting_.empty() || !bulk_hello_.empty() || test_until_;
}

bool Line::passes_test(Instant now) {
  if (!test_until_ || now < *test_until_) return true;
  test_until_.reset();
  if (!was_up_) return false;
  bulk_hello_.clear();
  bulk_.reset();
  return true;
}

void Line::linger(int milliseconds) { control_->socket().set(zmq::sockopt::linger, milliseconds); }

Port& Line::port(PortKind kind) {
  if (kind == PortKind::kControl) return *control_;
  STARLING_ASSERT(bulk_ != nullptr);
  return *bulk_;
}

// An event is a frame that begins with its number, and a frame with the address, of no use here.
// The library does not always dial again by itself after a failed handshake: the line is down then,
// and who still wants it makes another.
Line::News Line::read_monitor() {
  News news = News::kNone;
  bool settled = false;
  zmq::message_t frame;
  while (monitor_ && monitor_->try_receive(frame)) {
    std::uint16_t event = 0;
    if (frame.more() && frame.size() >= sizeof event) {
      std::memcpy(&event, frame.data(), sizeof event);
    }
    settled = settled || event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) news = News::kNotAllowed;
    if ((event & kOtherFailures) != 0 && news == News::kNone) news = News::kFailed;
  }
  refused_ = refused_ || (news != News::kNone && !settled);
  if (settled || refused_) close_monitor();
  return refused_ ? news : News::kNone;
}

void Line::close_monitor() {
  if (!monitor_) return;
  static_cast<void>(::zmq_socket_monitor(control_->socket().handle(), nullptr, 0));
  monitor_.reset();
}

}  // namespace starling::gossip
