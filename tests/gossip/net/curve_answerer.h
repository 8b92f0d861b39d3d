// CurveAnswerer: the server's half of CurveZMQ by hand, for one connection after the other: whom we
// have called, and who sends what no ZeroMQ would. For tests.
#pragma once

#include "tests/gossip/net/curve_hand.h"

namespace starling::gossip {

class CurveAnswerer : public CurveHand {
 public:
  explicit CurveAnswerer(const Identity& self)
      : CurveHand(-1),
        long_(curve_pair_of(self)),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    STARLING_ASSERT(::bind(listener_, any, sizeof address) == 0);
    STARLING_ASSERT(::listen(listener_, 4) == 0);
    STARLING_ASSERT(::getsockname(listener_, any, &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~CurveAnswerer() { ::close(listener_); }
  CurveAnswerer(const CurveAnswerer&) = delete;
  CurveAnswerer& operator=(const CurveAnswerer&) = delete;

  std::uint16_t port() const { return port_; }
  std::size_t answered() const { return answered_; }  // connections
  // Moves on what can be moved without waiting. True: a caller is let in.
  bool step() {
    if (socket_ < 0) answer();
    hear();
    while (state_ != State::kReady && advance()) {
    }
    push();
    if (state_ == State::kReady) heard_.clear();
    return state_ == State::kReady && !ended_;
  }
  bool ended() {  // by the caller
    step();
    return ended_;
  }
  // Waits for the next caller.
  void hang_up() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
    forget();
    state_ = State::kGreeting;
  }
  bool send(std::string_view frame, bool more) {
    return state_ == State::kReady && send_message(frame, more, "S");
  }

 private:
  enum class State { kGreeting, kHello, kInitiate, kReady };

  void answer() {
    socket_ = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
    if (socket_ < 0) return;
    ++answered_;
    greet(true);
  }
  bool advance() {
    if (state_ == State::kGreeting) {
      if (heard_.size() < kGreetingBytes) return false;
      heard_.erase(0, kGreetingBytes);
      state_ = State::kHello;
      return true;
    }
    const auto command = next_frame();
    if (!command) return false;
    if (state_ == State::kHello) {
      constexpr std::size_t kKeyAt = 80;
      std::copy_n(command->begin() + kKeyAt, transient_.size(), transient_.begin());
      say_welcome();
      state_ = State::kInitiate;
    } else {
      say_ready();
      state_ = State::kReady;
    }
    return true;
  }
  void say_welcome() {
    const Text nonce(16, 'w');
    put_frame('\x04', "\x07WELCOME" + nonce +
                          box(text_of(short_.public_key) + Text(kCookieBytes, 'c'),
                              "WELCOME-" + nonce, transient_, long_.secret_key));
  }
  void say_ready() {
    const Text metadata(
        "\x0bSocket-Type\0\0\0\x06"
        "ROUTER\x08Identity\0\0\0\0",
        35);
    const Text nonce = next_nonce();
    put_frame('\x04', "\x05READY" + nonce +
                          box(metadata, "CurveZMQREADY---" + nonce, transient_, short_.secret_key));
  }

  const CurvePair long_;
  const int listener_;
  std::uint16_t port_ = 0;
  std::size_t answered_ = 0;
  State state_ = State::kGreeting;
};

}  // namespace starling::gossip
