#include "gossip/net/link_backlog.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "gossip/net/link_tcp.h"

namespace starling::gossip {
namespace {

constexpr int kWaitingMax = 512;  // before one listener: more than it is told to keep

// One that the system, too, has to have room for. Negative: there is none.
int new_descriptor() { return ::eventfd(0, EFD_CLOEXEC); }

// What a listener does not let pass never knocked: the other side tries again, ever more rarely.
void let_pass(int listener, bool pass) {
  sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &none};
  const int ignored = 0;
  if (pass) {
    static_cast<void>(
        ::setsockopt(listener, SOL_SOCKET, SO_DETACH_FILTER, &ignored, sizeof ignored));
  } else {
    static_cast<void>(
        ::setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
  }
}

}  // namespace

Backlog::Backlog() : reserve_(new_descriptor()) {}

Backlog::~Backlog() {
  if (reserve_ >= 0) ::close(reserve_);
}

// ZeroMQ's listeners block: whichever of the two threads came too late for a caller would wait for
// the next one.
void Backlog::add(int listener) {
  const std::uint64_t socket = socket_number(listener);
  const int flags = ::fcntl(listener, F_GETFL);
  if (socket == 0 || flags < 0) return;
  if (::fcntl(listener, F_SETFL, flags | O_NONBLOCK) == 0) listeners_[listener] = socket;
}

std::uint64_t Backlog::look() {
  const bool room = has_room();
  if (room && shut_) shut(false);
  if (room) return 0;
  if (!shut_) shut(true);
  if (reserve_ >= 0) ::close(reserve_);
  const std::uint64_t count = hang_up_on_all();
  reserve_ = new_descriptor();
  return count;
}

// For the reserve and another.
bool Backlog::has_room() {
  if (reserve_ < 0) reserve_ = new_descriptor();
  const int another = reserve_ < 0 ? -1 : new_descriptor();
  if (another >= 0) ::close(another);
  return another >= 0;
}

void Backlog::shut(bool shut) {
  shut_ = shut;
  for (const auto& [listener, socket] : listeners_) {
    if (socket_number(listener) == socket) let_pass(listener, !shut);
  }
  if (shut && is_worth_a_line(++times_)) {
    log_warning(
        "this process may open no more files and connections ({} times so far): until some are "
        "closed nobody can call it. Raise its limit (ulimit -n)",
        times_);
  }
}

std::uint64_t Backlog::hang_up_on_all() const {
  std::uint64_t count = 0;
  for (const auto& [listener, socket] : listeners_) {
    if (socket_number(listener) != socket) continue;
    for (int left = kWaitingMax; left > 0; --left) {
      const int caller = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (caller < 0) break;
      ::close(caller);
      ++count;
    }
  }
  return count;
}

}  // namespace starling::gossip
