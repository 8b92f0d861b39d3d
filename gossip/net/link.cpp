#include "gossip/net/link.h"

#include <net/if.h>

#include <algorithm>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "gossip/net/link_impl.h"

namespace starling::gossip {
namespace {

// After this a payload will want to come our way.
bool awaits_payload(const Message& message) {
  return std::holds_alternative<Offer>(message) || std::holds_alternative<Accept>(message) ||
         std::holds_alternative<PieceRequest>(message);
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

// ZeroMQ listens on addresses and interfaces: of another name this machine's address. Systems map
// their own name to a loopback address, at which nobody else could call.
std::string bindable(const LinkConfig& config) {
  if (is_ip_literal(config.host) || ::if_nametoindex(config.host.c_str()) != 0) return config.host;
  for (const std::string& address : config.look_up(config.host).addresses) {
    if (config.host == "localhost" || !is_loopback(address)) return address;
  }
  return config.host;
}

}  // namespace

ZmqLink::Impl::Impl(const LinkConfig& config, const PeerAddress& address)
    : self(config.identity.key()),
      keys(curve_pair_of(config.identity)),
      run(config.run),
      secret(config.secret),
      local(address),
      sealer(config.identity, config.process,
             [this](const PublicKey& key) { return connected(id_of(key)) != nullptr; }),
      forwarder(config.relay_bytes_per_second),
      names(config.look_up),
      door(context, inbox, self, config.allow, reach),
      callers(context, inbox, config.callers_max, stats.callers) {}

ZmqLink::Impl::~Impl() {
  for (auto& [peer, contact] : contacts) {
    if (contact.line) contact.line->linger(kLastWordsMs);
  }
  if (control) control->socket().set(zmq::sockopt::linger, kLastWordsMs);
}

Contact& ZmqLink::Impl::contact(const PublicKey& key) {
  const PeerId id = id_of(key);
  const auto [found, made] = contacts.try_emplace(id);
  if (made) {
    found->second.address.key = key;
    make_stranger(found->second);
  }
  return found->second;
}

Contact* ZmqLink::Impl::connected(PeerId peer) {
  const auto found = contacts.find(peer);
  return found == contacts.end() || !found->second.connected ? nullptr : &found->second;
}

void ZmqLink::Impl::make_stranger(Contact& contact) {
  contact.connected = false;
  contact.dialable = false;
  contact.version = kGreetingVersion;
  contact.path = {};
  if (strangers.size() == kStrangersMax) {
    // Whoever calls is not to make us hang up on those that we call.
    const auto idle = std::find_if(strangers.begin(), strangers.end(),
                                   [this](PeerId id) { return !contacts.at(id).line; });
    forget(idle == strangers.end() ? strangers.front() : *idle);
  }
  strangers.push_back(contact.id());
}

void ZmqLink::Impl::forget(PeerId peer) {
  std::erase(strangers, peer);
  const auto found = contacts.find(peer);
  drop_line(found->second);
  contacts.erase(found);
}

bool ZmqLink::Impl::open_line(Contact& contact) {
  try {
    contact.line = std::make_unique<Line>(dialler, contact.address, ++last_line);
  } catch (const zmq::error_t& error) {
    log_debug("cannot dial {}: {}", to_string(contact.address), error.what());
    return false;
  }
  owners[last_line] = contact.id();
  return true;
}

bool ZmqLink::Impl::open_bulk_lane(Contact& contact) {
  try {
    contact.line->open_bulk(dialler);
    return true;
  } catch (const zmq::error_t& error) {
    log_debug("cannot dial {}: {}", to_string(contact.address), error.what());
    return false;
  }
}

void ZmqLink::Impl::drop_line(Contact& contact) {
  if (!contact.line) return;
  if (contact.line_stands()) contact.test_again = {};  // it can be dialled: no test to wait for
  owners.erase(contact.line->number());
  contact.line.reset();
}

void ZmqLink::Impl::drop_line_unless_good(Contact& contact, const PeerAddress& address) {
  if (!contact.line) return;
  if (contact.line->address() != address || contact.line->is_down()) drop_line(contact);
}

// Lets the peer see whether it can be dialled, on both lanes.
bool ZmqLink::Impl::test_line(Contact& contact, Instant now) {
  if (now < contact.test_again) return true;
  contact.test_again = now + kTestEvery;
  if (!contact.line && !open_line(contact)) return false;
  if (!open_bulk_lane(contact)) return false;
  contact.line->introduce_bulk(frame_for(contact, BulkHello{}));
  contact.line->test(now + kTestMax);
  return true;
}

std::vector<std::byte> ZmqLink::Impl::frame_for(const Contact& contact,
                                                const Message& message) const {
  const auto prove = [&](auto greeting) {
    greeting.proof = secret->prove({self, contact.address.key, run.run});
    return encode(id_of(self), greeting);
  };
  if (secret && std::holds_alternative<Hello>(message)) return prove(std::get<Hello>(message));
  if (secret && std::holds_alternative<Welcome>(message)) return prove(std::get<Welcome>(message));
  return encode(id_of(self), message, contact.version);
}

Sending ZmqLink::Impl::send_control(Contact& contact, const Message& message, bool may_dial) {
  const std::vector<std::byte> bytes = frame_for(contact, message);
  zmq::message_t frame(bytes.data(), bytes.size());
  const bool sent = pass_control(contact, frame) ||
                    send_sealed(contact, bytes, awaits_payload(message)) ||
                    wait_for_line(contact, frame, may_dial);
  if (!sent) {
    ++stats.send_refused;
    return Sending::kFailed;
  }
  if (awaits_payload(message) && contact.line) open_bulk(contact);
  return Sending::kSent;
}

// Over its line, if that is up, or back over its own connection.
bool ZmqLink::Impl::pass_control(Contact& way, zmq::message_t& frame) {
  const std::size_t bytes = frame.size();
  if (!way.line || !way.line->try_send(frame)) return pass_back(way, frame);
  count_out(stats.control, way, bytes);
  return true;
}

bool ZmqLink::Impl::wait_for_line(Contact& way, zmq::message_t& frame, bool may_dial) {
  if (!way.line && (!may_dial || !open_line(way))) return false;
  if (way.line->was_up() || way.line->is_down()) return false;
  if (way.line->waiting() >= kWaitingMax) return false;
  count_out(stats.control, way, frame.size());
  way.line->wait(std::move(frame));
  return true;
}

void ZmqLink::Impl::listen(const LinkConfig& config, std::string& trying,
                           std::string_view& setting) {
  const std::string host = bindable(config);
  const auto bind = [&](LinkLane lane, PortKind kind, std::uint16_t port) {
    trying = endpoint(host, port);
    zmq::socket_t socket = make_listener(context, lane, host, keys);
    callers.watch(socket, lane);
    try {
      socket.bind(trying);
    } catch (const zmq::error_t&) {
      callers.unwatch(lane);  // the socket goes
      throw;
    }
    return std::make_unique<Port>(std::move(socket), inbox, PortName{kind, 0});
  };
  control = bind(LinkLane::kControl, PortKind::kControl, config.control_port);
  setting = "gossip.bulk_port";
  bulk = bind(LinkLane::kBulk, PortKind::kBulk, config.bulk_port);
  local.control_port = bound_port(control->socket());
  local.bulk_port = bound_port(bulk->socket());
}

Result<ZmqLink> ZmqLink::open(const LinkConfig& config) {
  int major = 0, minor = 0, patch = 0;
  ::zmq_version(&major, &minor, &patch);
  if (::zmq_has("curve") == 0 || ZMQ_MAKE_VERSION(major, minor, patch) < 40303) {
    return Error(ErrorCode::kUnavailable,
                 fmt::format("libzmq {}.{}.{} will not do: 4.3.3 or later with CURVE is needed",
                             major, minor, patch));
  }
  PeerAddress address;
  address.key = config.identity.key();
  std::string trying = "nothing";
  std::string_view setting = "gossip.listen";
  try {
    if (config.host.empty()) return ZmqLink(std::make_unique<Impl>(config, address));
    if (!valid_host(config.host) || !set_host(address, config.host)) {
      return Error(ErrorCode::kInvalidConfig,
                   "cannot listen on \"" + config.host + "\": not a host; change gossip.listen");
    }
    auto impl = std::make_unique<Impl>(config, address);
    impl->listen(config, trying, setting);
    Status tested = impl->door.test(impl->context, impl->control->socket(), config.identity);
    if (!tested.ok()) return std::move(tested).error();
    impl->callers.forget_unfinished();
    return ZmqLink(std::move(impl));
  } catch (const zmq::error_t& error) {
    return Error(ErrorCode::kIo,
                 fmt::format("cannot listen on {}: {}; change {}", trying, error.what(), setting));
  }
}

ZmqLink::ZmqLink(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZmqLink::~ZmqLink() = default;
ZmqLink::ZmqLink(ZmqLink&&) noexcept = default;
ZmqLink& ZmqLink::operator=(ZmqLink&&) noexcept = default;

const PeerAddress& ZmqLink::local_address() const { return impl_->local; }

bool ZmqLink::greet(const PeerAddress& address, const Message& message, const RelayPath& path) {
  const bool can_dial = listens(address);
  if (can_dial && !valid_host(host(address))) return false;
  if (!impl_->door.allows(address.key)) {
    impl_->report(id_of(address.key), {address, RefuseReason::kNotAllowed, impl_->run, {}, true});
    return false;
  }
  Contact& contact = impl_->contact(address.key);
  if (can_dial) impl_->drop_line_unless_good(contact, address);
  if (can_dial && !contact.connected) contact.address = address;
  if (path.relay != PeerId{}) contact.path = path;
  contact.greeted_at.reset();
  // Only the newest greeting matters.
  if (contact.line && !contact.connected) contact.line->forget_waiting();
  return impl_->send_control(contact, message, can_dial) == Sending::kSent;
}

void ZmqLink::reply(PeerId stranger, const Message& message) {
  const auto found = impl_->contacts.find(stranger);
  if (found == impl_->contacts.end()) {
    ++impl_->stats.send_refused;
    return;
  }
  Contact& asker = found->second;
  const std::vector<std::byte> bytes = impl_->frame_for(asker, message);
  zmq::message_t frame(bytes.data(), bytes.size());
  // The line that we dialled may lead to another that goes by its key.
  if (impl_->pass_back(asker, frame)) return;
  static_cast<void>(impl_->send_control(asker, message, false));
}

bool ZmqLink::connect(Instant now, const Connect& wish) {
  if (!impl_->door.allows(wish.address.key)) return false;
  Contact& contact = impl_->contact(wish.address.key);
  if (!contact.connected) std::erase(impl_->strangers, wish.peer);
  const bool can_dial = listens(wish.address) && valid_host(host(wish.address));
  if (can_dial) impl_->drop_line_unless_good(contact, wish.address);
  contact.connected = true;
  contact.address = wish.address;
  contact.version = wish.version;
  contact.dialable = wish.dialable && can_dial;
  contact.path = wish.path;
  const bool is_reached = !contact.control_route.empty() || impl_->relay_of(contact) != nullptr;
  if (!can_dial) return is_reached;
  if (!contact.dialable) return impl_->test_line(contact, now) || is_reached;
  if (!contact.line) {
    return !contact.control_route.empty() || impl_->open_line(contact) || is_reached;
  }
  contact.line->end_test();
  return true;
}

void ZmqLink::disconnect(PeerId peer) {
  Contact* contact = impl_->connected(peer);
  if (contact == nullptr) return;
  // It is not to keep our slots until it pleases to read.
  if (impl_->sent_frames.of(peer).frames > 0) impl_->end_bulk(peer);
  impl_->drop_line(*contact);
  impl_->make_stranger(*contact);  // it may speak again over a connection of its own
}

void ZmqLink::cut_off(PeerId peer) {
  impl_->callers.end_flood_of(peer);
  const auto found = impl_->contacts.find(peer);
  if (found == impl_->contacts.end()) return;
  Contact& contact = found->second;
  contact.control_route.clear();
  contact.bulk_routes.clear();
  impl_->drop_line(contact);
}

void ZmqLink::shun_bulk(Instant now, PeerId peer, Duration length) {
  impl_->door.shun_bulk(now, peer, length);
}

void ZmqLink::set_allow_list(AllowList allow) { impl_->set_allow_list(std::move(allow)); }
const std::optional<AllowList>& ZmqLink::allow_list() const { return impl_->door.allow_list(); }

Sending ZmqLink::try_send_control(PeerId to, const Message& message) {
  Contact* contact = impl_->connected(to);
  if (contact == nullptr) {
    ++impl_->stats.send_refused;
    return Sending::kFailed;
  }
  return impl_->send_control(*contact, message, contact->dialable);
}

bool ZmqLink::Impl::tend(Contact& contact, Instant now) {
  try {
    contact.line->follow_name(dialler, now);
    const bool mending = contact.line->mend_bulk(dialler, now);
    return contact.line->flush() || mending;
  } catch (const zmq::error_t& error) {
    log_debug("cannot dial {}: {}", to_string(contact.address), error.what());
    return true;
  }
}

bool ZmqLink::flush(Instant now) {
  impl_->called_at = now;
  impl_->pump_forwarder();
  bool waiting = impl_->forwarder.held() > 0;
  for (auto& [peer, contact] : impl_->contacts) {
    if (!contact.line) continue;
    const bool line_waits = impl_->tend(contact, now);
    if (!contact.line->passes_test(now)) {
      impl_->drop_line(contact);
      continue;
    }
    waiting = waiting || line_waits;
  }
  return waiting;
}

int ZmqLink::descriptor() const { return impl_->inbox.descriptor(); }

std::vector<BadFrame> ZmqLink::take_bad_frames() { return std::exchange(impl_->bad_frames, {}); }

std::vector<LinkRefusal> ZmqLink::take_refusals() { return std::exchange(impl_->refusals, {}); }

Reach ZmqLink::reached_from(Instant now, bool beside_lines) const {
  return beside_lines ? impl_->reach.beside_lines(now) : impl_->reach.farthest(now);
}

bool ZmqLink::was_reached_by(PeerId peer) const {
  const auto found = impl_->contacts.find(peer);
  if (found == impl_->contacts.end()) return false;
  return !found->second.control_route.empty() && !found->second.bulk_routes.empty();
}

const LinkStats& ZmqLink::stats() const { return impl_->stats; }

PeerTraffic ZmqLink::traffic_with(PeerId peer) const {
  const auto found = impl_->contacts.find(peer);
  return found == impl_->contacts.end() ? PeerTraffic{} : found->second.traffic;
}

}  // namespace starling::gossip
