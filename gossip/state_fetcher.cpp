#include "gossip/state_fetcher.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "gossip/state_donor.h"
#include "gossip/state_sketch.h"

namespace starling::gossip {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(100);
constexpr Duration kRetryMin = std::chrono::milliseconds(200);
constexpr Duration kRetryMax = std::chrono::seconds(30);
constexpr Duration kRestAfterLoss = std::chrono::seconds(30);
constexpr Duration kSilenceMin = std::chrono::seconds(2);
constexpr int kRejectedMax = 3;
// The way to somebody far, with look-ups, handshakes and a lost packet, takes longer than news from
// there.
constexpr int kContactWaits = 3;
// As long as three have their turns at a donor before us.
constexpr Duration kPromisedMost = 3 * StateDonor::kTurn;

// It will serve, and not yet.
bool is_promise(StateReason reason) {
  return reason == StateReason::kBusy || reason == StateReason::kPreparing ||
         reason == StateReason::kNoSnapshot;
}

}  // namespace

StateFetcher::StateFetcher(CoreContext& context)
    : context_(context), sections_(sections_taken(context.config.state.moments)) {}

void StateFetcher::start(Instant now, std::span<const std::uint64_t> held) {
  const auto total = std::accumulate(context_.stripes.begin(), context_.stripes.end(), 0U);
  STARLING_ASSERT(held.size() == total);
  stripes_.assign(total, {});
  for (std::uint32_t stripe = 0; stripe < total; ++stripe) {
    if (held[stripe] == 0) {
      free_.push_back(stripe);
      continue;
    }
    stripes_[stripe] = {{}, held[stripe], sections_, sections_};
    ++whole_stripes_;
  }
  phase_ = Phase::kWaiting;
  context_.awaits_trained = true;
  waits_until_ = now + context_.config.state.wait;
  partner_until_ = now + kContactWaits * context_.config.state.wait;
  next_tick_ = now + kTick;
}

void StateFetcher::on_offer(Instant now, PeerId from, const StateOffer& offer) {
  const auto found = donors_.find(from);
  const bool expected = found != donors_.end() && found->second.standing == Standing::kAsked;
  if (phase_ != Phase::kFetching || !expected) return context_.refuse_message();
  const auto pieces = kStateSections * static_cast<std::uint32_t>(stripes_.size());
  const std::uint32_t parts = (pieces + kDigestsPerPart - 1) / kDigestsPerPart;
  if (offer.snapshot == 0 || offer.manifest.size() != parts) {
    return turn_down(now, from, found->second, RejectReason::kBadTerms);
  }
  if (offer.step > kStepsOfStateMax || offer.tokens > kTokensOfProcessMax) {
    context_.reject(now, from, RejectReason::kBadTerms);
    return ban(from, found->second, JoinStep::kDonorImpossible);
  }
  found->second.standing = Standing::kOffered;
  found->second.promised = false;
  found->second.offer = offer;
  if (!gathering_) gathering_ = now;
  judge(now);
}

void StateFetcher::on_declined(Instant now, PeerId from, const StateDeclined& declined) {
  const auto found = donors_.find(from);
  if (found == donors_.end() || phase_ != Phase::kFetching) return;
  Donor& donor = found->second;
  if (donor.standing == Standing::kBanned || donor.standing == Standing::kResting) return;
  context_.emit(JoinEvent{JoinStep::kDonorDeclined, from, declined.reason});
  donor.promised = is_promise(declined.reason);
  if (donor.standing == Standing::kActive) turn_gave_ = donor.given;
  if (donor.promised && now - last_given_ < kPromisedMost) last_news_ = now;
  const Duration wanted = std::chrono::milliseconds(declined.retry_after_ms);
  rest(now, from, donor,
       declined.retry_after_ms == 0 ? kRetryMax : std::clamp(wanted, kRetryMin, kRetryMax));
  judge(now);
}

