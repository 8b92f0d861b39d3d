// Two ports of this machine that are free and nobody else's: of a peer's two lanes.
//
// They are of a block of a hundred ports, which is this process's for as long as it holds the first
// of them; free_ports.py has its blocks by the same rule. So a port that is told, but not bound
// yet, is not another test's; nor a swarm's, whose ports are above, as are those of outgoing
// connections. Thread: one.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace starling::testing {

class OwnPorts {
 public:
  std::array<std::uint16_t, 2> next_pair() {
    while (true) {
      if (next_ >= end_) take_block();
      const int control = next_;
      next_ += 2;
      if (hold(control) && hold(control + 1)) {
        return {static_cast<std::uint16_t>(control), static_cast<std::uint16_t>(control + 1)};
      }
    }
  }

 private:
  using tcp = boost::asio::ip::tcp;
  static constexpr int kFirst = 10'000, kBlocks = 100, kBlockPorts = 100;

  void take_block() {
    for (int i = 0; i < kBlocks; ++i) {
      const int first = kFirst + kBlockPorts * ((::getpid() + i) % kBlocks);
      auto held = hold(first);
      if (!held) continue;
      blocks_.push_back(std::move(*held));
      next_ = first + 2;
      end_ = first + kBlockPorts;
      return;
    }
    FAIL("no block of ports is free");
  }

  // For as long as the result lives; empty: somebody has it.
  std::optional<tcp::acceptor> hold(int port) {
    tcp::acceptor acceptor(io_, tcp::v4());
    const tcp::endpoint place(boost::asio::ip::address_v4::loopback(),
                              static_cast<std::uint16_t>(port));
    boost::system::error_code error;
    acceptor.bind(place, error);
    if (error) return std::nullopt;
    return acceptor;
  }

  boost::asio::io_context io_;
  std::vector<tcp::acceptor> blocks_;
  int next_ = 0, end_ = 0;
};

inline std::array<std::uint16_t, 2> free_ports() {
  static OwnPorts ports;
  return ports.next_pair();
}

}  // namespace starling::testing
