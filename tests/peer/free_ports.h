// Two ports of this machine that were free a moment ago: of a peer's two lanes.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>

namespace starling::testing {

inline std::array<std::uint16_t, 2> free_ports() {
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  const tcp::endpoint any(boost::asio::ip::make_address("127.0.0.1"), 0);
  const tcp::acceptor control(io, any), bulk(io, any);
  return {control.local_endpoint().port(), bulk.local_endpoint().port()};
}

}  // namespace starling::testing