void StateFetcher::on_piece(Instant now, PeerId from, const Piece& piece) {
  const auto found = donors_.find(from);
  if (found == donors_.end() || found->second.standing != Standing::kActive ||
      found->second.offer.snapshot != piece.snapshot) {
    context_.note_payload(now, from, false);
    return context_.refuse_message();
  }
  Donor& donor = found->second;
  const auto asked = std::find(donor.asked.begin(), donor.asked.end(), piece.piece);
  context_.note_payload(now, from, asked != donor.asked.end());
  if (asked == donor.asked.end()) return context_.refuse_message();
  donor.asked.erase(asked);
  donor.storing[piece.piece] = now - donor.heard;
  ++donor.received;
  donor.heard = now;
  StorePiece order{from, piece.snapshot, piece.piece, {}};
  if (piece.piece >= kManifestPiece) {
    order.expected = donor.offer.manifest[piece.piece - kManifestPiece];
  }
  context_.emit(StateOrder(order));
}

void StateFetcher::on_piece_stored(Instant now, const PieceStoredDone& done) {
  const StorePiece& order = done.order;
  if (phase_ != Phase::kFetching) return;
  if (done.outcome == PieceStored::kFailed) return end(JoinOutcome::kDiskFailed);
  const auto found = donors_.find(order.from);
  if (found == donors_.end() || found->second.standing != Standing::kActive ||
      found->second.offer.snapshot != order.snapshot) {
    return;
  }
  Donor& donor = found->second;
  const auto storing = donor.storing.find(order.piece);
  if (storing == donor.storing.end()) return;
  const Duration took = storing->second;
  donor.storing.erase(storing);
  if (done.outcome == PieceStored::kWrong) {
    return turn_down(now, order.from, donor, RejectReason::kWrongPiece);
  }
  if (done.outcome == PieceStored::kUnknown) {
    ask_again(donor, order.piece);
    return request(now, order.from, donor);
  }
  if (order.piece >= kManifestPiece) {
    // Whoever gives nothing but manifests must not keep us waiting.
    if (++donor.parts_stored > parts_most_) note_given(now);
    parts_most_ = std::max(parts_most_, donor.parts_stored);
  } else {
    note_given(now);
    // While the owner allows no traffic, `heard` is no arrival.
    const Instant since = now - took;
    if (!context_.resting) {
      paces_.on_payload(now, order.from, done.bytes, {since, since, now});
      donor.rate.add(done.bytes, took);
      ++donor.given;
    }
    const auto total = static_cast<std::uint32_t>(stripes_.size());
    const std::uint32_t index = order.piece % total;
    Stripe& stripe = stripes_[index];
    stripe.stored = static_cast<std::uint8_t>(stripe.stored | 1U << (order.piece / total));
    if (stripe.stored == sections_) {
      std::erase(donor.stripes, index);
      ++whole_stripes_;
    }
  }
  request(now, order.from, donor);
  check_if_whole();
}

void StateFetcher::on_checked(Instant now, bool good) {
  if (phase_ != Phase::kChecking) return;
  if (good) return end(JoinOutcome::kFetched);
  if (++rejected_ >= kRejectedMax) return end(JoinOutcome::kRejected);
  phase_ = Phase::kFetching;
  note_given(now);
  for (auto& [peer, donor] : donors_) {
    if (donor.standing != Standing::kActive) continue;
    // Alone it answers for the whole; of several nobody knows who it was.
    if (one_snapshot_) {
      ban(peer, donor, JoinStep::kStartedOver);
    } else {
      context_.emit(JoinEvent{JoinStep::kStartedOver, peer, {}});
      rest(now, peer, donor, kRetryMin);
    }
  }
  one_snapshot_ = mixed_badly_ = true;
  forget({});
}

void StateFetcher::on_peer_lost(Instant now, PeerId peer) {
  const auto found = donors_.find(peer);
  if (found == donors_.end() || found->second.standing == Standing::kBanned) return;
  if (found->second.standing == Standing::kActive) {
    context_.emit(JoinEvent{JoinStep::kDonorLost, peer, {}});
    release(found->second);
  }
  donors_.erase(found);
  if (phase_ == Phase::kFetching) judge(now);
}

