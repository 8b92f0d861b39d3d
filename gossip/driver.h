// The seams of a driver: what carries the core's wishes out. A driver owns a Core, feeds it,
// drains its actions after every input and arms its timer. There are three: asio_driver (ZeroMQ,
// real time), sim_network (virtual time, whole numbers for weights) and
// peer/simulate/simulate_gossip (virtual time, models that train), which has no use for these ports
// and carries out each action itself.
//
// MixerPort: where orders about weights go, strictly in order. StatePort: where orders about whole
// states go, likewise. EventSink: where counted facts go. All are called on the driver's thread and
// must not block.
#pragma once

#include <variant>

#include "base/bytes.h"
#include "gossip/actions.h"

namespace starling::gossip {

using MixerOrder = std::variant<EncodeStripe, StageDelta, ReissueDelta, ApplyDelta, ApplyStaged,
                                DropStaged, Compensate, ForgetDelta>;

class MixerPort {
 public:
  virtual ~MixerPort() = default;
  // Takes `order` and, for StageDelta and ApplyDelta, the payload. False when full: order and
  // payload are untouched and the driver tries again later, before any other order.
  [[nodiscard]] virtual bool try_submit(MixerOrder& order, Bytes& payload) = 0;
};

// Where snapshots are read and what was fetched is stored. Takes the payload of StorePiece. Answers
// later, never before it returns.
class StatePort {
 public:
  virtual ~StatePort() = default;
  virtual void submit(StateOrder order, Bytes payload) = 0;
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_exchange_ended(const ExchangeEnded& event) = 0;
  virtual void on_peer_changed(const PeerChanged& event) = 0;
  virtual void on_refused(const Refused& event) = 0;
  virtual void on_join_event(const JoinEvent& event) = 0;
  virtual void on_join_ended(const JoinEnded& event) = 0;
  virtual void on_rejected(const Rejected& event) = 0;
  virtual void on_muted(const Muted& event) = 0;
  virtual void on_swarm_changed(const SwarmChanged& event) = 0;
  virtual void on_relay_changed(const RelayChanged& event) = 0;
  virtual void on_tokens_clipped(const TokensClipped& event) = 0;
  virtual void on_footing_changed(const FootingChanged& event) = 0;
};

}  // namespace starling::gossip
