// CurveCaller: the client's half of CurveZMQ by hand, over one TCP connection. ZeroMQ's own sockets
// send a message only when its last frame is there; whoever wants to begin one and never end it, or
// to open thousands of connections, speaks for himself. For tests.
#pragma once

#include "tests/gossip/net/curve_hand.h"

namespace starling::gossip {

class CurveCaller : public CurveHand {
 public:
  // `name`: of its connection, as it tells it.
  CurveCaller(std::uint16_t port, const Identity& self, const PublicKey& server,
              std::string name = {})
      : CurveHand(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)),
        long_(curve_pair_of(self)),
        server_(curve_key_of(server).value()),
        name_(std::move(name)) {
    STARLING_ASSERT(socket_ >= 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int begun = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    STARLING_ASSERT(begun == 0 || errno == EINPROGRESS);
    greet(false);
  }
  CurveCaller(CurveCaller&&) noexcept = default;

  // Moves on what can be moved without waiting. True: the server let it in.
  bool step() {
    hear();
    while (state_ != State::kReady && advance()) {
    }
    push();
    return state_ == State::kReady;
  }
  bool ended() {  // by the server
    step();
    return ended_;
  }
  // False: there is no room for it now, or no connection any more.
  bool send(std::string_view frame, bool more) { return send_message(frame, more, "C"); }

 private:
  enum class State { kGreeting, kWelcome, kReadyCommand, kReady };

  bool advance() {
    if (state_ == State::kGreeting) {
      if (heard_.size() < kGreetingBytes) return false;
      heard_.erase(0, kGreetingBytes);
      say_hello();
      state_ = State::kWelcome;
      return true;
    }
    const auto command = next_frame();
    if (!command) return false;
    if (state_ == State::kWelcome) {
      STARLING_ASSERT(command->starts_with("\x07WELCOME"));
      say_initiate(*command);
      state_ = State::kReadyCommand;
    } else if (command->starts_with("\x05READY")) {
      state_ = State::kReady;
    }
    return true;
  }
  void say_hello() {
    const Text nonce = next_nonce();
    put_frame('\x04',
              Text("\x05HELLO\x01\0", 8) + Text(72, '\0') + text_of(short_.public_key) + nonce +
                  box(Text(64, '\0'), "CurveZMQHELLO---" + nonce, server_, short_.secret_key));
  }
  void say_initiate(const Text& welcome) {
    Text plain(32 + kCookieBytes, '\0');
    const Text sealed = welcome.substr(24);
    const Text welcome_nonce = "WELCOME-" + welcome.substr(8, 16);
    STARLING_ASSERT(crypto_box_open_easy(reinterpret_cast<unsigned char*>(plain.data()),
                                         raw(sealed), sealed.size(), raw(welcome_nonce),
                                         server_.data(), short_.secret_key.data()) == 0);
    std::copy_n(plain.begin(), transient_.size(), transient_.begin());
    const Text vouch_nonce(16, 'v');
    const Text vouch = box(text_of(short_.public_key) + text_of(server_), "VOUCH---" + vouch_nonce,
                           transient_, long_.secret_key);
    Text metadata(
        "\x0bSocket-Type\0\0\0\x06"
        "DEALER\x08Identity",
        31);
    for (int shift = 24; shift >= 0; shift -= 8) {
      metadata += static_cast<char>(name_.size() >> shift & 0xFF);
    }
    metadata += name_;
    const Text nonce = next_nonce();
    put_frame('\x04', "\x08INITIATE" + plain.substr(32) + nonce +
                          box(text_of(long_.public_key) + vouch_nonce + vouch + metadata,
                              "CurveZMQINITIATE" + nonce, transient_, short_.secret_key));
  }

  const CurvePair long_;
  const CurveKey server_;
  const Text name_;
  State state_ = State::kGreeting;
};

}  // namespace starling::gossip
