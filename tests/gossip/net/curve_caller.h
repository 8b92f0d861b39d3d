// CurveCaller: the client's half of CurveZMQ (RFC 26) by hand, over one TCP connection. ZeroMQ's
// own sockets send a message only when its last frame is there; whoever wants to begin one and
// never end it, or to open thousands of connections, speaks for himself. For tests.
#pragma once

#include <sodium.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "tests/gossip/net/net_support.h"

namespace starling::gossip {

class CurveCaller {
 public:
  CurveCaller(std::uint16_t port, const Identity& self, const PublicKey& server)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)),
        long_(curve_pair_of(self)),
        server_(curve_key_of(server).value()) {
    STARLING_ASSERT(socket_ >= 0);
    crypto_box_keypair(short_.public_key.data(), short_.secret_key.data());
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int begun = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    STARLING_ASSERT(begun == 0 || errno == EINPROGRESS);
    Text greeting("\xFF\0\0\0\0\0\0\0\x01\x7F\x03\0CURVE", 17);
    greeting.resize(kGreetingBytes);
    put(greeting);
  }
  ~CurveCaller() {
    if (socket_ >= 0) ::close(socket_);
  }
  CurveCaller(CurveCaller&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        long_(other.long_),
        short_(other.short_),
        server_(other.server_),
        transient_(other.transient_),
        nonce_(other.nonce_),
        state_(other.state_),
        heard_(std::move(other.heard_)),
        to_say_(std::move(other.to_say_)),
        ended_(other.ended_) {}
  CurveCaller& operator=(CurveCaller&&) = delete;

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
  bool send(std::string_view frame, bool more) {
    push();
    if (!to_say_.empty() || ended_) return false;
    const Text plain = Text(1, more ? '\x01' : '\0') + Text(frame);
    const Text nonce = next_nonce();
    put_frame('\0', "\x07MESSAGE" + nonce +
                        box(plain, "CurveZMQMESSAGEC" + nonce, transient_, short_.secret_key));
    return true;
  }

 private:
  using Text = std::string;
  enum class State { kGreeting, kWelcome, kReadyCommand, kReady };
  static constexpr std::size_t kGreetingBytes = 64;
  static constexpr std::size_t kCookieBytes = 96;

  static const unsigned char* raw(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  }
  static Text text_of(const CurveKey& key) { return Text(key.begin(), key.end()); }
  static Text box(std::string_view plain, const Text& nonce, const CurveKey& to,
                  const CurveKey& from) {
    STARLING_ASSERT(nonce.size() == crypto_box_NONCEBYTES);
    Text out(plain.size() + crypto_box_MACBYTES, '\0');
    STARLING_ASSERT(crypto_box_easy(reinterpret_cast<unsigned char*>(out.data()), raw(plain),
                                    plain.size(), raw(nonce), to.data(), from.data()) == 0);
    return out;
  }
  Text next_nonce() {
    ++nonce_;
    Text out;
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(nonce_ >> shift & 0xFF);
    return out;
  }

  bool advance() {
    if (state_ == State::kGreeting) {
      if (heard_.size() < kGreetingBytes) return false;
      heard_.erase(0, kGreetingBytes);
      say_hello();
      state_ = State::kWelcome;
      return true;
    }
    if (heard_.size() < 2) return false;
    const auto length = static_cast<unsigned char>(heard_[1]);
    if (heard_.size() < 2u + length) return false;
    const Text command = heard_.substr(2, length);
    heard_.erase(0, 2u + length);
    if (state_ == State::kWelcome) {
      STARLING_ASSERT(command.starts_with("\x07WELCOME"));
      say_initiate(command);
      state_ = State::kReadyCommand;
    } else if (command.starts_with("\x05READY")) {
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
    const Text metadata(
        "\x0bSocket-Type\0\0\0\x06"
        "DEALER\x08Identity\0\0\0\0",
        35);
    const Text nonce = next_nonce();
    put_frame('\x04', "\x08INITIATE" + plain.substr(32) + nonce +
                          box(text_of(long_.public_key) + vouch_nonce + vouch + metadata,
                              "CurveZMQINITIATE" + nonce, transient_, short_.secret_key));
  }

  void put_frame(char flags, const Text& body) {
    if (body.size() <= 255) {
      put({flags, static_cast<char>(body.size())});
    } else {
      Text head(1, static_cast<char>(flags | 0x02));
      for (int shift = 56; shift >= 0; shift -= 8) {
        head += static_cast<char>(std::uint64_t{body.size()} >> shift & 0xFF);
      }
      put(head);
    }
    put(body);
    push();
  }
  void put(const Text& bytes) { to_say_ += bytes; }
  void push() {
    if (to_say_.empty() || ended_) return;
    const ssize_t count = ::send(socket_, to_say_.data(), to_say_.size(), MSG_NOSIGNAL);
    if (count > 0) to_say_.erase(0, static_cast<std::size_t>(count));
    if (count < 0 && errno != EAGAIN && errno != ENOTCONN) ended_ = true;
  }
  void hear() {
    std::array<char, 4096> chunk{};
    for (;;) {
      const ssize_t count = ::recv(socket_, chunk.data(), chunk.size(), 0);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != ENOTCONN)) ended_ = true;
      if (count <= 0) return;
      heard_.append(chunk.data(), static_cast<std::size_t>(count));
    }
  }

  int socket_;
  const CurvePair long_;
  CurvePair short_;
  const CurveKey server_;
  CurveKey transient_{};
  std::uint64_t nonce_ = 0;
  State state_ = State::kGreeting;
  Text heard_, to_say_;
  bool ended_ = false;
};

}  // namespace starling::gossip
