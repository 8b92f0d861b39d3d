#include "gossip/sim/sim_audit.h"

#include "base/assert.h"

namespace starling::gossip {
namespace {

constexpr std::size_t kViolationsMax = 20;  // one cause has many symptoms; the first ones count

}  // namespace

PeerId sim_peer_id(std::uint32_t peer) { return PeerId{peer + std::uint64_t{1}}; }

std::string to_string(const StripeRef& ref) {
  const auto key = [](const PeerKey& peer) {
    return std::to_string(peer.id.value - 1) + "@" + std::to_string(peer.incarnation);
  };
  return key(ref.exchange.initiator) + ">" + key(ref.exchange.responder) + "#" +
         std::to_string(ref.exchange.counter) + " fragment " + std::to_string(ref.fragment.value) +
         " stripe " + std::to_string(ref.stripe) + " attempt " + std::to_string(ref.attempt);
}

// One executed order, entered into the books.
struct SimAudit::Execute {
  SimAudit& audit;
  const Instant now;
  const std::uint32_t peer;
  const MixerResult& result;

  void fail(const StripeRef& ref, const std::string& what) {
    audit.fail(now, peer, what + ": " + to_string(ref));
  }

  bool is_this_life(const StripeRef& ref, Role role) {
    const PeerKey& key = role == Role::kInitiator ? ref.exchange.initiator : ref.exchange.responder;
    return peer_of(key) == peer && key.incarnation == audit.books_[peer].process;
  }

  void operator()(const EncodeStripe& order) {
    if (!is_this_life(order.ref, Role::kInitiator)) fail(order.ref, "encodes for a former life");
  }

  void operator()(const StageDelta& order) {
    if (!is_this_life(order.ref, Role::kResponder)) fail(order.ref, "stages for a former life");
    Attempt& attempt = audit.attempts_[order.ref];
    if (!result.ok()) return;
    if (attempt.staged) fail(order.ref, "stages one attempt twice");
    attempt.staged = true;
    attempt.half = result.payload.values;
    attempt.terms = order.terms;
    if (!within_radius(attempt.half, order.terms.clip_radius)) {
      fail(order.ref, "stages a difference beyond the clip radius");
    }
    check_influence(order.ref, attempt);
  }

  // However a hostile partner got there.
  void check_influence(const StripeRef& ref, const Attempt& attempt) {
    if (audit.is_hostile(ref.exchange) && !within_radius(attempt.half, audit.radius_max_)) {
      fail(ref, "lets a hostile partner move it beyond any radius it wanted");
    }
  }

  void operator()(const ReissueDelta&) {}

  void operator()(const ApplyDelta& order) {
    if (!is_this_life(order.ref, Role::kInitiator)) fail(order.ref, "applies for a former life");
    if (!result.ok()) return;
    Attempt& attempt = audit.attempts_[order.ref];
    if (audit.is_hostile(order.ref.exchange)) {  // what it staged, if it did, is its own affair
      attempt.staged = true;
      attempt.half = result.payload.values;
      attempt.terms = order.terms;
      check_influence(order.ref, attempt);
    }
    if (!attempt.staged) fail(order.ref, "applies what was never staged");
    if (attempt.initiator.applied) fail(order.ref, "applies one attempt twice");
    if (result.payload.values != attempt.half) fail(order.ref, "applies another delta");
    const PairTerms& terms = attempt.terms;
    if (order.terms.mixing != terms.mixing ||
        order.terms.initiator_weight != terms.initiator_weight ||
        order.terms.responder_weight != terms.responder_weight ||
        order.terms.clip_radius != terms.clip_radius) {
      fail(order.ref, "the two sides disagree on the terms");
    }
    audit.check_no_other_attempt(now, peer, order.ref, Role::kInitiator);
    attempt.initiator.applied = true;
    attempt.applied_at = now;
    audit.book(peer, {order.ref, Role::kInitiator, Deed::kApply}, 1,
               sim_change(order.terms, Role::kInitiator, attempt.half));
  }

