// Callers: the TCP connections that others have made to our two ROUTERs. It ends those that nobody
// honest has any use for, because a ROUTER does not: it keeps what it is sent until a message is
// whole, however many frames that takes, and every connection for as long as the other side likes.
//
// Known from the listeners' monitors, by descriptor and the kernel's number of the socket: ZeroMQ
// closes descriptors when it likes and the system gives them out again. A connection is ended with
// shutdown(), never close(): ZeroMQ drops it, with what it held, as one that the network has lost,
// and a peer's DEALER dials again.
//
// What ends one:
// - greed: ZeroMQ has taken more bytes from it than whole messages can explain that wait for us
//   (held_bytes()). Or it is one of those that together keep more than kStrangersBytesMax, and has
//   more than its share of that.
// - no welcome: its key is not, or no longer, to be here. Last words get kLastWords to leave.
// - the crowd: more than `callers_max` in all, or kOfKeyMax of one key. Those that never said a
//   thing and those of strangers go, the oldest first: a newcomer has that much time to be greeted,
//   and a flood fights for its own places. Of the silent, the network with the most loses.
// - idle reading: payloads for it do not leave (end_bulk_of()).
// - a flood: more messages than the core has any use for (end_flood_of()); of a stranger, whom the
//   core refuses, more than kStrangerMessagesMax, and more payloads, which nobody reads, than
//   kStrangerPayloadsMax.
// - want of descriptors: no place is left for it, nor for anybody (Backlog).
// - haste: its network opens them too fast (HandshakeLimit::kCallers).
//
// Cost: per frame a look-up; per look at most kLooksMax connections, in turns. Included by
// link*.cpp only. Time is an argument. Thread: one owner.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "base/time.h"
#include "gossip/net/link.h"
#include "gossip/net/link_backlog.h"
#include "gossip/net/link_inbox.h"
#include "gossip/net/link_intake.h"
#include "gossip/net/link_limit.h"
#include "gossip/net/link_reach.h"
#include "gossip/net/link_sockets.h"
#include "gossip/net/link_tcp.h"

namespace starling::gossip {

class Callers {
 public:
  static constexpr std::size_t kOfKeyMax = 16;  // control, eight for payloads, and lost ones
  static constexpr std::size_t kLooksMax = 512;
  static constexpr std::uint64_t kStrangersBytesMax = 64ULL << 20;
  // Bytes of a connection.
  static constexpr std::uint64_t kStrangerPayloadsMax = 16ULL << 20;
  static constexpr std::uint64_t kStrangerMessagesMax = 256ULL << 10;
  static constexpr Duration kLastWords = std::chrono::milliseconds(200);

  enum class Standing : std::uint8_t { kSilent, kStranger, kMember, kUnwelcome };
  using StandingOf = std::function<Standing(const PublicKey&)>;

  Callers(zmq::context_t& context, Inbox& inbox, std::size_t callers_max, CallerStats& stats);
  ~Callers();
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  // Before `listener` is bound; it must outlive this, or unwatch() come first. Throws zmq::error_t.
  void watch(zmq::socket_t& listener, LinkLane lane);
  void unwatch(LinkLane lane);

  // What the monitors tell. The crowd and the hasty are ended here.
  void read_monitors(Instant now);
  // Do not count handshakes that failed so far: they were this peer's own test of its door in
  // open().
  void forget_unfinished();
  // `frame` came over a connection of `key`.
  void on_frame(Instant now, LinkLane lane, const zmq::message_t& frame, const PublicKey& key);
  // Nothing whole is left to read on this lane.
  void on_read_empty(LinkLane lane) { lanes_[index(lane)].read_empty_in = look_number_; }
  // `frame` came over a connection that has not the name that the door drew.
  void end_self_named(const zmq::message_t& frame);
  // From where those come that have said a thing and are not `self`.
  void note_reach(Instant now, const PublicKey& self, CallersReach& reach) const;
  // Payloads that ZeroMQ holds for it are dropped.
  void end_bulk_of(PeerId peer);
  void end_flood_of(PeerId peer);  // on both lanes
  // Some ten times a second.
  void look(Instant now, const StandingOf& standing_of);

 private:
  static constexpr std::size_t kStandings = 4;
  static std::size_t index(LinkLane lane) { return static_cast<std::size_t>(lane); }

  struct Lane {
    void* listener = nullptr;
    std::unique_ptr<Port> monitor;
    std::uint64_t read_empty_in = 0;  // before which look that was so last
    std::uint64_t accepted = 0, let_in = 0;
  };
  struct Caller {
    LinkLane lane = LinkLane::kControl;
    std::uint64_t socket = 0;
    std::uint64_t number = 0;  // counted as they come
    std::string host;          // an IP literal
    std::string network;
    std::optional<PublicKey> key;  // it has spoken
    Standing standing = Standing::kSilent;
    Instant heard;
    Intake intake;
    std::uint64_t held = 0;  // as it counts among the strangers'
    std::uint64_t said = 0;  // of frames alone, in its present standing
    std::uint64_t looked_in = 0;
    std::optional<Instant> last_words_until;
    bool ended = false;  // ZeroMQ has yet to notice
  };
  using Place = std::map<int, Caller>::iterator;
  using Counter = std::uint64_t CallerStats::*;

  void read_monitor(Instant now, LinkLane lane);
  void on_accepted(Instant now, LinkLane lane, int descriptor);
  void on_gone(LinkLane lane, int descriptor);
  void look_at(Instant now, Place place, const StandingOf& standing_of);
  bool is_greedy(Caller& caller, std::uint64_t taken);
  void set_standing(Caller& caller, Standing standing);
  void set_held(Caller& caller, std::uint64_t held);
  void set_key(Caller& caller, const PublicKey& key);
  void leave(Caller& caller);
  std::size_t count(Standing standing) const { return counts_[static_cast<std::size_t>(standing)]; }
  std::size_t total() const;
  std::uint64_t not_let_in() const;
  void note_unfinished();
  std::vector<Place> expendable(Standing standing);
  void make_room();
  void make_room_of(const PublicKey& key);
  void end(Place place, Counter counter, std::string_view why);
  void end_all_of(PeerId peer, bool bulk_alone, Counter counter, std::string_view why);

  zmq::context_t& context_;
  Inbox& inbox_;
  const std::size_t callers_max_;
  CallerStats& stats_;
  HandshakeLimit limit_{HandshakeLimit::kCallers};
  TcpEnder ender_;
  Backlog backlog_;
  std::map<int, Caller> callers_;  // by descriptor
  // Of those that are open and not ended.
  std::map<PublicKey, std::size_t> of_key_;
  std::array<std::size_t, kStandings> counts_{};
  std::uint64_t strangers_held_ = 0;
  std::uint64_t own_unfinished_ = 0;
  std::string last_silent_;  // the host of who went without a word last
  std::uint64_t last_number_ = 0;
  std::uint64_t look_number_ = 1;
  int last_looked_ = -1;
  bool blind_ = false;  // this library does not tell what a frame came over
  std::array<Lane, 2> lanes_;
};

}  // namespace starling::gossip
