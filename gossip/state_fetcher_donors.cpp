// Whom a StateFetcher fetches from, and which piece comes from whom.
#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <utility>

#include "gossip/state_donor.h"
#include "gossip/state_fetcher.h"
#include "gossip/state_sketch.h"

namespace starling::gossip {
namespace {

constexpr Duration kGather =
    std::chrono::milliseconds(500);                      // offers that come this close together
constexpr Duration kOpinion = std::chrono::seconds(10);  // for others' offers, where it takes them
constexpr Duration kRestAfterDoubt = std::chrono::seconds(60);
constexpr Duration kRestWithoutNeed = std::chrono::seconds(10);
// Offers whose weights were trained with less than this share of the median's tokens are stale: one
// liar must not make everybody else's so.
constexpr double kTokensShare = 0.5;
// Further from the median than so many times the usual distance: unlike the others.
constexpr double kOutlier = 4;
// Distances below this share of the weights are rounding, not disagreement.
constexpr double kSame = 1e-3;
// Donors whose distance is above this share of the weights are not mixed. The loss is smooth: a
// mixture of stripes is off by no more than its donors are from each other, and its loss by the
// square of that.
constexpr double kMixed = 0.1;
// A sketch of 64 values is off by an eighth or so, and a mixture as far out as its worst donor.
constexpr double kSketchSlack = 2;
// Pieces: what a turn brings at the slowest rate that is borne.
const auto kWorthATurn = static_cast<std::uint32_t>(
    std::ceil(StateFetcher::kFloor * to_seconds(StateDonor::kTurn) / kPieceBytes));

}  // namespace

// The donors whose offers count: of those that are not stale, where they are three or more, the
// ones that agree. Sets their distance to the median.
std::vector<StateFetcher::Donor*> StateFetcher::judged() {
  std::vector<Donor*> fresh;
  std::vector<std::uint64_t> offered;
  for (auto& [peer, donor] : donors_) {
    const bool has_offer =
        donor.standing == Standing::kOffered || donor.standing == Standing::kActive;
    if (!has_offer) continue;
    fresh.push_back(&donor);
    offered.push_back(donor.offer.tokens);
  }
  if (fresh.empty()) return fresh;
  const auto median = offered.begin() + static_cast<std::ptrdiff_t>((offered.size() - 1) / 2);
  std::nth_element(offered.begin(), median, offered.end());
  const double least = kTokensShare * static_cast<double>(*median);
  std::erase_if(fresh, [least](const Donor* donor) {
    return static_cast<double>(donor->offer.tokens) < least;
  });
  std::vector<StateSketch> sketches;
  for (const Donor* donor : fresh) sketches.push_back(donor->offer.sketch);
  median_ = median_of(sketches);
  std::vector<double> distances;
  for (Donor* donor : fresh) {
    donor->distance = distance(donor->offer.sketch, median_);
    distances.push_back(donor->distance);
  }
  std::nth_element(distances.begin(),
                   distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2),
                   distances.end());
  const double usual = distances[distances.size() / 2];
  // Whoever alone offers the rest of what it began is as far from the others as it was.
  const bool goes_on = one_snapshot_ && fresh.size() == 1 && fresh.front() == begun_with();
  one_snapshot_ = mixed_badly_ || goes_on || usual > kMixed * norm(median_);
  if (fresh.size() < 3) return fresh;
  const double limit = kOutlier * usual + kSame * norm(median_);
  std::erase_if(fresh, [limit](const Donor* donor) { return donor->distance > limit; });
  return fresh;
}