  void operator()(const ApplyStaged& order) {
    if (!is_this_life(order.ref, Role::kResponder)) fail(order.ref, "commits for a former life");
    if (!result.ok()) return;
    Attempt& attempt = audit.attempts_[order.ref];
    if (attempt.responder.applied) fail(order.ref, "commits one attempt twice");
    const bool trusted = !audit.is_hostile(order.ref.exchange);
    if (trusted && !attempt.initiator.applied && !attempt.initiator.rolled_back) {
      fail(order.ref, "the responder applies alone");
    }
    audit.check_no_other_attempt(now, peer, order.ref, Role::kResponder);
    attempt.responder.applied = true;
    audit.book(peer, {order.ref, Role::kResponder, Deed::kApply}, 1,
               sim_change(attempt.terms, Role::kResponder, attempt.half));
  }

  void operator()(const DropStaged&) {}

  void operator()(const Compensate& order) {
    Attempt& attempt = audit.attempts_[order.ref];
    if (!attempt.initiator.applied) fail(order.ref, "undoes what is not applied");
    if (attempt.responder.applied) fail(order.ref, "undoes what its partner applied");
    attempt.initiator.applied = false;
    audit.book(peer, {order.ref, Role::kInitiator, Deed::kUndo}, -1,
               sim_change(attempt.terms, Role::kInitiator, attempt.half));
  }

