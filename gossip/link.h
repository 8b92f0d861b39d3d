// ZmqLink: ZeroMQ and nothing else. Carries messages between peers; knows addresses and frames, no
// protocol and no clock.
//
// Two ROUTERs listen, one for control and one for bulk, and only ever receive; one DEALER per peer
// and lane only ever sends. So no identity of a socket means anything, nothing is sent on a socket
// that is waited upon (ZMQ_FD is edge-triggered), and a stuck payload cannot hold up a ping.
//
// A line is what we need to send to one address. It dials when made, and ZeroMQ dials again 500 to
// 1000 ms after a loss: with RECONNECT_IVL_MAX unset every wait is drawn anew, so that a thousand
// peers do not come back in step. Dialling by hand (RECONNECT_IVL -1) would leave a line dead for
// good whose first attempt failed, with no event that says so. With IMMEDIATE, what was queued on a
// lost connection is dropped rather than delivered to the peer's next life.
//
// Sending never blocks. A control message to a line that has not been up yet waits in the line, at
// most kWaitingMax of them; call flush() while it returns true. Names that need resolving have an
// I/O thread of their own, because the resolver blocks it.
//
// Frames that are damaged, malformed, too large, in several parts or on the wrong lane are dropped
// and counted. The sender named in a frame is a claim: there is no authentication yet.
// Thread: one owner; payloads may be dropped on any thread. A SlotPool whose slots are sent must
// outlive the link.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "base/slot_pool.h"
#include "gossip/messages.h"

namespace starling::gossip {

struct LinkConfig {
  PeerId self;
  std::string host = "127.0.0.1";  // to listen on: an IP literal or an interface; 0.0.0.0: all
  std::uint16_t control_port = 0;  // 0: any free port, see local_address()
  std::uint16_t bulk_port = 0;
};

struct LaneStats {
  std::uint64_t frames_in = 0, frames_out = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;  // of whole frames; out: taken for sending
};

struct LinkStats {
  LaneStats control, bulk;
  std::uint64_t malformed = 0;  // damaged, not understood, or on the wrong lane
  std::uint64_t oversized = 0;  // larger than its lane allows; far larger ones end the connection
  std::uint64_t multipart = 0;  // more than one frame
  std::uint64_t send_refused = 0;  // not taken: no line, not connected, or full
};

struct Arrival {
  PeerId from;
  Message message;
  Bytes payload;  // owns the library's message; not aligned
};

enum class Sending : std::uint8_t {
  kSent,   // handed over, or waiting for its line to come up
  kBusy,   // nothing was taken; try again soon
  kFailed  // there is no such peer, or it cannot be reached now
};

class ZmqLink {
 public:
  // Listens at once. kIo if an address cannot be had; the message names it and the setting.
  static Result<ZmqLink> open(const LinkConfig& config);
  ~ZmqLink();  // waits up to 200 ms, so that a last Leave gets out
  ZmqLink(ZmqLink&&) noexcept;
  ZmqLink& operator=(ZmqLink&&) noexcept;

  // The listening host and the ports that were given.
  const PeerAddress& local_address() const;

  // --- lines ---
  // Sends `message` (Hello or Refuse) to whoever answers at `address`, over the line of a peer or
  // an unnamed one. At most kUnnamedMax unnamed lines are kept, and one message waits on each.
  // False if the address cannot be dialled at all.
  bool greet(const PeerAddress& address, const Message& message);
  // Gives `peer` the line to `address`. Repeating it revives a line that is down.
  bool connect(PeerId peer, const PeerAddress& address);
  void disconnect(PeerId peer);  // at once, with everything queued

  // --- sending ---
  Sending try_send_control(PeerId to, const Message& message);
  // Sends `head` and, behind it, the payload_bytes from kBulkHeadBytes on in `slot`, without a
  // copy. The head is written into the slot. kBusy leaves the slot with the caller; otherwise it
  // is taken and goes home when the last byte has left, or at once.
  Sending try_send_bulk(PeerId to, const Message& head, std::optional<SlotLease>& slot,
                        std::size_t payload_bytes);
  // Moves on what waits for its line to come up. True if something still waits.
  bool flush();

  // --- receiving ---
  // Control first, then bulk if wanted. Gives up after a few bad frames in a row; readable() tells
  // if more is there.
  std::optional<Arrival> try_receive(bool bulk_too = true);
  bool readable(bool bulk_too = true);
  int control_descriptor() const;  // becomes readable when try_receive() is worth another look
  int bulk_descriptor() const;

  const LinkStats& stats() const;

  static constexpr std::size_t kWaitingMax = 16;
  static constexpr std::size_t kUnnamedMax = 64;

 private:
  struct Impl;
  explicit ZmqLink(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::gossip