// Takes into service those that have offered, once nobody else is about to.
void StateFetcher::judge(Instant now) {
  if (phase_ != Phase::kFetching || !gathering_) return;
  const bool more = count(Standing::kAsked) > 0;
  if (more && now - *gathering_ < kGather) return;
  const bool was_one = one_snapshot_;
  const std::vector<Donor*> good = judged();
  // Of one that is alone, and of two that are far apart, nobody knows who is right.
  // But whoever began was chosen before.
  const bool goes_on = good.size() == 1 && good.front() == begun_with();
  const bool apart = one_snapshot_ && good.size() < 3 && !goes_on;
  const bool soon = !goes_on && expects_offer(now) && now - *gathering_ < kOpinion;
  const bool turns = one_snapshot_ && awaits_turn(now);
  if ((apart && (more || soon)) || (good.size() == 1 && soon) || turns) {
    one_snapshot_ = was_one;  // nothing is decided yet
    return;
  }
  gathering_.reset();
  std::vector<std::pair<double, PeerId>> chosen;
  for (auto& [peer, donor] : donors_) {
    const bool active = donor.standing == Standing::kActive;
    if (!active && donor.standing != Standing::kOffered) continue;
    if (std::find(good.begin(), good.end(), &donor) == good.end()) {
      context_.emit(JoinEvent{JoinStep::kDonorDisagrees, peer, {}});
      rest(now, peer, donor, kRestAfterDoubt);
      if (active) forget({peer, donor.offer.snapshot});
    } else if (one_snapshot_ && &donor == begun_with()) {
      chosen.emplace_back(-1, peer);
    } else if (one_snapshot_ && good.size() > 2) {  // the nearest to the others
      chosen.emplace_back(donor.distance, peer);
    } else {  // any, so that newcomers spread
      chosen.emplace_back(active ? -1 : context_.rng.unit(), peer);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  const std::size_t wanted = one_snapshot_ ? 1 : context_.config.state.donors_max;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Donor& donor = donors_.at(chosen[i].second);
    if (i >= wanted) {
      rest(now, chosen[i].second, donor, kRestWithoutNeed);
    } else if (donor.standing == Standing::kOffered) {
      activate(now, chosen[i].second, donor);
    }
  }
  std::vector<Giver> agreed;  // the one that is to give first, if it is one
  for (const auto& [rank, peer] : chosen) agreed.push_back({peer, donors_.at(peer).offer.snapshot});
  if (!agreed.empty()) keep_what_fits(agreed, was_one);
  check_if_whole();
}

// Of somebody who was busy, and is asked again or soon will be.
bool StateFetcher::expects_offer(Instant now) const {
  return std::any_of(donors_.begin(), donors_.end(), [now](const auto& item) {
    const Donor& donor = item.second;
    const bool asked = donor.standing == Standing::kAsked;
    const bool soon = donor.standing == Standing::kResting && donor.until < now + kOpinion;
    return donor.promised && (asked || soon);
  });
}

void StateFetcher::keep_what_fits(const std::vector<Giver>& agreed, bool was_one) {
  const Giver& first = agreed.front();
  if (one_snapshot_) {
    begun_ = first;
    const bool told = std::exchange(one_told_, true);
    if (!told) context_.emit(JoinEvent{JoinStep::kDonorAlone, first.first, {}});
    keep_only({first});
  } else if (was_one) {
    // What was begun with may be far from those that agree now.
    keep_only({agreed.begin(), agreed.end()});
  } else if (agreed.size() == 1 && whole_stripes_ != stripes_.size()) {
    keep_what_may_fit(first);
  }
}

// Something is here that would be thrown away if another were to give everything.
bool StateFetcher::has_begun() const {
  return begun_ && std::any_of(stripes_.begin(), stripes_.end(), [this](const Stripe& one) {
           const bool is_its = one.holder == begun_->first && one.snapshot == begun_->second;
           return is_its && one.stored == sections_;
         });
}

// The donor of that, if it still gives the same. Null: nobody does.
const StateFetcher::Donor* StateFetcher::begun_with() const {
  if (!has_begun()) return nullptr;
  const auto donor = donors_.find(begun_->first);
  const bool same = donor != donors_.end() && donor->second.offer.snapshot == begun_->second;
  return same ? &donor->second : nullptr;
}

// It has made room for another newcomer, whose turn is not over, nor the time to ask for the next.
// One that gives little in its turns is not worth others'.
bool StateFetcher::awaits_turn(Instant now) const {
  if (!has_begun() || turn_gave_ < kWorthATurn) return false;
  if (now - last_given_ >= StateDonor::kTurn + StateDonor::kRest) return false;
  // Enough patience is left for others.
  if (now - last_news_ >= context_.config.state.patience * 3 / 4) return false;
  const auto donor = donors_.find(begun_->first);
  if (donor == donors_.end() || !donor->second.promised) return false;
  return donor->second.standing == Standing::kAsked || donor->second.standing == Standing::kResting;
}

void StateFetcher::activate(Instant now, PeerId peer, Donor& donor) {
  donor.standing = Standing::kActive;
  donor.heard = now;
  drop_promises();
  promises_[{peer, donor.offer.snapshot}] = {donor.offer.step, donor.offer.tokens, donor.distance};
  context_.emit(JoinEvent{JoinStep::kDonorFound, peer, {}});
  request(now, peer, donor);
}

// Beside one that is alone. Its earlier snapshots are not this one, and of what an earlier process
// of ours has stored nobody knows how far it is from it: rather than fetch all the rest in vain,
// begin anew. What others gave is checked with the whole, by what was known of them then: here one
// who is alone would say himself what is near.
void StateFetcher::keep_what_may_fit(const Giver& only) {
  std::set<Giver> kept{only};
  for (const auto& [giver, promise] : promises_) {
    if (giver.first != only.first) kept.insert(giver);
  }
  keep_only(kept);
}

// But those of whoever gives, or gave what is here: a donor may offer another snapshot each time
// that it is asked, and donors come and go.
void StateFetcher::drop_promises() {
  std::set<Giver> givers;
  for (const Stripe& stripe : stripes_) givers.insert({stripe.holder, stripe.snapshot});
  for (const auto& [peer, donor] : donors_) {
    if (donor.standing == Standing::kActive) givers.insert({peer, donor.offer.snapshot});
  }
  std::erase_if(promises_, [&](const auto& item) { return !givers.contains(item.first); });
}

// As many pieces as the window has room for.
void StateFetcher::request(Instant now, PeerId peer, Donor& donor) {
  if (donor.standing != Standing::kActive || phase_ != Phase::kFetching) return;
  if (context_.resting) return;
  while (donor.asked.size() + donor.storing.size() < kWindow) {
    const auto piece = next_piece(peer, donor);
    if (!piece) return;
    if (donor.asked.empty()) donor.heard = now;
    donor.asked.push_back(*piece);
    context_.send(peer, PieceRequest{donor.offer.snapshot, *piece, donor.received});
  }
}

std::optional<std::uint32_t> StateFetcher::next_piece(PeerId peer, Donor& donor) {
  const std::size_t parts = donor.offer.manifest.size();
  if (donor.parts_asked < parts) return kManifestPiece + donor.parts_asked++;
  if (donor.parts_stored < parts) return std::nullopt;
  const auto total = static_cast<std::uint32_t>(stripes_.size());
  const auto unasked = std::find_if(donor.stripes.begin(), donor.stripes.end(), [this](auto index) {
    return stripes_[index].asked != sections_;
  });
  std::uint32_t index = 0;
  if (unasked != donor.stripes.end()) {
    index = *unasked;
  } else if (!free_.empty()) {
    index = free_.front();
    free_.pop_front();
    donor.stripes.push_back(index);
    stripes_[index] = {peer, donor.offer.snapshot, 0, 0};
  } else {
    return std::nullopt;
  }
  const auto missing = static_cast<std::uint8_t>(sections_ & ~stripes_[index].asked);
  const auto section = static_cast<std::uint32_t>(std::countr_zero(missing));
  stripes_[index].asked = static_cast<std::uint8_t>(stripes_[index].asked | 1U << section);
  return section * total + index;
}

// Its manifest is to come first: here there was no room for it.
void StateFetcher::ask_again(Donor& donor, std::uint32_t piece) {
  if (donor.parts_stored == donor.offer.manifest.size()) donor.parts_asked = donor.parts_stored = 0;
  const auto total = static_cast<std::uint32_t>(stripes_.size());
  Stripe& stripe = stripes_[piece % total];
  stripe.asked = static_cast<std::uint8_t>(stripe.asked & ~(1U << (piece / total)));
}

// Its unfinished stripes are free for others. What it has given whole stays.
void StateFetcher::release(Donor& donor) {
  for (const std::uint32_t index : donor.stripes) {
    stripes_[index] = {};
    free_.push_front(index);
  }
  donor.stripes.clear();
  donor.asked.clear();
  donor.storing.clear();
}

void StateFetcher::rest(Instant now, PeerId peer, Donor& donor, Duration for_time) {
  if (donor.standing == Standing::kActive) {
    context_.send(peer, StateDeclined{StateReason::kFinished, 0});
    release(donor);
  }
  donor.standing = Standing::kResting;
  donor.until = now + for_time;
}

// Nothing of it is kept, and it is not asked again.
void StateFetcher::ban(PeerId peer, Donor& donor, JoinStep why) {
  if (donor.standing == Standing::kActive) {
    context_.send(peer, StateDeclined{StateReason::kFinished, 0});
    release(donor);
    forget({peer, donor.offer.snapshot});
  }
  donor.standing = Standing::kBanned;
  context_.emit(JoinEvent{why, peer, {}});
}

// What it gave cannot be an accident: it hears of it, and so does everybody here.
void StateFetcher::turn_down(Instant now, PeerId peer, Donor& donor, RejectReason reason) {
  if (donor.standing == Standing::kActive)
    context_.send(peer, StateDeclined{StateReason::kWrong, 0});
  context_.reject(now, peer, reason);
  ban(peer, donor, JoinStep::kDonorWrong);
}

// Snapshot zero: of all, while no stripe is under way.
void StateFetcher::forget(const Giver& giver) {
  const auto [from, snapshot] = giver;
  for (std::uint32_t index = 0; index < stripes_.size(); ++index) {
    Stripe& stripe = stripes_[index];
    const bool gave = stripe.holder == from || stripe.holder == PeerId{};
    const bool meant = snapshot == 0 || (gave && stripe.snapshot == snapshot);
    if (stripe.stored != sections_ || !meant) continue;
    stripe = {};
    free_.push_back(index);
    --whole_stripes_;
  }
  context_.emit(StateOrder(ForgetPieces{from, snapshot}));
}

// By their givers: what the one snapshot's donor has given of stripes that are not whole stays,
// too.
void StateFetcher::keep_only(const std::set<Giver>& givers) {
  std::set<Giver> others;
  for (const Stripe& stripe : stripes_) {
    const bool kept = std::any_of(givers.begin(), givers.end(), [&stripe](const Giver& giver) {
      const bool from_it = stripe.holder == giver.first || stripe.holder == PeerId{};
      return from_it && stripe.snapshot == giver.second;
    });
    if (stripe.stored == 0 || kept) continue;
    others.insert({stripe.holder, stripe.snapshot});
  }
  for (const Giver& other : others) forget(other);
}

void StateFetcher::check_if_whole() {
  if (phase_ != Phase::kFetching || whole_stripes_ != stripes_.size()) return;
  const auto active = std::find_if(donors_.begin(), donors_.end(), [](const auto& item) {
    return item.second.standing == Standing::kActive;
  });
  if (active == donors_.end()) return;  // nobody to compare with yet
  phase_ = Phase::kChecking;
  // Of one snapshot: exactly what its donor said. Of a mixture: as near as its donors are.
  const StateSketch& sketch = one_snapshot_ ? active->second.offer.sketch : median_;
  const double same = kSame * norm(sketch);
  checked_ = promise();  // while they are here who made it
  const double distance_max = one_snapshot_ ? 0 : kSketchSlack * checked_.distance;
  context_.emit(StateOrder(CheckState{sketch, distance_max + same}));
}

// Those of stripes' givers, and of donors in service, of whom some may have gone since.
void StateFetcher::assert_invariants() const {
  STARLING_ASSERT(promises_.size() <= stripes_.size() + context_.config.state.donors_max);
}

// The least of what those said whose stripes are here, and how far out the furthest of them is.
// What an earlier process stored has no giver; of that alone those in service speak.
StateFetcher::Promise StateFetcher::promise() const {
  std::set<Giver> givers;
  for (const Stripe& stripe : stripes_) {
    const Giver giver{stripe.holder, stripe.snapshot};
    if (promises_.contains(giver)) givers.insert(giver);
  }
  if (givers.empty()) {
    for (const auto& [peer, donor] : donors_) {
      if (donor.standing == Standing::kActive) givers.insert({peer, donor.offer.snapshot});
    }
  }
  Promise kept;
  kept.step = kept.tokens = UINT64_MAX;
  for (const Giver& giver : givers) {
    const Promise& one = promises_.at(giver);
    kept.step = std::min(kept.step, one.step);
    kept.tokens = std::min(kept.tokens, one.tokens);
    kept.distance = std::max(kept.distance, one.distance);
  }
  return givers.empty() ? Promise{} : kept;
}

}  // namespace starling::gossip