void StateFetcher::on_deadline(Instant now) {
  if (!active() || now < next_tick_) return;
  next_tick_ = now + kTick;
  if (phase_ == Phase::kWaiting) {
    if (context_.newcomer.decided()) {
      if (context_.newcomer.weight() > 0) return end(JoinOutcome::kNotBehind);
      context_.awaits_trained = false;
      phase_ = Phase::kFetching;
      note_given(now);
      const auto sections = static_cast<std::size_t>(std::popcount(sections_));
      const std::size_t missing = sections * (stripes_.size() - whole_stripes_) * kPieceBytes;
      const Duration longest = from_seconds(static_cast<double>(missing) / kFloor);
      ends_at_ = now + context_.config.state.patience + longest;
      held_at_ = now;
    } else if (!waits_longer(now)) {
      return end(JoinOutcome::kAlone);
    }
  }
  if (phase_ != Phase::kFetching) return;
  if (context_.resting) return hold(now);
  held_at_ = now;
  const bool silent = now - last_news_ >= context_.config.state.patience;
  if (silent || now >= *ends_at_) return end(JoinOutcome::kNobodyServes);
  doubt(now);
  ask_some(now);
  judge(now);
  for (auto& [peer, donor] : donors_) request(now, peer, donor);
}

// For a first partner, and then for its news.
bool StateFetcher::waits_longer(Instant now) {
  if (context_.peers.partners() == 0) {
    waits_until_ = now + context_.config.state.wait;
    return now < partner_until_;
  }
  return now < waits_until_ + (context_.judges_age ? Newcomer::kAgeWithin : Duration{});
}

// What is missing waits, and nobody is blamed for silence.
void StateFetcher::hold(Instant now) {
  *ends_at_ += now - held_at_;
  held_at_ = now;
  note_given(now);
  for (auto& [peer, donor] : donors_) donor.heard = now;
}

void StateFetcher::shift(Duration by) {
  last_news_ += by;
  last_given_ += by;
  waits_until_ += by;
  partner_until_ += by;
  if (ends_at_) *ends_at_ += by;
  held_at_ += by;
  for (auto& [peer, donor] : donors_) {
    donor.heard += by;
    donor.until += by;
  }
}

JoinProgress StateFetcher::progress() const {
  JoinProgress progress;
  progress.fetching = phase_ == Phase::kFetching || phase_ == Phase::kChecking;
  for (const Stripe& stripe : stripes_) {
    progress.pieces += static_cast<std::uint32_t>(std::popcount(stripe.stored));
  }
  const auto sections = static_cast<std::uint32_t>(std::popcount(sections_));
  progress.pieces_total = sections * static_cast<std::uint32_t>(stripes_.size());
  progress.donors = static_cast<std::uint32_t>(count(Standing::kActive));
  return progress;
}

std::optional<Instant> StateFetcher::next_deadline() const {
  if (!active()) return std::nullopt;
  return next_tick_;
}

// Asks random peers that have trained, as many as may be of use.
void StateFetcher::ask_some(Instant now) {
  const std::size_t wanted = one_snapshot_ ? 1 : context_.config.state.donors_max;
  if (count(Standing::kActive) >= wanted) return;
  const bool turns = one_snapshot_ && awaits_turn(now);
  std::vector<PeerId> candidates;
  auto tokens = context_.tokens.totals();
  for (const auto& [id, peer] : context_.peers.rows()) {
    if (!peer.welcomed || peer.record.health != Health::kAlive) continue;
    if (tokens[id] == 0 || (turns && id != begun_->first)) continue;
    if (is_out_of_reach(peer, now)) continue;  // a whole state is too much for a relay
    const auto known = donors_.find(id);
    if (known == donors_.end()) candidates.push_back(id);
    if (known == donors_.end() || known->second.standing != Standing::kResting) continue;
    if (now >= known->second.until) candidates.push_back(id);
  }
  std::size_t open = count(Standing::kAsked) + count(Standing::kOffered) + count(Standing::kActive);
  while (open < kAskedMax && !candidates.empty()) {
    const auto drawn = static_cast<std::size_t>(context_.rng.below(candidates.size()));
    Donor donor;
    donor.until = now + context_.config.offer_timeout;
    donor.promised = donors_[candidates[drawn]].promised;
    donors_[candidates[drawn]] = donor;
    context_.send(candidates[drawn], StateRequest{});
    candidates[drawn] = candidates.back();
    candidates.pop_back();
    ++open;
  }
}

