// Line: what this peer dialled to reach one address. A DEALER for control, one for bulk once it is
// needed, more for bulk where one cannot fill the line (line_widener.h), and, until the first
// connection of each stands, a monitor that tells if we were refused.
//
// It dials when made, and ZeroMQ dials again 500 to 1000 ms after a loss: with RECONNECT_IVL_MAX
// unset every wait is drawn anew, so that a thousand peers do not come back in step. Dialling by
// hand (RECONNECT_IVL -1) would leave a line dead for good whose first attempt failed, with no
// event that says so. So it dials for as long as the line is there; when that is too long its owner
// has to know. With IMMEDIATE, what was queued on a lost connection is dropped rather than
// delivered to the peer's next life. A line that was refused stays down: make a new one.
//
// ZeroMQ is given IP literals only. Of a name the resolver tells the addresses (name_resolver.h),
// and while the line is not up it is asked for others: of several each is tried in turn, and what
// is no address of the name any more is not dialled any longer. All of that in follow_name().
//
// Calls that make sockets throw zmq::error_t. Included by link*.cpp only. Thread: one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "base/time.h"
#include "gossip/messages.h"
#include "gossip/net/link_inbox.h"
#include "gossip/net/link_intake.h"
#include "gossip/net/link_sockets.h"
#include "gossip/net/link_tcp.h"
#include "gossip/net/name_resolver.h"

namespace starling::gossip {

// What every line needs.
struct Dialler {
  zmq::context_t& context;
  Inbox& inbox;
  const CurvePair& keys;
  NameResolver& names;
};

class Line {
 public:
  // `number` names the line in the inbox. Throws if the address cannot be dialled at all.
  Line(const Dialler& dialler, const PeerAddress& address, std::uint32_t number);
  ~Line();

  const PeerAddress& address() const { return address_; }
  std::uint32_t number() const { return number_; }
  const std::string& dialled() const { return dialled_; }  // where it leads, or is to lead
  bool was_up() const { return was_up_; }
  // Lost after it was up, or never let in.
  bool is_down();

  // Call it ten times a second. Of an IP literal it does nothing.
  void follow_name(const Dialler& dialler, Instant now);

  // Control. False: not now.
  bool try_send(zmq::message_t& frame);
  // Keeps `frame` until the line is up the first time; waiting() is for the owner to bound.
  void wait(zmq::message_t&& frame) { waiting_.push_back(std::move(frame)); }
  void forget_waiting() { waiting_.clear(); }
  std::size_t waiting() const { return waiting_.size(); }

  void open_bulk(const Dialler& dialler);   // unless it is
  void widen_bulk(const Dialler& dialler);  // by one connection
  void close_bulk();                        // with all that is under way
  std::size_t bulk_connections() const { return bulk_.size(); }
  Port* writable_bulk();  // a connection with room; none: now there is no
  // Dials anew what was not let in of the bulk lane, or is lost for good, a second after. True if
  // that is so.
  bool mend_bulk(const Dialler& dialler, Instant now);
  // Looks for connections that ZeroMQ does not dial again. Call it now and then.
  void note_lost_bulk(Instant now);
  // Says `hello` on all of the bulk lane as soon as it stands.
  void introduce_bulk(std::vector<std::byte> hello);
  // Paces its connections and adds one where that helps. Call it ten times a second.
  struct Tended {
    bool widened = false;
    std::optional<Endurance> lossy;  // one has just turned out so (link_tcp.h)
  };
  Tended tend_bulk(const Dialler& dialler, Instant now);

  // `frame` came over it; nothing whole is left to read there.
  void note_came(PortName name, const zmq::message_t& frame);
  void note_empty(PortName name) { lane_of(name).emptied = true; }
  // What whoever answers has said, in bytes of frames, since it was made or this was forgotten.
  std::uint64_t said() const { return said_; }
  void forget_said() { said_ = 0; }
  // Why it must go. kGreedy: ZeroMQ keeps more of what was sent than whole messages explain that
  // wait for us (held_bytes()). kUnknown: ZeroMQ has dialled again, and nobody can tell what it
  // takes from that connection; of the bulk lane such a one is made anew. Call it ten times a
  // second.
  enum class Fault : std::uint8_t { kNone, kUnknown, kGreedy };
  Fault look(const Inbox& inbox, Instant now);

  // Sends what waits. True if something still waits, or the test is not over.
  bool flush();

  void linger(int milliseconds);
  Port& port(PortName name);
  // The monitors have something to say of the first handshakes.
  enum class News : std::uint8_t { kNone, kNotAllowed, kFailed };
  News read_monitors();

  // The line, or its bulk lane, is a test whether the address can be dialled. False at its end: it
  // cannot. The test is over when both lanes are up.
  void test(Instant until) { test_until_ = until; }
  bool passes_test(Instant now);
  void end_test() { test_until_.reset(); }

 private:
  struct Lane {
    std::unique_ptr<Port> port;
    std::unique_ptr<Port> monitor;  // until the first handshake is decided
    PacedPath path;
    Intake intake;         // of what `path` leads over
    bool emptied = false;  // since the last look
    std::optional<Instant> unknown_since;
    bool failed = false;
    bool in_vain = false;  // whom a name led to does not answer there
    bool introduced = false;
    bool stood = false;
    std::optional<Instant> lost_since;
  };
  void open(const Dialler& dialler, Lane& lane, PortName name);
  void open_next_bulk(const Dialler& dialler);
  void redial(const std::string& address);
  bool dialled_in_vain(Instant now);
  bool is_introduced() const;
  static News read_monitor(Lane& lane);
  Lane& lane_of(PortName name) {
    return name.kind == PortKind::kControl ? control_ : bulk_.at(name.connection);
  }
  static Fault look_at(Lane& lane, LinkLane which, const Inbox& inbox, Instant now);
  static void close_monitor(Lane& lane);

  const PeerAddress address_;
  const std::uint32_t number_;
  const bool by_name_;
  std::string dialled_;  // an IP literal; empty: the name is not resolved yet
  Instant dialled_at_;   // where that is by a name
  bool reached_ = false, given_up_ = false;
  Lane control_;
  std::vector<Lane> bulk_;  // the first is dialled when it is needed, others when it is too narrow
  std::deque<zmq::message_t> waiting_;
  std::vector<std::byte> bulk_hello_;  // empty: nobody waits for one
  LineWidener widener_;
  std::optional<Instant> test_until_, mend_at_;
  bool was_up_ = false;
  std::uint64_t said_ = 0;
  std::uint64_t last_monitor_ = 0;  // they are numbered
};

}  // namespace starling::gossip
