#include "gossip/link.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <zmq.hpp>

#include "base/log.h"
#include "gossip/link_sockets.h"
#include "gossip/wire.h"

namespace starling::gossip {
namespace {

constexpr int kLeaveLingerMs = 200;
constexpr std::size_t kBadFramesMax = 16;  // dropped in one try_receive()

std::span<const std::byte> view(const zmq::message_t& message) {
  return {static_cast<const std::byte*>(message.data()), message.size()};
}

zmq::message_t control_frame(PeerId self, const Message& message) {
  const std::vector<std::byte> frame = encode(self, message);
  return zmq::message_t(frame.data(), frame.size());
}

// The part of a received message that is the payload, with the message as its owner.
Bytes payload_of(zmq::message_t&& message, std::size_t payload_bytes) {
  auto* owner = new zmq::message_t(std::move(message));
  return Bytes(view(*owner).last(payload_bytes), owner,
               [](void* held) noexcept { delete static_cast<zmq::message_t*>(held); });
}

// Called by ZeroMQ's I/O thread when the last byte has left. The hand-over goes through the
// library's own queues, which thread sanitizer does not see: tests/tsan.supp names this function.
void drop_sent_slot(void*, void* held) { delete static_cast<FrozenSlot*>(held); }

// What it takes to send to one address.
struct Line {
  PeerAddress address;
  zmq::socket_t control;
  zmq::socket_t bulk;                  // empty until the first payload
  std::deque<zmq::message_t> waiting;  // control messages from before the line was up
  bool was_up = false;

  bool is_down() { return was_up && !ready_to_send(control); }
  void flush() {
    while (!waiting.empty() && ready_to_send(control)) {
      was_up = true;
      // ZeroMQ may yet refuse, if the connection ended this instant; the message stays in front.
      if (!try_send(control, waiting.front())) return;
      waiting.pop_front();
    }
  }
};

void count_out(LaneStats& stats, std::size_t bytes) {
  ++stats.frames_out;
  stats.bytes_out += bytes;
}

}  // namespace

struct ZmqLink::Impl {
  PeerId self;
  PeerAddress local;
  LinkStats stats;
  zmq::context_t context{kIoThreads, kSocketsMax};
  // Everything below is closed before the context.
  zmq::socket_t control;
  zmq::socket_t bulk;
  std::map<PeerId, Line> peers;
  std::deque<Line> unnamed;  // oldest first

  ~Impl() {
    for (auto& [peer, line] : peers) line.control.set(zmq::sockopt::linger, kLeaveLingerMs);
  }

