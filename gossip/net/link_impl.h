// What ZmqLink is made of: the contacts, that is everybody this peer has a way to or wants one to,
// and the sockets. link.cpp connects and sends, link_bulk.cpp sends payloads, link_receive.cpp
// receives, link_relay.cpp does both by way of others and for them. Included by those only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "gossip/message_meter.h"
#include "gossip/net/envelope_limit.h"
#include "gossip/net/link.h"
#include "gossip/net/link_callers.h"
#include "gossip/net/link_door.h"
#include "gossip/net/link_forwarder.h"
#include "gossip/net/link_inbox.h"
#include "gossip/net/link_line.h"
#include "gossip/net/link_reach.h"
#include "gossip/net/link_sent.h"
#include "gossip/net/link_tcp.h"
#include "gossip/wire/wire.h"

namespace starling::gossip {

inline constexpr int kLastWordsMs = 200;  // of lines that are closed
// Longer than a connection and its handshake may take (link_sockets.cpp).
inline constexpr Duration kGreetingMax = std::chrono::seconds(15);
// Of a contact's connections, one that says nothing for so long while others do has been given up.
inline constexpr Duration kRouteSilenceMax = std::chrono::seconds(10);

// A connection that a contact made for payloads, as the ROUTER names it.
struct BulkRoute {
  std::string name;
  PacedPath path;
  Instant heard;
};

struct Contact {
  PeerAddress address;  // of somebody who only called: the key alone
  bool connected = false;
  bool dialable = false;
  std::uint8_t version = kGreetingVersion;
  bool proven = false;     // it has shown that it knows the swarm's secret
  std::uint8_t slips = 0;  // greetings at the port of weights, while connected
  // Frames of it that ask for nothing here. A sound peer may send some with each of its exchanges:
  // greetings of the lane of payloads, and envelopes when a relay has just begun anew.
  MessageMeter idle{MessageMeter::kAll}, idle_payloads{MessageMeter::kTalk};
  Instant test_again;
  std::unique_ptr<Line> line;
  std::optional<Instant> greeted_at;  // as watch() noticed it; nothing: it has yet to
  RelayPath path;                     // where nothing else leads to it
  // Connections of its own making; empty: none.
  std::string control_route;
  std::vector<BulkRoute> bulk_routes;  // the one last heard is the last
  PeerTraffic traffic;                 // over connections to it, what they relay included

  PeerId id() const { return id_of(address.key); }
  // A connection that stands, as far as can be told.
  bool has_way() const { return !control_route.empty() || line_stands(); }
  bool line_stands() const { return line && line->was_up() && !line->is_down(); }
};

inline void count_out(LaneStats& stats, Contact& way, std::size_t bytes) {
  ++stats.frames_out;
  stats.bytes_out += bytes;
  way.traffic.bytes_out += bytes;
}

struct ZmqLink::Impl {
  Impl(const LinkConfig& config, const PeerAddress& address);
  ~Impl();

  // --- link.cpp ---
  void listen(const LinkConfig& config, std::string& trying, std::string_view& setting);
  Contact& contact(const PublicKey& key);
  Contact* connected(PeerId peer);
  void make_stranger(Contact& contact);
  void forget(PeerId peer);
  // These two dial. False: not now, as when there are no descriptors left; said in the log.
  bool open_line(Contact& contact);
  bool open_bulk_lane(Contact& contact);  // of its line
  void drop_line(Contact& contact);
  void drop_line_unless_good(Contact& contact, const PeerAddress& address);
  bool test_line(Contact& contact, Instant now);
  std::vector<std::byte> frame_for(const Contact& contact, const Message& message) const;
  Sending send_control(Contact& contact, const Message& message, bool may_dial);
  bool pass_control(Contact& way, zmq::message_t& frame);
  bool pass_back(Contact& way, zmq::message_t& frame);  // over its own connection
  bool wait_for_line(Contact& way, zmq::message_t& frame, bool may_dial);
  bool tend(Contact& contact, Instant now);

  // --- link_bulk.cpp ---
  void open_bulk(Contact& way);
  Sending send_bulk(Contact& contact, const Message& head, std::optional<SlotLease>& slot,
                    std::size_t payload_bytes);
  zmq::message_t freeze(const Contact& contact, const Message& head, std::optional<SlotLease>& slot,
                        std::size_t bytes);
  void end_bulk(PeerId peer);
  using MakeFrame = std::function<zmq::message_t()>;
  Sending pass_bulk(Contact& way, std::size_t bytes, const MakeFrame& make);
  bool pass_back(Contact& way, const MakeFrame& make);
  void pace(Contact& contact, Instant now);