  void operator()(const ForgetDelta& order) {
    Attempt& attempt = audit.attempts_[order.ref];
    const bool in_doubt =
        attempt.initiator.applied && !attempt.responder.applied && !attempt.responder.rolled_back;
    const Books& partner = audit.books_[peer_of(order.ref.exchange.responder)];
    const bool partner_gone = partner.gone || partner.hostile;
    if (in_doubt && !partner_gone && now - attempt.applied_at < audit.initiator_gives_up_) {
      fail(order.ref, "forgets a delta that its partner has not applied");
    }
    attempt.orphaned = in_doubt;
    audit.books_[peer].entries.push_back({order.ref, Role::kInitiator, Deed::kForget});
  }
};

SimAudit::SimAudit(const SimOptions& options, const StripeIndex& index)
    : index_(index),
      stripes_(options.stripes),
      radius_max_(options.clip_radius * kSimRadiiMax),
      initiator_gives_up_(from_seconds(to_seconds(options.config.initiator_gives_up) /
                                       (1 + options.faults.clock_drift)) -
                          std::chrono::milliseconds(1)),
      samples_(options.config.peers_max < options.peers),
      books_(options.peers) {}

std::uint32_t SimAudit::peer_of(const PeerKey& key) {
  return static_cast<std::uint32_t>(key.id.value - 1);
}

bool SimAudit::is_hostile(const ExchangeKey& exchange) const {
  return books_[peer_of(exchange.initiator)].hostile || books_[peer_of(exchange.responder)].hostile;
}

// Where views are samples its inventions push others out of tables, and out of what these remember
// of whom they have forgotten. Then an offer that comes late begins its exchange again; what was
// applied of it the ledger knows.
void SimAudit::on_hostile(std::uint32_t peer) {
  books_[peer].hostile = true;
  may_repeat_ = samples_;
}

bool SimAudit::is_this_life(std::uint32_t peer, const ExchangeKey& exchange, Role role) const {
  const PeerKey& key = role == Role::kInitiator ? exchange.initiator : exchange.responder;
  return peer_of(key) == peer && key.incarnation == books_[peer].process;
}

void SimAudit::on_born(std::uint32_t peer, const std::vector<StripeValues>& values) {
  books_[peer].own = values;
  books_[peer].expected = values;
}

void SimAudit::on_started(std::uint32_t peer, std::uint64_t process) {
  STARLING_ASSERT(process > books_[peer].process);
  books_[peer].process = process;
  books_[peer].ended.clear();
}

void SimAudit::on_restored(std::uint32_t peer, const Cut& cut) {
  Books& books = books_[peer];
  STARLING_ASSERT(cut.entries <= books.entries.size());
  while (books.entries.size() > cut.entries) {
    revert(books.entries.back());
    books.entries.pop_back();
  }
  books.own = cut.own;
  books.expected = cut.expected;
}

void SimAudit::on_adopted(std::uint32_t peer, const std::vector<StripeValues>& values) {
  on_restored(peer, {0, values, values});
}

void SimAudit::revert(const Entry& entry) {
  Attempt& attempt = attempts_.at(entry.ref);
  Side& side = entry.role == Role::kInitiator ? attempt.initiator : attempt.responder;
  switch (entry.deed) {
    case Deed::kApply:
      side.applied = false;
      side.rolled_back = true;
      break;
    // Undone again after the restart, by the restored ledger: no excuse for the pair.
    case Deed::kUndo: side.applied = true; break;
    case Deed::kForget: attempt.orphaned = false; break;
  }
}

void SimAudit::on_gone(std::uint32_t peer) { books_[peer].gone = true; }

SimAudit::Cut SimAudit::cut(std::uint32_t peer) const {
  const Books& books = books_[peer];
  return {books.entries.size(), books.own, books.expected};
}

void SimAudit::on_trained(std::uint32_t peer, std::size_t stripe, const StripeValues& change) {
  add(books_[peer].own[stripe], 1, change);
  add(books_[peer].expected[stripe], 1, change);
}

void SimAudit::on_executed(Instant now, std::uint32_t peer, const MixerResult& result,
                           const std::vector<StripeValues>& values) {
  if (books_[peer].hostile) return;
  const StripeRef& ref = ref_of(result.order);
  if (result.odd) {
    fail(now, peer,
         "order " + std::to_string(result.order.index()) +
             " makes no sense to the mixer: " + to_string(ref));
    return;
  }
  if (result.moot) return;
  std::visit(Execute{*this, now, peer, result}, result.order);
  const std::size_t stripe = index_.at(ref.fragment, ref.stripe);
  if (values[stripe] != books_[peer].expected[stripe]) {
    fail(now, peer, "the weights are not what the books say: " + to_string(ref));
  }
}

void SimAudit::book(std::uint32_t peer, const Entry& entry, std::int64_t times,
                    const StripeValues& change) {
  Books& books = books_[peer];
  books.entries.push_back(entry);
  add(books.expected[index_.at(entry.ref.fragment, entry.ref.stripe)], times, change);
}

void SimAudit::check_no_other_attempt(Instant now, std::uint32_t peer, const StripeRef& ref,
                                      Role role) {
  for (auto row = attempts_.lower_bound(stripe_key(ref)); row != attempts_.end(); ++row) {
    const StripeRef& other = row->first;
    if (other.exchange != ref.exchange || other.fragment != ref.fragment ||
        other.stripe != ref.stripe) {
      break;
    }
    const Side& side = role == Role::kInitiator ? row->second.initiator : row->second.responder;
    if (other.attempt != ref.attempt && side.applied) {
      fail(now, peer, "applies two attempts at one stripe: " + to_string(ref));
    }
  }
}

void SimAudit::on_exchange_open(Instant now, std::uint32_t peer, const ExchangeKey& key,
                                Role role) {
  if (books_[peer].hostile) return;
  if (!is_this_life(peer, key, role)) fail(now, peer, "begins an exchange of a former life");
  const auto [row, fresh] = books_[peer].ended.try_emplace({key, role}, false);
  if (!fresh && row->second && !may_repeat_) {
    fail(now, peer, "an exchange begins again after its end");
  }
}

void SimAudit::on_exchange_ended(Instant now, std::uint32_t peer, const ExchangeEnded& event) {
  if (books_[peer].hostile) return;
  const auto row = books_[peer].ended.find({event.exchange, event.role});
  if (row == books_[peer].ended.end()) {
    fail(now, peer, "an exchange ends that never began");
  } else if (row->second && !may_repeat_) {
    fail(now, peer, "an exchange ends twice");
  } else {
    row->second = true;
  }
  // The reverse may be: the partner was lost before it had acknowledged everything.
  const std::uint32_t stripes = stripes_[event.fragment.value];
  const bool completed = event.outcome == Outcome::kCompleted;
  if (event.stripes_applied > stripes || (completed && event.stripes_applied < stripes)) {
    fail(now, peer, "an exchange ends with a wrong number of stripes");
  }
}

void SimAudit::on_progress(std::uint32_t peer, std::uint64_t tokens) {
  books_[peer].tokens[books_[peer].process] = tokens;
}

std::uint64_t SimAudit::tokens_trained(std::uint32_t peer) const {
  std::uint64_t total = 0;
  for (const auto& [process, tokens] : books_[peer].tokens) total += tokens;
  return total;
}

void SimAudit::check_tokens(Instant now, std::uint32_t peer,
                            const std::vector<TokenEntry>& believed) {
  for (const TokenEntry& entry : believed) {
    if (books_[peer_of(entry.key)].hostile) continue;
    const auto& trained = books_[peer_of(entry.key)].tokens;
    const auto process = trained.find(entry.key.incarnation);
    if (entry.tokens > (process == trained.end() ? 0 : process->second)) {
      fail(now, peer, "believes in tokens that nobody trained");
    }
  }
}

void SimAudit::fail(Instant now, std::uint32_t peer, const std::string& what) {
  if (violations_.size() == kViolationsMax) return;
  violations_.push_back("at " + std::to_string(to_seconds(now.time_since_epoch())) + " s, peer " +
                        std::to_string(peer) + ": " + what);
}

ExceptionalMass SimAudit::close(Instant now, const std::vector<std::uint32_t>& live,
                                const std::vector<const SimMixer*>& mixers) {
  ExceptionalMass reasons;
  std::vector<bool> is_live(books_.size(), false);
  for (const std::uint32_t peer : live) is_live[peer] = true;

  std::vector<StripeValues> balance(index_.size(), StripeValues{});  // must become zero
  for (std::size_t i = 0; i < live.size(); ++i) {
    const Books& books = books_[live[i]];
    for (std::size_t stripe = 0; stripe < index_.size(); ++stripe) {
      add(balance[stripe], 1, mixers[i]->values()[stripe]);
      add(balance[stripe], -1, books.own[stripe]);
    }
    for (const auto& [exchange, ended] : books.ended) {
      if (!ended) fail(now, live[i], "an exchange never ended");
    }
  }
  for (const auto& [ref, attempt] : attempts_) {
    const bool initiator = is_live[peer_of(ref.exchange.initiator)];
    const bool responder = is_live[peer_of(ref.exchange.responder)];
    StripeValues moved{};
    if (initiator && attempt.initiator.applied) {
      add(moved, 1, sim_change(attempt.terms, Role::kInitiator, attempt.half));
    }
    if (responder && attempt.responder.applied) {
      add(moved, 1, sim_change(attempt.terms, Role::kResponder, attempt.half));
    }
    add(balance[index_.at(ref.fragment, ref.stripe)], -1, moved);
    const bool uneven = moved != StripeValues{};
    if (is_hostile(ref.exchange)) {
      reasons.hostile += uneven ? 1 : 0;
    } else if (initiator && responder) {
      check_pair(now, ref, attempt, reasons);
    } else if (uneven) {
      ++reasons.partner_gone;
    }
  }
  for (const StripeValues& stripe : balance) {
    if (stripe != StripeValues{}) fail(now, 0, "mass is not conserved");
  }
  return reasons;
}

void SimAudit::check_pair(Instant now, const StripeRef& ref, const Attempt& attempt,
                          ExceptionalMass& reasons) {
  const bool initiator = attempt.initiator.applied;
  const bool responder = attempt.responder.applied;
  if (initiator && responder) {
    const SimWeights weights = sim_weights(attempt.terms);
    if (weights.initiator != weights.responder) ++reasons.unequal;
  } else if (initiator || responder) {
    if (attempt.initiator.rolled_back || attempt.responder.rolled_back) {
      ++reasons.rolled_back;
    } else if (attempt.orphaned) {
      ++reasons.orphaned;
    } else {
      fail(now, peer_of(ref.exchange.initiator), "applied on one side: " + to_string(ref));
    }
  }
}

}  // namespace starling::gossip
