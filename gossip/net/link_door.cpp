#include "gossip/net/link_door.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace starling::gossip {
namespace {

constexpr const char* kAddress = "inproc://zeromq.zap.01";  // RFC 27
constexpr std::string_view kVersion = "1.0";
constexpr std::size_t kRequestFrames = 7;  // the credentials of CURVE are one frame
constexpr std::chrono::milliseconds kTestTurn{20};
constexpr int kTestTurns = 250;  // five seconds in all

std::string_view text_of(const zmq::message_t& frame) {
  return {static_cast<const char*>(frame.data()), frame.size()};
}

// Metadata (RFC 27) that names the connection for the ROUTER. A caller could else choose the name,
// and when the ROUTER, which counts, comes to one that is taken it ends the process (libzmq 4.3.4,
// src/socket_base.cpp, add_out_pipe). What the door says counts more than what the caller says.
std::string drawn_name() {
  std::string metadata("\x08Identity\0\0\0", 12);
  metadata += static_cast<char>(Door::kRouteBytes);
  std::array<char, Door::kRouteBytes> name{};
  ::randombytes_buf(name.data(), name.size());
  return metadata.append(name.data(), name.size());
}

}  // namespace

struct Door::Request {
  std::string id;
  std::string domain;
  std::string host;
  CurveKey key{};
};

struct Door::Verdict {
  std::string_view code;
  std::string_view reason;
  std::string user;
};

Door::Door(zmq::context_t& context, Inbox& inbox, const PublicKey& self,
           std::optional<AllowList> allow, CallersReach& reach)
    : self_(self),
      allow_(std::move(allow)),
      reach_(reach),
      port_(zmq::socket_t(context, zmq::socket_type::rep), inbox, {PortKind::kInternal, 0}) {
  port_.socket().set(zmq::sockopt::linger, 0);
  port_.socket().bind(kAddress);
}

bool Door::allows(const PublicKey& key) const {
  return !allow_ || key == self_ || allow_->contains(key);
}

std::vector<Knock> Door::take_turned_away() { return std::exchange(turned_away_, {}); }

// The library asks, not the client: a request of another shape means that we asked for something
// else than CURVE. It is not answered then; `any` says that one was there.
std::optional<Door::Request> Door::receive(zmq::socket_t& socket, bool& any) {
  std::array<zmq::message_t, kRequestFrames> frames;
  std::size_t count = 0;
  for (bool more = true; more; ++count) {
    zmq::message_t extra;
    zmq::message_t& frame = count < frames.size() ? frames[count] : extra;
    any = try_receive(socket, frame);
    if (!any) return std::nullopt;
    more = frame.more();
  }
  Request request;
  const bool curve = count == kRequestFrames && text_of(frames[5]) == "CURVE";
  if (!curve || frames[6].size() != request.key.size()) return std::nullopt;
  request.id = text_of(frames[1]);
  request.domain = text_of(frames[2]);
  request.host = text_of(frames[3]);
  std::memcpy(request.key.data(), frames[6].data(), request.key.size());
  return request;
}

Door::Verdict Door::judge(Instant now, const Request& request, const MaySend& may_send) {
  const Verdict refused{"400", "your key is not on the allow-list", {}};
  if (request.key == foreigner_) return refused;
  const auto key = public_key_of(request.key);
  if (!key) return {"400", "not a peer's key", {}};
  const bool bulk = request.domain == door_domain(LinkLane::kBulk);
  if (bulk && !allow_ && !may_send(*key)) return {"300", "greet first", {}};
  if (!allow_ && !limit_.admit(now, request.host)) {
    if (is_worth_a_line(++asked_again_)) {
      log_warning(
          "strangers connect faster than they are let in, the last from {}: {} were asked to come "
          "again so far; an allow-list, trust.allow, knows who may",
          request.host, asked_again_);
    }
    return {"300", "too many handshakes", {}};
  }
  if (!allows(*key)) {
    if (turned_away_.size() < kTurnedAwayMax) turned_away_.push_back({*key, request.host});
    return refused;
  }
  const auto shunned = shunned_.find(id_of(*key));
  if (bulk && shunned != shunned_.end() && now < shunned->second) return {"300", "muted", {}};
  if (*key != self_) {
    reach_.note(now, bulk ? LinkLane::kBulk : LinkLane::kControl, request.host);
  }
  return {"200", "welcome", to_string(*key)};
}

// Whose time is over first makes room.
void Door::shun_bulk(Instant now, PeerId peer, Duration length) {
  std::erase_if(shunned_, [now](const auto& item) { return now >= item.second; });
  const auto first = std::min_element(
      shunned_.begin(), shunned_.end(),
      [](const auto& left, const auto& right) { return left.second < right.second; });
  if (shunned_.size() >= kShunnedMax) shunned_.erase(first);
  shunned_[peer] = now + length;
}

void Door::answer(Instant now, const MaySend& may_send) {
  bool any = true;
  while (any) {
    const auto request = receive(port_.socket(), any);
    if (!any) return;
    const Verdict verdict =
        request ? judge(now, *request, may_send) : Verdict{"500", "not CURVE", {}};
    const std::string metadata = verdict.user.empty() ? std::string() : drawn_name();
    const std::array<std::string_view, 6> reply{
        kVersion,     request ? std::string_view(request->id) : std::string_view(),
        verdict.code, verdict.reason,
        verdict.user, metadata};
    for (std::size_t i = 0; i < reply.size(); ++i) {
      zmq::message_t frame(reply[i].data(), reply[i].size());
      const bool last = i + 1 == reply.size();
      const auto flags =
          last ? zmq::send_flags::dontwait : zmq::send_flags::dontwait | zmq::send_flags::sndmore;
      if (!try_send(port_.socket(), frame, flags)) return;  // who asked has gone
    }
  }
}

Status Door::test(zmq::context_t& context, zmq::socket_t& listener, const Identity& server) {
  const Identity foreigner = Identity::draw();
  foreigner_ = foreigner.curve_public();
  const std::string address = listener.get(zmq::sockopt::last_endpoint);
  zmq::socket_t client =
      make_dialler(context, LinkLane::kControl, curve_pair_of(foreigner), server.curve_public());
  client.set(zmq::sockopt::ipv6, address.find('[') != std::string::npos);
  constexpr const char* kWatch = "inproc://door-test";
  constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
  if (::zmq_socket_monitor(client.handle(), kWatch, kEvents) != 0) throw zmq::error_t();
  zmq::socket_t monitor(context, zmq::socket_type::pair);
  monitor.connect(kWatch);
  client.connect(address);
  std::uint16_t event = 0;
  for (int turn = 0; turn < kTestTurns && event == 0; ++turn) {
    std::array<zmq::pollitem_t, 2> items{
        {{port_.socket().handle(), 0, ZMQ_POLLIN, 0}, {monitor.handle(), 0, ZMQ_POLLIN, 0}}};
    zmq::poll(items.data(), items.size(), kTestTurn);
    answer(Instant{}, [](const PublicKey&) { return true; });
    zmq::message_t frame;
    if (try_receive(monitor, frame)) std::memcpy(&event, frame.data(), sizeof event);
  }
  foreigner_.reset();
  if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return ok_status();
  return Error(ErrorCode::kUnavailable,
               event == 0 ? "a test connection to " + address + " got no answer"
                          : "this libzmq lets in a key that was refused; it cannot be used");
}

}  // namespace starling::gossip