  Line open_line(const PeerAddress& address) {
    Line line;
    line.address = address;
    line.control = dial(context, LinkLane::kControl, address);
    return line;
  }
  // The one to `address`, up or coming up.
  Line& line_to(const PeerAddress& address);
  void connect(PeerId peer, const PeerAddress& address);
  Sending send_control(Line& line, zmq::message_t&& frame);
  Sending send_bulk(Line& line, const Message& head, std::optional<SlotLease>& slot,
                    std::size_t payload_bytes);
  bool receive_frame(zmq::socket_t& socket, zmq::message_t& frame, bool& single);
  bool receive(LinkLane lane, std::optional<Arrival>& arrival);
  void drop_malformed(std::string_view why);
};

Line& ZmqLink::Impl::line_to(const PeerAddress& address) {
  const auto is_it = [&address](const Line& line) { return line.address == address; };
  for (auto& [peer, line] : peers) {
    if (!is_it(line)) continue;
    if (line.is_down()) line = open_line(address);
    return line;
  }
  const auto found = std::find_if(unnamed.begin(), unnamed.end(), is_it);
  if (found != unnamed.end()) {
    if (found->is_down()) *found = open_line(address);
    if (!found->was_up) found->waiting.clear();  // only the newest greeting matters
    return *found;
  }
  if (unnamed.size() == kUnnamedMax) unnamed.pop_front();
  return unnamed.emplace_back(open_line(address));
}

void ZmqLink::Impl::connect(PeerId peer, const PeerAddress& address) {
  const auto known = peers.find(peer);
  if (known != peers.end()) {
    const bool good = known->second.address == address && !known->second.is_down();
    if (!good) known->second = open_line(address);
    return;
  }
  const auto greeted = std::find_if(unnamed.begin(), unnamed.end(), [&address](const Line& line) {
    return line.address == address;
  });
  if (greeted == unnamed.end()) {
    peers.emplace(peer, open_line(address));
    return;
  }
  Line line = std::move(*greeted);
  unnamed.erase(greeted);
  if (line.is_down()) line = open_line(address);
  peers.emplace(peer, std::move(line));
}

Sending ZmqLink::Impl::send_control(Line& line, zmq::message_t&& frame) {
  const std::size_t bytes = frame.size();
  line.flush();
  if (line.waiting.empty() && ready_to_send(line.control)) {
    line.was_up = true;
    if (try_send(line.control, frame)) {
      count_out(stats.control, bytes);
      return Sending::kSent;
    }
  }
  if (line.was_up || line.waiting.size() == kWaitingMax) {
    ++stats.send_refused;
    return Sending::kFailed;
  }
  line.waiting.push_back(std::move(frame));
  count_out(stats.control, bytes);
  return Sending::kSent;
}

Sending ZmqLink::Impl::send_bulk(Line& line, const Message& head, std::optional<SlotLease>& slot,
                                 std::size_t payload_bytes) {
  STARLING_ASSERT(slot.has_value());
  STARLING_ASSERT(payload_bytes <= slot->bytes().size() - kBulkHeadBytes);
  if (!line.bulk) line.bulk = dial(context, LinkLane::kBulk, line.address);
  if (!ready_to_send(line.bulk)) {
    ++stats.send_refused;
    return Sending::kBusy;
  }
  const std::size_t bytes = kBulkHeadBytes + payload_bytes;
  encode_bulk_head(self, head, slot->bytes().first(bytes));
  auto* frozen = new FrozenSlot(std::move(*slot), bytes);
  slot.reset();
  // ZeroMQ wants a mutable pointer; it only reads.
  zmq::message_t frame(const_cast<std::byte*>(frozen->bytes().data()), bytes, drop_sent_slot,
                       frozen);
  if (!try_send(line.bulk, frame)) {
    ++stats.send_refused;
    return Sending::kFailed;
  }
  count_out(stats.bulk, bytes);
  return Sending::kSent;
}

// Takes one message off `socket`: the sender's routing id, of no use to us, and the frame. Parts
// behind it are dropped as they come; `single` says there were none. False: nothing is there.
bool ZmqLink::Impl::receive_frame(zmq::socket_t& socket, zmq::message_t& frame, bool& single) {
  zmq::message_t route;
  if (!gossip::try_receive(socket, route)) return false;
  single = route.more();
  if (!route.more()) return true;
  // The parts of one message arrive together, so these cannot come up empty.
  if (!gossip::try_receive(socket, frame)) return false;
  for (bool more = frame.more(); more;) {
    single = false;
    zmq::message_t extra;
    if (!gossip::try_receive(socket, extra)) return false;
    more = extra.more();
  }
  return true;
}

// Takes one message off a lane: a good one becomes `arrival`, a bad one is counted. False: the
// lane is empty.
bool ZmqLink::Impl::receive(LinkLane lane, std::optional<Arrival>& arrival) {
  const bool is_control = lane == LinkLane::kControl;
  zmq::message_t frame;
  bool single = false;
  if (!receive_frame(is_control ? control : bulk, frame, single)) return false;
  LaneStats& lane_stats = is_control ? stats.control : stats.bulk;
  ++lane_stats.frames_in;
  lane_stats.bytes_in += frame.size();
  if (!single) {
    ++stats.multipart;
    return true;
  }
  if (frame.size() > (is_control ? kControlFrameBytesMax : kBulkFrameBytesMax)) {
    ++stats.oversized;
    return true;
  }
  auto decoded = decode(view(frame));
  if (!decoded.ok()) {
    drop_malformed(decoded.error().message());
    return true;
  }
  Frame& parts = decoded.value();
  if (is_bulk(parts.message) == is_control) {
    drop_malformed("a message on the wrong lane");
    return true;
  }
  const std::size_t payload_bytes = parts.payload.size();
  arrival = Arrival{parts.from, parts.message, {}};
  if (!is_control) arrival->payload = payload_of(std::move(frame), payload_bytes);
  return true;
}

// Said aloud ever more rarely: whoever sends garbage must not fill the log too.
void ZmqLink::Impl::drop_malformed(std::string_view why) {
  ++stats.malformed;
  if ((stats.malformed & (stats.malformed - 1)) != 0) return;
  log_warning("dropped a malformed frame: {} ({} so far)", why, stats.malformed);
}

Result<ZmqLink> ZmqLink::open(const LinkConfig& config) {
  auto impl = std::make_unique<Impl>();
  impl->self = config.self;
  if (!valid_host(config.host) || !set_host(impl->local, config.host)) {
    return Error(ErrorCode::kInvalidConfig,
                 "cannot listen on \"" + config.host + "\": not a host; change gossip.listen");
  }
  std::string trying = endpoint(config.host, config.control_port);
  std::string_view setting = "gossip.listen";
  try {
    impl->control = listen(impl->context, LinkLane::kControl, config.host, config.control_port);
    trying = endpoint(config.host, config.bulk_port);
    setting = "gossip.bulk_port";
    impl->bulk = listen(impl->context, LinkLane::kBulk, config.host, config.bulk_port);
    impl->local.control_port = bound_port(impl->control);
    impl->local.bulk_port = bound_port(impl->bulk);
  } catch (const zmq::error_t& error) {
    return Error(ErrorCode::kIo,
                 fmt::format("cannot listen on {}: {}; change {}", trying, error.what(), setting));
  }
  return ZmqLink(std::move(impl));
}

ZmqLink::ZmqLink(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZmqLink::~ZmqLink() = default;
ZmqLink::ZmqLink(ZmqLink&&) noexcept = default;
ZmqLink& ZmqLink::operator=(ZmqLink&&) noexcept = default;

const PeerAddress& ZmqLink::local_address() const { return impl_->local; }

bool ZmqLink::greet(const PeerAddress& address, const Message& message) {
  if (!valid_host(host(address))) return false;
  try {
    Line& line = impl_->line_to(address);
    return impl_->send_control(line, control_frame(impl_->self, message)) == Sending::kSent;
  } catch (const zmq::error_t& error) {
    log_debug("cannot dial {}: {}", to_string(address), error.what());
    return false;
  }
}

bool ZmqLink::connect(PeerId peer, const PeerAddress& address) {
  if (!valid_host(host(address))) return false;
  try {
    impl_->connect(peer, address);
    return true;
  } catch (const zmq::error_t& error) {
    log_debug("cannot dial {}: {}", to_string(address), error.what());
    return false;
  }
}

void ZmqLink::disconnect(PeerId peer) { impl_->peers.erase(peer); }

Sending ZmqLink::try_send_control(PeerId to, const Message& message) {
  const auto line = impl_->peers.find(to);
  if (line == impl_->peers.end()) {
    ++impl_->stats.send_refused;
    return Sending::kFailed;
  }
  try {
    return impl_->send_control(line->second, control_frame(impl_->self, message));
  } catch (const zmq::error_t& error) {
    log_debug("cannot send to {}: {}", to_string(line->second.address), error.what());
    return Sending::kFailed;
  }
}

Sending ZmqLink::try_send_bulk(PeerId to, const Message& head, std::optional<SlotLease>& slot,
                               std::size_t payload_bytes) {
  const auto line = impl_->peers.find(to);
  if (line == impl_->peers.end()) {
    ++impl_->stats.send_refused;
    return Sending::kFailed;
  }
  try {
    return impl_->send_bulk(line->second, head, slot, payload_bytes);
  } catch (const zmq::error_t& error) {
    log_debug("cannot send to {}: {}", to_string(line->second.address), error.what());
    return Sending::kFailed;
  }
}

bool ZmqLink::flush() {
  bool waiting = false;
  const auto flush_line = [&waiting](Line& line) {
    if (!line.waiting.empty()) line.flush();
    waiting = waiting || !line.waiting.empty();
  };
  for (auto& [peer, line] : impl_->peers) flush_line(line);
  for (Line& line : impl_->unnamed) flush_line(line);
  return waiting;
}

std::optional<Arrival> ZmqLink::try_receive(bool bulk_too) {
  std::optional<Arrival> arrival;
  for (std::size_t i = 0; i < kBadFramesMax && !arrival; ++i) {
    if (impl_->receive(LinkLane::kControl, arrival)) continue;
    if (!bulk_too || !impl_->receive(LinkLane::kBulk, arrival)) break;
  }
  return arrival;
}

bool ZmqLink::readable(bool bulk_too) {
  return ready_to_receive(impl_->control) || (bulk_too && ready_to_receive(impl_->bulk));
}

int ZmqLink::control_descriptor() const { return impl_->control.get(zmq::sockopt::fd); }
int ZmqLink::bulk_descriptor() const { return impl_->bulk.get(zmq::sockopt::fd); }

const LinkStats& ZmqLink::stats() const { return impl_->stats; }

}  // namespace starling::gossip
