#include "gossip/net/link_inbox.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "gossip/net/link_sockets.h"

namespace starling::gossip {
namespace {

constexpr int kEventsPerLook = 64;
constexpr PortName kBell{PortKind::kInternal, UINT32_MAX};

std::uint64_t pack(PortName name) {
  return std::uint64_t{name.line} << 16 | std::uint64_t{name.connection} << 8 |
         static_cast<std::uint64_t>(name.kind);
}

// Level-triggered: it stays ready until the socket is looked at.
void watch(int poll, int descriptor, PortName name) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = pack(name);
  STARLING_ASSERT(::epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) == 0);
}

PortName unpack(std::uint64_t packed) {
  return {static_cast<PortKind>(packed & 0xFF), static_cast<std::uint32_t>(packed >> 16),
          static_cast<std::uint8_t>(packed >> 8 & 0xFF)};
}

}  // namespace

Inbox::Inbox()
    : poll_(::epoll_create1(EPOLL_CLOEXEC)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  STARLING_ASSERT(poll_ >= 0);
  STARLING_ASSERT(bell_ >= 0);
  watch(poll_, bell_, kBell);
}

Inbox::~Inbox() {
  ::close(bell_);
  ::close(poll_);
}

void Inbox::add(int descriptor, PortName name) {
  watch(poll_, descriptor, name);
  mark(name);
}

void Inbox::remove(int descriptor, PortName name) {
  epoll_event unused{};
  STARLING_ASSERT(::epoll_ctl(poll_, EPOLL_CTL_DEL, descriptor, &unused) == 0);
  found_empty(name);
}

void Inbox::mark(PortName name) {
  if (name == kBell || !marked_.insert(name).second) return;
  queue(name.kind).push_back(name);
  if (marked_.size() > 1) return;
  const std::uint64_t ring = 1;
  STARLING_ASSERT(::write(bell_, &ring, sizeof ring) == sizeof ring);
}

void Inbox::look() {
  std::array<epoll_event, kEventsPerLook> events{};
  int count = 0;
  do {
    count = ::epoll_wait(poll_, events.data(), kEventsPerLook, 0);
  } while (count < 0 && errno == EINTR);
  for (int i = 0; i < count; ++i) mark(unpack(events[static_cast<std::size_t>(i)].data.u64));
}

std::optional<PortName> Inbox::next(bool bulk_too) const {
  const bool any_bulk = bulk_too && !queue(PortKind::kBulk).empty();
  if (!queue(PortKind::kInternal).empty()) return queue(PortKind::kInternal).front();
  const bool its_turn = control_turns_ >= kControlTurnsMax;
  const std::deque<PortName>& control = queue(PortKind::kControl);
  if (!control.empty() && !(any_bulk && its_turn)) return control.front();
  if (any_bulk) return queue(PortKind::kBulk).front();
  return std::nullopt;
}

void Inbox::found_empty(PortName name) {
  if (marked_.erase(name) == 0) return;
  std::deque<PortName>& names = queue(name.kind);
  names.erase(std::find(names.begin(), names.end(), name));
  if (!marked_.empty()) return;
  std::uint64_t rings = 0;
  STARLING_ASSERT(::read(bell_, &rings, sizeof rings) == sizeof rings);
}

void Inbox::take_turn(PortName name, std::size_t peers) {
  if (name.kind == PortKind::kControl)
    control_turns_ = std::min(control_turns_ + 1, kControlTurnsMax);
  if (name.kind == PortKind::kBulk) control_turns_ = 0;
  if (name.kind == PortKind::kBulk) {
    if (std::exchange(last_bulk_, name) != name) turns_in_row_ = 0;
    if (++turns_in_row_ < peers) return;
    turns_in_row_ = 0;
  }
  // All connections of a line wait with the one that had its turn, which goes last.
  const auto waits = [name](PortName other) {
    return other == name ? 2 : other.line == name.line ? 1 : 0;
  };
  std::deque<PortName>& names = queue(name.kind);
  std::stable_sort(names.begin(), names.end(),
                   [&](PortName a, PortName b) { return waits(a) < waits(b); });
}

void RecentSenders::note(PeerId sender) {
  senders_.push_back(sender);
  ++frames_of_[sender];
  if (senders_.size() <= kKept) return;
  const auto oldest = frames_of_.find(senders_.front());
  if (--oldest->second == 0) frames_of_.erase(oldest);
  senders_.pop_front();
}

Port::Port(zmq::socket_t socket, Inbox& inbox, PortName name)
    : socket_(std::move(socket)),
      inbox_(inbox),
      name_(name),
      descriptor_(socket_.get(zmq::sockopt::fd)) {
  inbox_.add(descriptor_, name_);
}

// The descriptor belongs to ZeroMQ, which closes it some time after the socket.
Port::~Port() { inbox_.remove(descriptor_, name_); }

int Port::look() {
  const int happened = events(socket_);
  if ((happened & ZMQ_POLLIN) != 0) inbox_.mark(name_);
  return happened;
}

bool Port::writable() { return (look() & ZMQ_POLLOUT) != 0; }

bool Port::try_send(zmq::message_t& message) {
  const bool taken = gossip::try_send(socket_, message, zmq::send_flags::dontwait);
  look();
  return taken;
}

Taken Port::begin(const std::string& route) {
  zmq::message_t first(route.data(), route.size());
  Taken taken = Taken::kYes;
  try {
    const auto flags = zmq::send_flags::dontwait | zmq::send_flags::sndmore;
    if (!gossip::try_send(socket_, first, flags)) taken = Taken::kBusy;
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;
    taken = Taken::kGone;
  }
  look();
  return taken;
}

// The connection was found and has room: whatever happens to it now, the message is taken.
void Port::finish(zmq::message_t&& message) {
  STARLING_ASSERT(gossip::try_send(socket_, message, zmq::send_flags::dontwait));
  look();
}

bool Port::try_receive(zmq::message_t& message) { return gossip::try_receive(socket_, message); }

}  // namespace starling::gossip
