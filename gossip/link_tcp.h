// TcpPath: a look at the TCP connection under one of ZeroMQ's, and the rate at which the kernel may
// send on it. ZeroMQ tells the descriptor of a connection with every message that comes over it,
// and closes it when it likes, on its own thread. So it is checked each time that it still means
// the same socket; a look at one that has just gone finds nothing.
//
// Included by link*.cpp only. Thread: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <zmq.hpp>

#include "gossip/line_pacer.h"

namespace starling::gossip {

class TcpPath {
 public:
  // Under the connection that `message` came over. True if that is another than before.
  bool follow(const zmq::message_t& message);
  // How its round trips are now; empty: it is gone, or was never known.
  std::optional<LinePacer::Sample> look() const;
  // At most so many bytes per second from now on; empty: as TCP likes.
  void pace(std::optional<double> bytes_per_second);

 private:
  int descriptor_ = -1;
  std::uint64_t socket_ = 0;  // the kernel's number of it, never used again
  std::optional<double> paced_;
};

}  // namespace starling::gossip
