#include "peer/io/terminal_keys.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "peer/io/hangup.h"

namespace starling::peer {

namespace {

constexpr std::array kEndings = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

// For the handler, which can be given nothing.
int shown_on = -1;
termios as_it_was{};

// Behind another process group nobody may set anything, and whoever tries is stopped.
bool is_in_front(int descriptor) { return ::tcgetpgrp(descriptor) == ::getpgrp(); }

void give_back_and_end(int signal) {
  if (is_in_front(shown_on)) ::tcsetattr(shown_on, TCSANOW, &as_it_was);
  ::raise(signal);  // whose handler is the usual one again
}

void handle(void (*handler)(int)) {
  for (const int signal : kEndings) {
    if (signal == SIGHUP && hangup_is_ignored()) continue;
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESETHAND;
    sigaddset(&action.sa_mask, SIGTTOU);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

TerminalKeys::TerminalKeys(int descriptor) : descriptor_(-1) {
  if (!is_in_front(descriptor)) return;
  if (::tcgetattr(descriptor, &as_it_was) != 0) return;
  shown_on = descriptor_ = descriptor;
  handle(&give_back_and_end);
  take_keys();
}

// Also again, as a shell that had it in between (Ctrl-Z, then fg) has set it for lines.
void TerminalKeys::take_keys() const {
  termios keys = as_it_was;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  ::tcsetattr(descriptor_, TCSANOW, &keys);
}

TerminalKeys::~TerminalKeys() {
  if (descriptor_ < 0) return;
  if (is_in_front(descriptor_)) ::tcsetattr(descriptor_, TCSANOW, &as_it_was);
  handle(SIG_DFL);
}

std::optional<char> TerminalKeys::next_within(std::chrono::milliseconds time) {
  if (descriptor_ < 0 || !is_in_front(descriptor_)) {
    std::this_thread::sleep_for(time);
    return std::nullopt;
  }
  take_keys();
  pollfd waits{descriptor_, POLLIN, 0};
  if (::poll(&waits, 1, static_cast<int>(time.count())) <= 0) return std::nullopt;
  char key = kEnd;
  if (::read(descriptor_, &key, 1) <= 0) return kEnd;
  return key;
}

}  // namespace starling::peer
