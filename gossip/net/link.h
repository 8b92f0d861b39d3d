// ZmqLink: ZeroMQ and nothing else. Carries messages between peers over encrypted connections and
// knows who is at the other end of each; knows addresses and frames, no protocol and no clock.
//
// A pair can talk if either can dial the other. Two ROUTERs listen, one for control and one for
// bulk, so that a stuck payload cannot hold up a ping; a peer that does not listen has none. One
// DEALER per lane goes to each peer that was dialled (a line, link_line.h). All of them send and
// receive: what is for a peer goes over the line if that is up, else back over the connection by
// which it last spoke (a route), else a line is dialled, if it can be. The side that cannot be
// dialled opens its bulk lane by a BulkHello when an exchange begins.
//
// Every connection is CURVE: the dialler names the key it expects, the listener asks the door
// (link_door.h) about the key that came. A frame that names another sender than its connection's
// key is dropped and counted. Where a swarm secret is set, Hello and Welcome are given their proof
// and are checked here: the core never sees a greeting without it.
//
// Replay. CURVE numbers the messages of a connection and encrypts under keys drawn for it, so bytes
// recorded from one connection are noise in another (a test replays a capture). What a peer repeats
// itself is told by incarnations and exchange ids, one level up.
//
// Relays. Who cannot be reached in any of these ways is sent an envelope (envelope.h) through a
// relay that the core names. Whatever comes out of one is handed on as if its sender had brought
// it, with the same checks; of the relay nothing is believed. For whom the core says, this peer is
// such a relay itself (link_forwarder.h).
//
// Sending never blocks. A control message to a line that has not been up yet waits in the line, at
// most kWaitingMax of them; call flush() while it returns true. Names are resolved on threads of
// their own (name_resolver.h); a line waits for its name's address and holds up no other.
//
// Frames that are damaged, malformed, too large, in several parts or on the wrong lane are dropped
// and counted. Thread: one owner; payloads may be dropped on any thread. A SlotPool whose slots are
// sent must outlive the link.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/host.h"
#include "base/result.h"
#include "base/slot_pool.h"
#include "gossip/actions.h"
#include "gossip/net/envelope.h"
#include "gossip/net/identity.h"
#include "gossip/net/name_resolver.h"
#include "gossip/net/trust.h"

namespace starling::gossip {

struct LinkConfig {
  Identity identity;
  RunIdentity run;  // told to those who are refused; its versions are those that are understood
  // To listen on: an IP literal or an interface; 0.0.0.0: all; empty: this peer does not listen.
  std::string host = "127.0.0.1";
  std::uint16_t control_port = 0;  // 0: any free port, see local_address()
  std::uint16_t bulk_port = 0;
  std::optional<AllowList> allow;
  std::optional<SwarmSecret> secret;
  std::uint64_t process = 1;          // number of this process start
  double relay_bytes_per_second = 0;  // forwarded for others at most; 0: no limit
  std::size_t callers_max = 4096;     // connections that others make to us
  LookUp look_up = look_up_name;      // of host names
};

struct LaneStats {
  std::uint64_t frames_in = 0, frames_out = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;  // of whole frames; out: taken for sending
};

// Bytes of whole frames to and from one peer, while the link knows it.
struct PeerTraffic {
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

// Payloads for one peer that ZeroMQ has taken and that have not left: their slots are not free.
struct HeldPayloads {
  PeerId to;
  std::size_t frames = 0, deltas = 0, pieces = 0;  // of the frames
  std::size_t bytes = 0;
  Instant since{};  // the oldest was taken
};

struct RelayStats {
  std::uint64_t frames = 0, bytes = 0;  // forwarded between others
  std::uint64_t payload_bytes = 0;      // of them, on the bulk lane
  std::uint64_t unasked = 0;    // to be forwarded, but not for anybody who holds our promise
  std::uint64_t over_rate = 0;  // found no room
  std::uint64_t lost = 0;       // waited too long, or nowhere to go
  std::uint64_t waiting = 0;    // now
  // Envelopes to us, by what became of them: opened (kNone), or dropped for a reason.
  std::array<std::uint64_t, kEnvelopeFaults> envelopes{};
};

// Connections that others have made (link_callers.h).
struct CallerStats {
  std::uint64_t open = 0;  // now
  // Ended by us: for sending what does not become messages, for a key that is not to be here, for
  // being too many in all or of one key, for coming too fast from one network.
  // Or for not reading the payloads that it is sent, or for saying far too much.
  std::uint64_t greedy = 0, unwelcome = 0, crowded = 0, hasty = 0, idle_readers = 0, floods = 0;
  // Ended by whomever before their handshake was through: no peers, hasty, or not let in.
  std::uint64_t unfinished = 0;
  std::uint64_t asked_again = 0;  // handshakes of strangers put off: too many in a short time
};

struct LinkStats {
  LaneStats control, bulk;
  RelayStats relayed;
  CallerStats callers;
  std::uint64_t damaged = 0;
  std::uint64_t other_version = 0;  // of the wire; was on its way to another life of one of us
  std::uint64_t malformed = 0;      // no message, or on the wrong lane
  std::uint64_t oversized = 0;    // larger than its lane allows; far larger ones end the connection
  std::uint64_t multipart = 0;    // more than one frame
  std::uint64_t forged = 0;       // in another's name
  std::uint64_t idle = 0;         // frames that ask for nothing, beyond what is usual
  std::uint64_t unproven = 0;     // greetings without proof of the secret
  std::uint64_t not_allowed = 0;  // from keys that were taken off the allow-list
  std::uint64_t handshakes_failed = 0;  // of our lines, for other reasons than the list
  std::uint64_t send_refused = 0;       // not taken: no way to the peer, or full
};

struct Arrival {
  PeerId from;
  Message message;
  Bytes payload;   // owns the library's message; not aligned
  PeerId through;  // the relay that brought it; nobody: it came directly
};

// A frame that was dropped, of a sender whose identity is proved.
struct BadFrame {
  PeerId from;
  RejectReason reason{};
  friend bool operator==(const BadFrame&, const BadFrame&) = default;
};

// One that this peer was to forward between.
struct Forwarded {
  PeerId from, to;
  friend bool operator==(const Forwarded&, const Forwarded&) = default;
};

// Somebody who may not take part here, or with whom we may not.
struct LinkRefusal {
  PeerId id;
  Refused event;
};

enum class Sending : std::uint8_t {
  kSent,   // handed over, or waiting for its line to come up
  kBusy,   // nothing was taken; try again soon
  kFailed  // there is no such peer, or it cannot be reached now
};

class ZmqLink {
 public:
  // Listens at once. kIo if an address cannot be had; the message names it and the setting.
  // kUnavailable if the library lacks CURVE or lets in whom it should not.
  static Result<ZmqLink> open(const LinkConfig& config);
  ~ZmqLink();  // waits up to 200 ms, so that a last Leave gets out
  ZmqLink(ZmqLink&&) noexcept;
  ZmqLink& operator=(ZmqLink&&) noexcept;

