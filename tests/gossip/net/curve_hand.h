// CurveHand: one end of a CurveZMQ connection (RFC 26) by hand, what both ends have in common. For
// tests.
#pragma once

#include <sodium.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tests/gossip/net/net_support.h"

namespace starling::gossip {

class CurveHand {
 public:
  ~CurveHand() {
    if (socket_ >= 0) ::close(socket_);
  }
  CurveHand& operator=(CurveHand&&) = delete;

 protected:
  using Text = std::string;
  static constexpr std::size_t kGreetingBytes = 64;
  static constexpr std::size_t kCookieBytes = 96;

  explicit CurveHand(int socket) : socket_(socket) {
    crypto_box_keypair(short_.public_key.data(), short_.secret_key.data());
  }
  CurveHand(CurveHand&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        short_(other.short_),
        transient_(other.transient_),
        heard_(std::move(other.heard_)),
        ended_(other.ended_),
        nonce_(other.nonce_),
        to_say_(std::move(other.to_say_)) {}

  void forget() {  // the connection that was
    heard_.clear();
    to_say_.clear();
    ended_ = false;
    nonce_ = 0;
  }
  void greet(bool as_server) {
    Text greeting("\xFF\0\0\0\0\0\0\0\x01\x7F\x03\0CURVE", 17);
    greeting.resize(kGreetingBytes);
    greeting[32] = as_server ? '\x01' : '\0';
    put(greeting);
  }
  // False: there is no room for it now, or no connection any more. `which`: "C" or "S".
  bool send_message(std::string_view frame, bool more, std::string_view which) {
    push();
    if (!to_say_.empty() || ended_ || socket_ < 0) return false;
    const Text plain = Text(1, more ? '\x01' : '\0') + Text(frame);
    const Text nonce = next_nonce();
    put_frame('\0', "\x07MESSAGE" + nonce +
                        box(plain, Text("CurveZMQMESSAGE").append(which) + nonce, transient_,
                            short_.secret_key));
    return true;
  }
  // What the other end said is cut into frames; nothing: the next is not whole.
  std::optional<Text> next_frame() {
    if (heard_.size() < 2) return std::nullopt;
    const bool is_long = (heard_[0] & 0x02) != 0;
    const std::size_t head = is_long ? 9 : 2;
    if (heard_.size() < head) return std::nullopt;
    std::size_t length = 0;
    for (std::size_t i = 1; i < head; ++i) {
      length = length << 8 | static_cast<unsigned char>(heard_[i]);
    }
    if (heard_.size() < head + length) return std::nullopt;
    const Text frame = heard_.substr(head, length);
    heard_.erase(0, head + length);
    return frame;
  }

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
    if (socket_ < 0 || to_say_.empty() || ended_) return;
    const ssize_t count = ::send(socket_, to_say_.data(), to_say_.size(), MSG_NOSIGNAL);
    if (count > 0) to_say_.erase(0, static_cast<std::size_t>(count));
    if (count < 0 && errno != EAGAIN && errno != ENOTCONN) ended_ = true;
  }
  void hear() {
    if (socket_ < 0) return;
    std::array<char, 4096> chunk{};
    for (;;) {
      const ssize_t count = ::recv(socket_, chunk.data(), chunk.size(), 0);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != ENOTCONN)) ended_ = true;
      if (count <= 0) return;
      heard_.append(chunk.data(), static_cast<std::size_t>(count));
    }
  }

  int socket_;  // below 0: none yet
  CurvePair short_;
  CurveKey transient_{};  // of the other end
  Text heard_;
  bool ended_ = false;

 private:
  std::uint64_t nonce_ = 0;
  Text to_say_;
};

}  // namespace starling::gossip
