// TcpPath: a look at the TCP connection under one of ZeroMQ's, and the rate at which the kernel may
// send on it. ZeroMQ tells the descriptor of a connection when it is made and with every message
// that comes over it, and closes it when it likes, on its own thread. So it is checked each time
// that it still means the same socket; a look at one that has just gone finds nothing.
//
// PacedPath: one that payloads leave by, and its pacer. Where it loses packets though it is not
// full its congestion control is changed, on every connection that follows.
//
// Included by link*.cpp only. Thread: one owner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "gossip/line_pacer.h"
#include "gossip/line_widener.h"
#include "gossip/loss_watch.h"
#include "gossip/net/link_congestion.h"

namespace starling::gossip {

// The kernel's number of the socket that `descriptor` means now, never used again; 0: of none.
std::uint64_t socket_number(int descriptor);
bool sockets_have_numbers();  // false: this kernel gives none, so nothing can be told of
                              // connections
// Of the connection that `message` came over; negative: it is not told.
int source_descriptor(const zmq::message_t& message);
// The other end, an IP literal; empty: it is gone.
std::string peer_host(int descriptor);
// Bytes that were read from the socket; empty: it is gone.
std::optional<std::uint64_t> bytes_taken(int descriptor, std::uint64_t socket);

// Ends a connection without closing its descriptor, which is not ours. It takes hold of the socket
// first, on a descriptor kept for that: so neither may the number mean another by then, nor does it
// matter that there are no more to be had.
class TcpEnder {
 public:
  TcpEnder();
  ~TcpEnder();
  TcpEnder(const TcpEnder&) = delete;
  TcpEnder& operator=(const TcpEnder&) = delete;
  void end(int descriptor, std::uint64_t socket);

 private:
  const int idle_, grip_;
};

class TcpPath {
 public:
  struct Look : LinePacer::Sample {
    // Since it was made: it had something to send; of that, it could not for a full buffer on
    // either side, where the network would have taken more.
    Duration busy{}, held{};
    std::uint64_t sent_again = 0;  // segments
  };
  // Under the connection that `message` came over. True if that is another than before.
  bool follow(const zmq::message_t& message);
  bool follow(int descriptor);
  // How it is now; empty: it is gone, or was never known.
  std::optional<Look> look() const;
  // At most so many bytes per second from now on; empty: as TCP likes.
  void pace(std::optional<double> bytes_per_second);
  // Losses do not slow it down from now on, if that is to be had (link_congestion.h).
  Endurance endure_losses();
  bool stands() const { return is_known(); }  // false also of one that was never known
  std::optional<std::uint64_t> taken() const { return bytes_taken(descriptor_, socket_); }

 private:
  bool is_known() const { return socket_ != 0 && socket_number(descriptor_) == socket_; }

  int descriptor_ = -1;
  std::uint64_t socket_ = 0;  // the kernel's number of it, never used again
  std::optional<double> paced_;
};

class PacedPath {
 public:
  // Of what a connection is told by: its descriptor or a message that came over it. True if that is
  // another than before.
  template <class Told>
  bool follow(const Told& told) {
    if (!tcp_.follow(told)) return false;
    pacer_.on_new_connection();
    last_.reset();
    if (losses_.lossy()) static_cast<void>(tcp_.endure_losses());
    return true;
  }
  // Paces it; what happened since the last call is added to `use`. Tells, once, that it loses
  // packets though the line is not full, and what it does about that now.
  std::optional<Endurance> tend(Instant now, LineUse& use);
  bool stands() const { return tcp_.stands(); }
  std::optional<std::uint64_t> taken() const { return tcp_.taken(); }

 private:
  TcpPath tcp_;
  LinePacer pacer_;
  LossWatch losses_;
  std::optional<TcpPath::Look> last_;
};

}  // namespace starling::gossip
