// CoreBench: a few real cores on one table. Messages arrive at once and in order unless a filter
// holds them back; mixers obey at once unless told to refuse; time moves only by run(). For tests
// that want to watch single exchanges; swarms with faults belong to the simulator.
#pragma once

#include <doctest/doctest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gossip/core.h"

namespace starling::gossip {

class CoreBench {
 public:
  struct Node {
    CoreIdentity identity;
    StandInSeal seal{PeerId{}};
    std::unique_ptr<Core> core;  // null: crashed
    Ledger ledger;
    std::map<StripeRef, int> net_applied;  // by reference; 0 or 1 unless something is wrong
    std::vector<ExchangeEnded> ended;
    std::vector<Refused> refused;
    std::vector<PeerChanged> changed;
    std::vector<Greet> greetings;
    std::vector<Connect> connects;
    std::set<PeerId> lines;
    std::uint64_t disconnects = 0;
    std::vector<Rejected> rejected;
    std::vector<Muted> muted;
    std::vector<SwarmChanged> swarm_changes;
    std::vector<TokensClipped> clipped;
    std::vector<FootingChanged> footings;
    bool walled = false;                // nobody can open a connection to it
    std::set<PeerId> dialled;           // connections it opened
    std::map<PeerId, RelayPath> paths;  // as it was last told
    std::set<PeerId> forwards_for;
    std::vector<RelayChanged> relay_changes;
  };
  struct Letter {
    PeerId from;
    PeerId to;
    Message message;
    PeerId through{};  // the relay, between two that are walled
  };

  GossipConfig config;
  RunIdentity run_identity{1, 2, 3, kVersions};
  std::vector<std::uint32_t> stripes{3, 5};
  PartSpace data;
  // False keeps the message from arriving.
  std::function<bool(const Letter&)> passes = [](const Letter&) { return true; };
  static constexpr std::size_t kPayloadBytes = 1000;

  // False makes a mixer answer with the refusal below.
  std::function<bool(PeerId, const Action&)> obeys = [](PeerId, const Action&) { return true; };
  bool dialable = true;  // of those that are started from now on
  bool walled = false;   // likewise
  std::string host;      // that they advertise; empty: a name
  Verdict no{RejectReason::kNoRoom};
  Verdict yes;  // of those that obey
  std::size_t payload_bytes = kPayloadBytes;
  std::vector<Letter> held;  // what the filter kept
  Instant now{};

  static PeerAddress address_of(PeerId id) {
    PeerAddress address;
    REQUIRE(set_host(address, "peer" + std::to_string(id.value)));
    address.control_port = 7000;
    address.bulk_port = 7001;
    address.key = stand_in_key(id);
    return address;
  }

  Core& start(std::uint64_t id, std::uint64_t incarnation = 1, const RestoredState& restored = {}) {
    Node& node = nodes_[PeerId{id}];
    node.identity.self = {
        {PeerId{id}, incarnation}, address_of(PeerId{id}), Health::kAlive, dialable && !walled};
    if (!host.empty()) REQUIRE(set_host(node.identity.self.address, host));
    node.walled = walled;
    node.lines.clear();
    node.dialled.clear();
    node.seal = StandInSeal(PeerId{id});
    node.identity.seal = &node.seal;
    node.identity.run = run_identity;
    node.identity.stripes = stripes;
    node.identity.seed = id * 1000 + incarnation;
    node.identity.data = data;
    node.ledger = Ledger(restored.ledger);
    node.core = std::make_unique<Core>(config, node.identity, restored, now);
    return *node.core;
  }
  void crash(std::uint64_t id) { nodes_.at(PeerId{id}).core.reset(); }
  Node& node(std::uint64_t id) { return nodes_.at(PeerId{id}); }
  Core& core(std::uint64_t id) { return *node(id).core; }

  void join(std::uint64_t id, std::uint64_t seed) {
    const auto known = nodes_.find(PeerId{seed});
    const std::vector<PeerAddress> seeds{
        known == nodes_.end() ? address_of(PeerId{seed}) : known->second.identity.self.address};
    core(id).on_join(now, seeds);
    settle();
  }
  // Peers 1..count, all knowing each other.
  void start_swarm(std::uint64_t count) {
    for (std::uint64_t id = 1; id <= count; ++id) start(id);
    for (std::uint64_t id = 2; id <= count; ++id) join(id, 1);
    run(std::chrono::seconds(10));
  }
  void publish(std::uint64_t id, std::uint16_t fragment, const FragmentState& state = {}) {
    core(id).on_published(now, FragmentId{fragment}, state);
    settle();
  }
  // So often that the pair knows its pace, and windows are open.
  void exchange_all(std::uint64_t id, std::uint16_t fragment) {
    publish(id, fragment);
    run(std::chrono::seconds(1));
  }
  void deliver(const Letter& letter) {
    hand_over(letter);
    settle();
  }

