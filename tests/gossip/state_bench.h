// StateBench: one newcomer's StateFetcher and the StateDonors of its swarm on one table, without
// the rest of their cores. Messages take `latency`, and pieces what the newcomer's line needs for
// them; keepers answer at once unless told otherwise. A piece is stored well if its donor is
// honest; hooks make donors lie, stall or die.
#pragma once

#include <doctest/doctest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gossip/state_donor.h"
#include "gossip/state_fetcher.h"
#include "tests/gossip/signed_tokens.h"

namespace starling::gossip {

class StateBench {
 public:
  struct Letter {
    Instant due;
    PeerId from, to;
    Message message;
  };
  struct DonorNode {
    std::unique_ptr<CoreContext> context;
    std::unique_ptr<StateDonor> donor;
    StateOffer offer;
    std::deque<Action> keeper;  // orders under way
    bool has_snapshot = true;
    std::size_t pieces_sent = 0;
    std::size_t sessions = 0;        // that it has begun
    std::vector<Rejected> rejected;  // what it heard
  };

  static constexpr PeerId kNewcomer{99};
  static constexpr Duration kLatency = std::chrono::milliseconds(5);

  GossipConfig config;
  static constexpr std::uint32_t kStripes = 16;
  std::vector<std::uint32_t> stripes{6, 10};
  Instant now{};
  double mbit = 0;  // of the newcomer's line, which all donors that send share evenly; 0: no limit
  std::function<std::size_t(std::uint32_t)> bytes_of = [](std::uint32_t piece) {
    return piece < kManifestPiece ? std::size_t{1} << 20 : std::size_t{61'000};
  };
  // False: the message is lost.
  std::function<bool(const Letter&)> passes = [](const Letter&) { return true; };
  std::function<PieceStored(const StorePiece&)> judge = [](const StorePiece&) {
    return PieceStored::kStored;
  };
  std::function<bool()> checks = [] { return true; };
  std::vector<JoinEvent> events;  // of the newcomer
  std::vector<JoinEnded> ended;
  std::vector<Rejected> rejected;
  std::vector<StorePiece> stored;  // what the newcomer was given to keep, in order
  struct Kept {
    PeerId from;  // nobody: an earlier process stored it
    std::uint64_t snapshot = 0;
  };
  std::map<std::uint32_t, Kept> kept;  // by piece, as its keeper has it
  std::vector<CheckState> checked;
  std::map<PeerId, DonorNode> donors;
  std::unique_ptr<CoreContext> context;
  std::unique_ptr<StateFetcher> fetcher;

  StateBench() { config.state.moments = true; }

  static CoreIdentity identity(PeerId id, const std::vector<std::uint32_t>& stripes) {
    static const StandInSeal kAnySeal{PeerId{}};
    CoreIdentity self;
    self.seal = &kAnySeal;
    self.run.run = kTestRun;
    self.self.key = {id, 1};
    REQUIRE(set_host(self.self.address, "peer"));
    self.self.address.control_port = static_cast<std::uint16_t>(id.value);
    self.self.address.bulk_port = 1;
    self.stripes = stripes;
    self.seed = id.value;
    return self;
  }

  DonorNode& add_donor(std::uint64_t id, float weight = 1) {
    DonorNode& node = donors[PeerId{id}];
    node.context =
        std::make_unique<CoreContext>(config, identity(PeerId{id}, stripes), RestoredState{}, now);
    node.donor = std::make_unique<StateDonor>(*node.context);
    node.offer.snapshot = 1000 + id;
    node.offer.step = 500 + id;
    node.offer.tokens = 1'000'000;
    node.offer.sketch.values.fill(weight);
    REQUIRE(node.offer.manifest.try_push({}));
    return node;
  }

  // The newcomer knows all donors, and, if `behind`, that it is far behind them.
  void start(bool behind = true, std::vector<std::uint64_t> held = {}) {
    context =
        std::make_unique<CoreContext>(config, identity(kNewcomer, stripes), RestoredState{}, now);
    fetcher = std::make_unique<StateFetcher>(*context);
    for (const auto& [id, node] : donors) {
      context->peers.merge(now, identity(id, stripes).self, context->rng);
      context->peers.find(id)->welcomed = true;
      context->peers.find(id)->met = true;
      context->tokens.merge(now, signed_entry({id, 1}, 1'000'000, 1));
    }
    if (behind) context->newcomer.decide(0, 1e6, 65536);
    if (held.empty()) held.assign(kStripes, 0);
    for (std::uint32_t piece = 0; piece < kStateSections * kStripes; ++piece) {
      const std::uint64_t snapshot = held[piece % kStripes];
      if (snapshot != 0 && is_taken(piece)) kept[piece] = {{}, snapshot};
    }
    fetcher->start(now, held);
  }

  void run(Duration duration) {
    const Instant end = now + duration;
    while (now < end && ended.empty()) tick();
  }
  void run_until(const std::function<bool()>& done) {
    for (int i = 0; i < 200'000 && !done(); ++i) tick();
    REQUIRE(done());
  }

  void tick() {
    now += std::chrono::milliseconds(1);
    while (!deeds_.empty() && deeds_.begin()->first <= now) {
      const auto deed = deeds_.begin()->second;
      deeds_.erase(deeds_.begin());
      deed();
    }
    for (auto& [id, node] : donors) {
      while (!node.keeper.empty()) {
        const Action order = node.keeper.front();
        node.keeper.pop_front();
        keep(id, node, std::get<StateOrder>(order));
      }
      if (node.donor->next_deadline() && *node.donor->next_deadline() <= now) {
        node.donor->on_deadline(now);
      }
      drain(id);
    }
    if (fetcher->next_deadline() && *fetcher->next_deadline() <= now) fetcher->on_deadline(now);
    drain_newcomer();
    carry();
    std::deque<Letter> due;
    while (!letters_.empty() && letters_.front().due <= now) {
      due.push_back(letters_.front());
      letters_.pop_front();
    }
    for (const Letter& letter : due) deliver(letter);
    fetcher->assert_invariants();
  }

  void kill(std::uint64_t id) {
    donors.erase(PeerId{id});
    fetcher->on_peer_lost(now, PeerId{id});
    drain_newcomer();
  }
  std::size_t count(JoinStep step) const {
    std::size_t found = 0;
    for (const JoinEvent& event : events) found += event.step == step ? 1 : 0;
    return found;
  }
  bool fetched() const { return !ended.empty() && ended[0].outcome == JoinOutcome::kFetched; }
  // Which snapshot each piece came from in the end; a stripe's are checked to be one.
  std::vector<std::uint64_t> snapshots() const {
    std::map<std::uint32_t, std::uint64_t> last;
    for (const StorePiece& order : stored) last[order.piece] = order.snapshot;
    std::vector<std::uint64_t> result;
    for (std::uint32_t piece = 0; piece < kStateSections * kStripes; ++piece) {
      REQUIRE(last.count(piece) == (is_taken(piece) ? 1 : 0));
      if (is_taken(piece)) CHECK(last[piece] == last[piece % kStripes]);
      if (piece < kStripes) result.push_back(last[piece]);
    }
    return result;
  }
  bool is_taken(std::uint32_t piece) const {
    return (sections_taken(config.state.moments) >> (piece / kStripes) & 1U) != 0;
  }
  void at(Instant when, const std::function<void()>& deed) { deeds_.emplace(when, deed); }
  void post(PeerId from, PeerId to, const Message& message) {
    const Letter letter{now + kLatency, from, to, message};
    if (!passes(letter)) return;
    const auto* piece = std::get_if<Piece>(&message);
    if (piece == nullptr || mbit == 0) return letters_.push_back(letter);
    line_[from].push_back({letter, static_cast<double>(bytes_of(piece->piece))});
  }

 private:
  // A piece on the newcomer's line, behind those that its donor has sent before.
  struct Transit {
    Letter letter;
    double bytes_left = 0;
  };
  void carry() {
    std::erase_if(line_, [](const auto& donor) { return donor.second.empty(); });
    const double share = mbit * 125 / static_cast<double>(line_.size());  // bytes in a millisecond
    for (auto& [from, sent] : line_) {
      sent.front().bytes_left -= share;
      if (sent.front().bytes_left > 0) continue;
      letters_.push_back(sent.front().letter);
      letters_.back().due = now + kLatency;
      sent.pop_front();
    }
  }

  void deliver(const Letter& letter) {
    if (letter.to == kNewcomer) {
      if (const auto* offer = std::get_if<StateOffer>(&letter.message)) {
        StateOffer said = *offer;  // a donor of ours would not lie; this bench's may
        if (const auto node = donors.find(letter.from); node != donors.end()) {
          said.step = node->second.offer.step;
          said.tokens = node->second.offer.tokens;
        }
        fetcher->on_offer(now, letter.from, said);
      } else if (const auto* declined = std::get_if<StateDeclined>(&letter.message)) {
        fetcher->on_declined(now, letter.from, *declined);
      } else if (const auto* piece = std::get_if<Piece>(&letter.message)) {
        fetcher->on_piece(now, letter.from, *piece);
      }
      drain_newcomer();
      return;
    }
    const auto found = donors.find(letter.to);
    if (found == donors.end()) return;
    StateDonor& donor = *found->second.donor;
    if (std::holds_alternative<StateRequest>(letter.message)) {
      donor.on_request(now, letter.from, false);
    } else if (const auto* request = std::get_if<PieceRequest>(&letter.message)) {
      donor.on_piece_request(now, letter.from, *request);
    } else if (const auto* declined = std::get_if<StateDeclined>(&letter.message)) {
      if (declined->reason == StateReason::kWrong) {
        donor.on_turned_down(now, letter.from);
      } else {
        donor.on_finished(now, letter.from);
      }
    }
    drain(letter.to);
  }

  void keep(PeerId, DonorNode& node, const StateOrder& order) {
    if (std::holds_alternative<PrepareSnapshot>(order)) {
      node.donor->on_snapshot(now, node.has_snapshot ? std::optional(node.offer) : std::nullopt);
    } else {
      node.donor->on_piece_read(now, std::get<ReadPiece>(order), PieceRead::kRead);
    }
  }

  void drain(PeerId id) {
    DonorNode& node = donors.at(id);
    while (!node.context->actions.empty()) {
      const Action action = node.context->actions.front();
      node.context->actions.pop_front();
      if (const auto* send = std::get_if<Send>(&action)) post(id, send->to, send->message);
      if (const auto* payload = std::get_if<SendPayload>(&action)) {
        ++node.pieces_sent;
        post(id, payload->to, payload->head);
      }
      if (const auto* event = std::get_if<Rejected>(&action)) node.rejected.push_back(*event);
      const auto* step = std::get_if<JoinEvent>(&action);
      if (step != nullptr && step->step == JoinStep::kServing) ++node.sessions;
      if (std::holds_alternative<StateOrder>(action)) node.keeper.push_back(action);
    }
  }

  void drain_newcomer() {
    while (!context->actions.empty()) {
      const Action action = context->actions.front();
      context->actions.pop_front();
      if (const auto* send = std::get_if<Send>(&action)) post(kNewcomer, send->to, send->message);
      if (const auto* event = std::get_if<JoinEvent>(&action)) events.push_back(*event);
      if (const auto* event = std::get_if<Rejected>(&action)) rejected.push_back(*event);
      if (const auto* end = std::get_if<JoinEnded>(&action)) ended.push_back(*end);
      const auto* order = std::get_if<StateOrder>(&action);
      if (order == nullptr) continue;
      if (const auto* store = std::get_if<StorePiece>(order)) {
        const PieceStored outcome = judge(*store);
        if (outcome == PieceStored::kStored) {
          stored.push_back(*store);
          if (store->piece < kManifestPiece) kept[store->piece] = {store->from, store->snapshot};
        }
        fetcher->on_piece_stored(now, {*store, outcome, bytes_of(store->piece)});
      } else if (const auto* forget = std::get_if<ForgetPieces>(order)) {
        std::erase_if(kept, [forget](const auto& piece) {
          const Kept& one = piece.second;
          const bool gave = one.from == forget->from || one.from == PeerId{};
          return forget->snapshot == 0 || (gave && one.snapshot == forget->snapshot);
        });
      } else if (const auto* check = std::get_if<CheckState>(order)) {
        checked.push_back(*check);
        fetcher->on_checked(now, checks());
      }
    }
  }

  std::multimap<Instant, std::function<void()>> deeds_;  // of a test, in their time
  std::deque<Letter> letters_;                           // latency is constant: the oldest first
  std::map<PeerId, std::deque<Transit>> line_;
};

}  // namespace starling::gossip