// Donors that keep us waiting.
void StateFetcher::doubt(Instant now) {
  for (auto& [peer, donor] : donors_) {
    if (donor.standing == Standing::kAsked && now >= donor.until) {
      donor.promised = false;
      rest(now, peer, donor, kRetryMax);
    }
    if (donor.standing != Standing::kActive) continue;
    if (is_slow(peer, donor)) {
      donor.promised = false;
      was_slow_.insert(peer);
      context_.emit(JoinEvent{JoinStep::kDonorLost, peer, {}});
      rest(now, peer, donor, kRestAfterLoss);
      continue;
    }
    if (donor.asked.empty() || now - donor.heard < silence_max(now, peer)) continue;
    donor.promised = false;
    context_.emit(JoinEvent{JoinStep::kDonorLost, peer, {}});
    paces_.of(now, peer).on_silence();  // should it only have been slow, it has longer next time
    rest(now, peer, donor, kRestAfterLoss);
  }
}

// Beside others that are in service now: of one that is alone nobody knows whether it or our own
// line is slow, so another is tried, once.
bool StateFetcher::is_slow(PeerId peer, const Donor& donor) const {
  const auto seconds_of = [](const Donor& of) {
    return of.given < kTold ? std::nullopt : of.rate.seconds_per_byte();
  };
  const auto own = seconds_of(donor);
  if (!own || *own * kFastEnough <= 1) return false;
  for (const auto& [id, other] : donors_) {
    const auto theirs = other.standing == Standing::kActive ? seconds_of(other) : std::nullopt;
    if (theirs && *own > kSlower * *theirs) return true;
  }
  const bool alone = count(Standing::kActive) == 1 && context_.peers.count(Health::kAlive) > 1;
  return alone && *own * kFloor > 1 && !was_slow_.contains(peer);
}

// How long a donor may be silent. All share the one line of ours: while a piece comes, one of each
// other may, and the donor may give one to another newcomer.
Duration StateFetcher::silence_max(Instant now, PeerId peer) {
  const std::size_t bytes = (1 + count(Standing::kActive)) * kPieceBytes;
  const Duration usual = paces_.payload_within(now, peer, bytes);
  // Enough patience is left for others to give what this one does not.
  return std::min(std::max(usual, kSilenceMin), context_.config.state.patience * 3 / 4);
}

void StateFetcher::end(JoinOutcome outcome) {
  for (auto& [peer, donor] : donors_) {
    if (donor.standing == Standing::kActive) {
      context_.send(peer, StateDeclined{StateReason::kFinished, 0});
    }
  }
  donors_.clear();
  promises_.clear();
  context_.awaits_trained = false;
  phase_ = Phase::kOff;
  if (outcome != JoinOutcome::kFetched) return context_.emit(JoinEnded{outcome, 0, 0});
  context_.tokens.inherit(checked_.tokens);
  context_.freshness.renew();
  context_.emit(JoinEnded{outcome, checked_.step, checked_.tokens});
}

std::size_t StateFetcher::count(Standing standing) const {
  return static_cast<std::size_t>(
      std::count_if(donors_.begin(), donors_.end(),
                    [standing](const auto& item) { return item.second.standing == standing; }));
}

}  // namespace starling::gossip