  // Until nobody has anything more to say at this instant.
  void settle() {
    for (int round = 0; round < 10000; ++round) {
      for (auto& [id, node] : nodes_) drain(id, node);
      if (letters_.empty()) return;
      const Letter letter = letters_.front();
      letters_.pop_front();
      if (!passes(letter)) {
        held.push_back(letter);
        continue;
      }
      hand_over(letter);
    }
    FAIL("the cores never fall silent");
  }
  void run(Duration duration) {
    const Instant end = now + duration;
    for (;;) {
      Instant next = end;
      for (auto& [id, node] : nodes_) {
        if (!node.core) continue;
        const auto due = node.core->next_deadline();
        if (due) next = std::min(next, std::max(*due, now));
      }
      if (next >= end) break;
      now = next;
      for (auto& [id, node] : nodes_) {
        if (node.core) node.core->on_deadline(now);
      }
      settle();
    }
    now = end;
    settle();
  }

 private:
  void drain(PeerId id, Node& node) {
    while (node.core) {
      const auto action = node.core->poll_action();
      if (!action) break;
      act(id, node, *action);
    }
    if (node.core) node.core->assert_invariants();
  }

  void hand_over(const Letter& letter) {
    Node& target = nodes_.at(letter.to);
    if (!target.core) return;
    if (letter.through == PeerId{}) {
      target.core->on_message(now, letter.from, letter.message);
    } else {
      target.core->on_relayed(now, letter.through, letter.from, letter.message);
    }
  }

  void post(PeerId from, PeerId to, const Message& message) {
    if (nodes_.count(to) == 0) return;
    const Node& sender = nodes_.at(from);
    const Node& receiver = nodes_.at(to);
    if (!receiver.walled) {
      letters_.push_back({from, to, message});
    } else if (!sender.walled) {
      if (receiver.dialled.contains(from)) letters_.push_back({from, to, message});
    } else {
      post_through_relay(from, to, message);
    }
  }
  // As the link does it.
  void post_through_relay(PeerId from, PeerId to, const Message& message) {
    const auto path = nodes_.at(from).paths.find(to);
    if (path == nodes_.at(from).paths.end() || path->second.relay == PeerId{}) return;
    Node& relay = nodes_.at(path->second.relay);
    if (!relay.core) return;
    const bool holds = relay.forwards_for.contains(from) || relay.forwards_for.contains(to);
    if (holds) relay.core->on_forwarded(now, from, to);
    const bool connected = relay.lines.contains(from) && relay.lines.contains(to);
    const bool opens = path->second.process == nodes_.at(to).identity.self.key.incarnation;
    if (holds && connected && opens) letters_.push_back({from, to, message, path->second.relay});
  }
  PeerId who_is_at(const PeerAddress& address) {
    for (const auto& [id, node] : nodes_) {
      if (node.identity.self.address == address) return id;
    }
    return {};
  }

  void act(PeerId id, Node& node, const Action& action) {
    if (const auto* greet = std::get_if<Greet>(&action)) {
      node.greetings.push_back(*greet);
      node.dialled.insert(who_is_at(greet->address));
      if (greet->path.relay != PeerId{}) node.paths[who_is_at(greet->address)] = greet->path;
      post(id, who_is_at(greet->address), greet->hello);
    } else if (const auto* send = std::get_if<Send>(&action)) {
      post(id, send->to, send->message);
    } else if (const auto* reply = std::get_if<Reply>(&action)) {
      post(id, reply->to, reply->message);
    } else if (const auto* payload = std::get_if<SendPayload>(&action)) {
      post(id, payload->to, payload->head);
    } else if (const auto* connect = std::get_if<Connect>(&action)) {
      node.connects.push_back(*connect);
      node.lines.insert(connect->peer);
      node.dialled.insert(connect->peer);
      node.paths[connect->peer] = connect->path;
    } else if (const auto* ended = std::get_if<ExchangeEnded>(&action)) {
      node.ended.push_back(*ended);
    } else if (const auto* refused = std::get_if<Refused>(&action)) {
      node.refused.push_back(*refused);
    } else if (const auto* changed = std::get_if<PeerChanged>(&action)) {
      node.changed.push_back(*changed);
    } else if (const auto* rejected = std::get_if<Rejected>(&action)) {
      node.rejected.push_back(*rejected);
    } else if (const auto* muted = std::get_if<Muted>(&action)) {
      node.muted.push_back(*muted);
    } else if (const auto* swarm = std::get_if<SwarmChanged>(&action)) {
      node.swarm_changes.push_back(*swarm);
    } else if (const auto* clipped = std::get_if<TokensClipped>(&action)) {
      node.clipped.push_back(*clipped);
    } else if (const auto* footing = std::get_if<FootingChanged>(&action)) {
      node.footings.push_back(*footing);
    } else if (const auto* wish = std::get_if<RelayFor>(&action)) {
      if (wish->wanted) node.forwards_for.insert(wish->peer);
      if (!wish->wanted) node.forwards_for.erase(wish->peer);
    } else if (const auto* relay = std::get_if<RelayChanged>(&action)) {
      node.relay_changes.push_back(*relay);
    } else if (const auto* gone = std::get_if<Disconnect>(&action)) {
      node.lines.erase(gone->peer);
      node.dialled.erase(gone->peer);
      node.paths.erase(gone->peer);
      ++node.disconnects;
    } else {
      mix(id, node, action);
    }
  }

