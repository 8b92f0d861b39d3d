// Inbox: which of many sockets may have something to read, behind one descriptor to wait on.
// Port: a socket of the link, and its place there.
//
// ZeroMQ's descriptor of a socket is edge-triggered in an unpleasant way: it tells that something
// happened, and whatever handles that (a send, a look at ZMQ_EVENTS) also takes the news away. So a
// port looks for arrivals after every call on its socket and marks itself; what the system tells
// comes on top. A port is unmarked only when a receive has found it empty, and the inbox's
// descriptor is readable as long as any is marked: whoever waits for it also hears of what a send
// has come upon.
//
// Internal matters (handshakes, events of connections) come first, then control, then bulk; but
// while bulk waits it has a turn behind every kControlTurnsMax of control, whoever floods that.
// Within a kind, lines take turns, and the listening socket has one for each peer that has lately
// sent over it, so that a download limit is shared by peers. (Of callers, one with several
// connections has a share for each: ZeroMQ's ROUTER takes turns between those.)
// Included by link*.cpp only. Thread: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <zmq.hpp>

#include "base/ids.h"

namespace starling::gossip {

enum class PortKind : std::uint8_t { kInternal, kControl, kBulk };
inline constexpr std::size_t kPortKinds = 3;

struct PortName {
  PortKind kind = PortKind::kInternal;
  std::uint32_t line = 0;       // 0: a listening socket or the door
  std::uint8_t connection = 0;  // of the line's bulk lane
  friend auto operator<=>(const PortName&, const PortName&) = default;
};

class Inbox {
 public:
  static constexpr int kControlTurnsMax = 8;

  Inbox();
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  void add(int descriptor, PortName name);
  void remove(int descriptor, PortName name);
  void mark(PortName name);  // something may be there
  void look();               // asks the system and marks
  bool is_marked(PortName name) const { return marked_.contains(name); }
  std::optional<PortName> next(bool bulk_too) const;
  void found_empty(PortName name);
  // It had its turn, in bulk one of `peers` in a row: others of its kind first.
  void take_turn(PortName name, std::size_t peers = 1);
  int descriptor() const { return poll_; }

 private:
  std::deque<PortName>& queue(PortKind kind) { return queues_[static_cast<std::size_t>(kind)]; }
  const std::deque<PortName>& queue(PortKind kind) const {
    return queues_[static_cast<std::size_t>(kind)];
  }

  int poll_;
  int bell_;  // rings while anything is marked
  std::array<std::deque<PortName>, kPortKinds> queues_;
  std::set<PortName> marked_;
  int control_turns_ = 0;         // since bulk had one
  std::size_t turns_in_row_ = 0;  // of the bulk port that had the last one
  std::optional<PortName> last_bulk_;
};

// Who has lately sent payloads over a socket that many share.
class RecentSenders {
 public:
  static constexpr std::size_t kKept = 16;  // frames

  void note(PeerId sender);
  std::size_t count() const { return frames_of_.size(); }  // different ones

 private:
  std::deque<PeerId> senders_;  // of the last frames
  std::map<PeerId, std::size_t> frames_of_;
};

enum class Taken : std::uint8_t { kYes, kBusy, kGone };

class Port {
 public:
  Port(zmq::socket_t socket, Inbox& inbox, PortName name);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  bool writable();
  bool try_send(zmq::message_t& message);  // false: untouched
  // Of a ROUTER, whose messages begin with the connection they are for. kGone: there is none any
  // more. After kYes, what follows is what finish() is given.
  Taken begin(const std::string& route);
  void finish(zmq::message_t&& message);
  bool try_receive(zmq::message_t& message);
  // While there is something to receive ZeroMQ looks at what other connections have brought only at
  // every hundredth call: whoever never stops would be heard alone. Of a ROUTER.
  void look_at_all() { static_cast<void>(look()); }
  zmq::socket_t& socket() { return socket_; }
  PortName name() const { return name_; }

 private:
  int look();

  zmq::socket_t socket_;
  Inbox& inbox_;
  const PortName name_;
  const int descriptor_;
};

}  // namespace starling::gossip