  // The listening host, the ports that were given, and the key.
  const PeerAddress& local_address() const;

  // --- whom to talk to ---
  // Sends `message` (a Hello) to the peer at `address`, dialling if there is no other way.
  // One message waits for each line that is not up. False if the address cannot be dialled at all
  // and no relay leads there.
  bool greet(const PeerAddress& address, const Message& message, const RelayPath& path = {});
  // Answers a stranger by the way that its message came. Never dials: the address in a greeting is
  // what a stranger says, and others would be called in our name.
  void reply(PeerId stranger, const Message& message);
  // From now on the peer can be sent to. Repeating it revives a line that is down. One that others
  // have not dialled is tried for kTestMax, and at most once in kTestEvery.
  bool connect(Instant now, const Connect& wish);
  // At once, with everything queued on our lines, and on its own if that is payloads.
  void disconnect(PeerId peer);
  // Ends all connections to and from it, with what they hold. The next message makes new ones.
  void cut_off(PeerId peer);
  // Lets no connection for payloads of its own making in before then.
  void shun_bulk(Instant now, PeerId peer, Duration length);
  void set_allow_list(AllowList allow);
  const std::optional<AllowList>& allow_list() const;  // nothing: there is none
  // Forwards between `peer` and whomever else we are connected to, or no longer.
  void relay_for(PeerId peer, bool wanted);

  // --- sending ---
  Sending try_send_control(PeerId to, const Message& message);
  // Sends `head` and, behind it, the payload_bytes from kBulkHeadBytes on in `slot`, without a
  // copy of ours. The head is written into the slot. kBusy leaves the slot with the caller;
  // otherwise it is taken and goes home when the last byte has left, or at once.
  Sending try_send_bulk(PeerId to, const Message& head, std::optional<SlotLease>& slot,
                        std::size_t payload_bytes);
  std::vector<HeldPayloads> held_payloads();
  // Ends all connections for payloads to or from it; what ZeroMQ holds for it is dropped. The next
  // payload makes new ones.
  void end_bulk(PeerId peer);
  // Moves on what waits for its line to come up. True if something still waits.
  bool flush(Instant now);
  // Sees to it that payloads fill lines and not queues (line_pacer.h). Call it every kPaceEvery
  // while payloads are under way.
  void pace(Instant now);
  // Ends connections of others that are too many, too greedy or not welcome any more, sees to it
  // that lines by a name lead where it leads, and closes lines to the greeted that do not come up
  // and are not greeted again. Call it every kWatchEvery.
  void watch(Instant now);

  // --- receiving ---
  // Control first, then bulk if wanted, which has a turn in so many while control never ends. Gives
  // up after a few bad frames in a row, and after one payload, though it was bad or to be
  // forwarded; readable() tells if more is there.
  std::optional<Arrival> try_receive(Instant now, bool bulk_too = true);
  bool readable(bool bulk_too = true);
  int descriptor() const;  // becomes readable when try_receive() is worth another look
  std::vector<LinkRefusal> take_refusals();
  // What of others was dropped and why; at most kBadFramesMax between two calls.
  std::vector<BadFrame> take_bad_frames();
  // Who spoke through us or tried to, at most kForwardedMax between two calls.
  std::vector<Forwarded> take_forwarded();
  // From how far away others open connections to both our lanes; kUnspecified: nobody does.
  // `beside_lines`: nor does anybody count where lines of ours lead farther. All of it is forgotten
  // CallersReach::kKept after the last one.
  Reach reached_from(Instant now, bool beside_lines = false) const;
  // This one has, and has spoken on both.
  bool was_reached_by(PeerId peer) const;

  const LinkStats& stats() const;
  PeerTraffic traffic_with(PeerId peer) const;  // zeros: it is not known

  static constexpr std::size_t kWaitingMax = 16;
  static constexpr std::size_t kBadFramesMax = 64;
  static constexpr std::size_t kForwardedMax = 64;
  // Known of those whom the core has not connected: greeted, or heard. The oldest is forgotten.
  static constexpr std::size_t kStrangersMax = 256;
  static constexpr Duration kPaceEvery = std::chrono::milliseconds(100);
  static constexpr Duration kWatchEvery = std::chrono::milliseconds(100);
  static constexpr Duration kTestMax = std::chrono::seconds(5);
  static constexpr Duration kTestEvery = std::chrono::seconds(50);

 private:
  struct Impl;
  explicit ZmqLink(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace starling::gossip