  void mix(PeerId id, Node& node, const Action& action) {
    const Verdict verdict = obeys(id, action) ? yes : no;
    if (const auto* encode = std::get_if<EncodeStripe>(&action)) {
      node.core->on_encoded(now, encode->ref, verdict, payload_bytes);
    } else if (const auto* stage = std::get_if<StageDelta>(&action)) {
      node.core->on_staged(now, stage->ref, verdict, payload_bytes);
    } else if (const auto* reissue = std::get_if<ReissueDelta>(&action)) {
      node.core->on_staged(now, reissue->ref, verdict, payload_bytes);
    } else if (const auto* delta = std::get_if<ApplyDelta>(&action)) {
      apply(node, {delta->ref, Role::kInitiator}, verdict);
    } else if (const auto* staged = std::get_if<ApplyStaged>(&action)) {
      apply(node, {staged->ref, Role::kResponder}, verdict);
    } else if (const auto* undo = std::get_if<Compensate>(&action)) {
      --node.net_applied[undo->ref];
      node.ledger.forget({undo->ref, Role::kInitiator});
      node.core->on_compensated(now, undo->ref);
    } else if (const auto* forget = std::get_if<ForgetDelta>(&action)) {
      node.ledger.forget({forget->ref, Role::kInitiator});
    }
  }
  void apply(Node& node, const LedgerRow& row, Verdict verdict) {
    if (verdict.done() && !node.ledger.record(row)) verdict = {RejectReason::kRepeated};
    if (verdict.done()) ++node.net_applied[row.ref];
    node.core->on_applied(now, row.ref, verdict);
  }

  std::map<PeerId, Node> nodes_;
  std::deque<Letter> letters_;
};

// All stripes applied by one are applied by the other.
inline void check_same_applied(CoreBench::Node& left, CoreBench::Node& right, int count) {
  int sum = 0;
  for (const auto& [ref, times] : left.net_applied) {
    CHECK((times == 0 || times == 1));
    const auto other = right.net_applied.find(ref);
    CHECK((other == right.net_applied.end() ? 0 : other->second) == times);
    sum += times;
  }
  CHECK(sum == count);
}

template <class Wanted>
bool is(const Message& message) {
  return std::holds_alternative<Wanted>(message);
}

// Keeps back the first `count` messages of one kind.
template <class Wanted>
void lose(CoreBench& bench, int count) {
  bench.passes = [count](const CoreBench::Letter& letter) mutable {
    return !is<Wanted>(letter.message) || count-- <= 0;
  };
}

inline PeerRecord signed_record(const CoreBench& bench, std::uint64_t id) {
  PeerRecord record{{PeerId{id}, 1 << kRefutationBits},
                    CoreBench::address_of(PeerId{id}),
                    Health::kAlive,
                    true,
                    {},
                    0};
  record.signature = StandInSeal(PeerId{id}).sign(sealed_text(bench.run_identity.run, record));
  return record;
}

inline void pass_all(CoreBench& bench) {
  bench.passes = [](const CoreBench::Letter&) { return true; };
}

// Records that `id` found to be signed by nobody who could have.
inline std::uint64_t forged(CoreBench& bench, std::uint64_t id) {
  return bench.core(id).stats().rejected[static_cast<std::size_t>(RejectReason::kForged)];
}

inline void check_no_lease(CoreBench& bench, std::uint64_t peers) {
  for (std::uint64_t id = 1; id <= peers; ++id) {
    CAPTURE(id);
    CHECK(bench.core(id).exchanges_open() == 0);
    CHECK(bench.core(id).stripes_unsettled() == 0);
  }
}

}  // namespace starling::gossip