  // --- link_watch.cpp ---
  Callers::Standing standing_of(const PublicKey& key) const;
  void follow_names(Instant now);
  void give_up_greeting(Instant now);
  void look_at_callers(Instant now);
  void look_at_lines(Instant now);

  // --- link_relay.cpp ---
  Contact* relay_of(const Contact& contact);
  std::optional<zmq::message_t> sealed(const Contact& contact, bool bulk_lane,
                                       std::span<const std::byte> frame);
  bool send_sealed(Contact& contact, const std::vector<std::byte>& frame, bool awaits_payload);
  Sending send_bulk_sealed(Contact& contact, const Message& head, std::optional<SlotLease>& slot,
                           std::size_t bytes);
  void pump_forwarder();

  // --- link_receive.cpp ---
  struct Came {  // one frame, and how it came
    PortKind lane = PortKind::kControl;
    PublicKey key;                // who is at the other end
    std::string route;            // empty: over our own line
    std::uint8_t connection = 0;  // of its bulk lane
    zmq::message_t frame;
    RelayPath path{};  // in an envelope by this way; `key` is then the one that sealed it
  };
  bool receive(PortName name, std::optional<Arrival>& arrival);
  bool receive_called(PortKind lane, std::optional<Arrival>& arrival);
  bool may_send_payloads(const PublicKey& key) const;  // where no list tells
  bool receive_dialled(PortName name, Line& line, std::optional<Arrival>& arrival);
  void take(Came&& came, std::optional<Arrival>& arrival);
  void take_frame(Came&& came, std::optional<Arrival>& arrival);
  void take_envelope(Came&& came, std::optional<Arrival>& arrival);
  void forward(Came&& came, const EnvelopeHead& head);
  void note_route(Contact& sender, const Came& came);
  void note_bulk_route(Contact& sender, const Came& came);
  EnvelopeFault open_envelope(const Came& came, const EnvelopeHead& head,
                              std::span<std::byte> frame);
  void note_unlisted(const EnvelopeHead& head, PeerId relay);
  void note_fault(const EnvelopeHead& head, PeerId relay, EnvelopeFault fault);
  bool believe(const Came& came, const Frame& parts);
  bool is_proven(Contact& contact, const PeerRecord& record, const RunIdentity& theirs,
                 const SecretProof& proof);
  std::uint64_t& count_of(RejectReason reason);
  void drop(const PublicKey& from, RejectReason reason, std::string_view why = {});
  void note_idle(const PublicKey& from, MessageMeter Contact::*meter, std::string_view what);
  bool dialled_wrong(const PublicKey& from);
  void note_failed_handshake(const Contact& contact);
  void refuse(Contact& contact, RefuseReason reason, const RunIdentity& theirs);
  void report(PeerId id, const Refused& event);
  void set_allow_list(AllowList allow);
  void report_turned_away();

  const PublicKey self;
  const CurvePair keys;
  const RunIdentity run;
  const std::optional<SwarmSecret> secret;
  PeerAddress local;
  LinkStats stats;
  Sealer sealer;
  EnvelopeLimit envelope_limit;
  Forwarder forwarder;
  std::vector<Forwarded> forwarded;
  Instant called_at;  // the last try_receive() or flush()
  std::vector<LinkRefusal> refusals;
  std::vector<BadFrame> bad_frames;
  SentFrames sent_frames;

  zmq::context_t context{kIoThreads, kSocketsMax};
  // Everything below is closed before the context, and leaves the inbox first.
  Inbox inbox;
  NameResolver names;
  CallersReach reach;
  Instant reach_noted;  // of those that stand
  const Dialler dialler{context, inbox, keys, names};
  Door door;
  std::unique_ptr<Port> control, bulk;  // none: does not listen
  Callers callers;                      // of those two
  RecentSenders bulk_senders;           // of those that call
  std::map<PeerId, Contact> contacts;
  std::deque<PeerId> strangers;            // not connected; oldest first
  std::map<std::uint32_t, PeerId> owners;  // of lines
  std::uint32_t last_line = 0;
};

}  // namespace starling::gossip
