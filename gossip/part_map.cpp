#include "gossip/part_map.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/assert.h"

namespace starling::gossip {
namespace {

constexpr std::uint16_t kPassesEnd = std::numeric_limits<std::uint16_t>::max();
constexpr std::size_t kLooksPerMessage = 4 * kPartClaimsMax;

// Only a liar makes two claims of one number; whatever the order, the same one of them wins.
bool replaces(const PartClaim& news, const PartClaim& known) {
  const auto left = std::tie(news.holder.incarnation, news.sequence);
  const auto right = std::tie(known.holder.incarnation, known.sequence);
  if (left != right) return left > right;
  return std::lexicographical_compare(known.parts.begin(), known.parts.end(), news.parts.begin(),
                                      news.parts.end());
}

}  // namespace

PartMap::PartMap(std::uint16_t parts, std::span<const std::uint16_t> restored) : passes_(parts) {
  STARLING_ASSERT(parts <= kPartsMax);
  STARLING_ASSERT(restored.empty() || restored.size() == parts);
  for (std::size_t part = 0; part < restored.size(); ++part) passes_[part].passes = restored[part];
}

bool PartMap::merge(const PartPasses& entry) {
  if (entry.part >= passes_.size()) return false;
  Row& row = passes_[entry.part];
  if (row.passes >= entry.passes) return false;
  news_ += row.tell_left == 0 ? 1 : 0;
  row = {entry.passes, kTellTimes};
  return true;
}

bool PartMap::merge(const PartClaim& claim) {
  const bool known = std::all_of(claim.parts.begin(), claim.parts.end(),
                                 [this](std::uint16_t part) { return part < passes_.size(); });
  if (!known) return false;
  const auto found = claims_.find(claim.holder.id);
  if (found == claims_.end()) {
    if (claims_.size() >= kClaimsMax) return false;
  } else if (!replaces(claim, found->second.claim)) {
    return false;
  }
  ClaimRow& row = claims_[claim.holder.id];
  if (found == claims_.end()) {
    row.place = order_.size();
    order_.push_back(&row);
  }
  if (row.tell_left == 0) exchange(row.place, claim_news_++);
  row.claim = claim;
  row.tell_left = kTellTimes;
  return true;
}

void PartMap::finish(std::uint16_t part, std::uint16_t times) {
  const std::uint16_t before = passes_.at(part).passes;
  const int after = std::min<int>(before + times, kPassesEnd);
  merge(PartPasses{part, static_cast<std::uint16_t>(after)});
}

void PartMap::erase(std::map<PeerId, ClaimRow>::iterator row) {
  ClaimRow& gone = row->second;
  if (gone.place < claim_news_) exchange(gone.place, --claim_news_);
  exchange(gone.place, order_.size() - 1);
  order_.pop_back();
  claims_.erase(row);
}

void PartMap::exchange(std::size_t one, std::size_t other) {
  std::swap(order_[one], order_[other]);
  order_[one]->place = one;
  order_[other]->place = other;
}

void PartMap::fill(BoundedList<PartPasses, kPartPassesMax>& list) {
  list.clear();
  for (std::uint16_t looks = 0; looks < parts() && news_ > 0; ++looks) {
    Row& row = passes_[next_news_];
    if (row.tell_left > 0) {
      if (!list.try_push({next_news_, row.passes})) return;
      if (--row.tell_left == 0) --news_;
    }
    next_news_ = static_cast<std::uint16_t>((next_news_ + 1) % parts());
  }
  for (std::uint16_t told = 0; told < parts(); ++told) {
    const Row& row = passes_[next_];
    // That nobody has read a part is what everybody assumes.
    if (row.passes > 0 && row.tell_left == 0 && !list.try_push({next_, row.passes})) return;
    next_ = static_cast<std::uint16_t>((next_ + 1) % parts());
  }
}

void PartMap::fill(BoundedList<PartClaim, kPartClaimsMax>& list, PeerId self, Rng& rng,
                   const std::function<bool(const PartClaim&)>& holds) {
  list.clear();
  const auto own = claims_.find(self);
  if (own != claims_.end()) STARLING_ASSERT(list.try_push(own->second.claim));
  const std::size_t looks = std::min(order_.size(), kLooksPerMessage);
  for (std::size_t at = 0; at < looks && !list.full(); ++at) {
    const std::size_t end = at < claim_news_ ? claim_news_ : order_.size();
    exchange(at, at + static_cast<std::size_t>(rng.below(end - at)));
    ClaimRow& row = *order_[at];
    if (row.claim.holder.id == self || !holds(row.claim)) continue;
    STARLING_ASSERT(list.try_push(row.claim));
    if (row.tell_left > 0) --row.tell_left;
  }
  for (std::size_t at = std::min(looks, claim_news_); at-- > 0;) {
    if (order_[at]->tell_left == 0) exchange(at, --claim_news_);
  }
}

}  // namespace starling::gossip
