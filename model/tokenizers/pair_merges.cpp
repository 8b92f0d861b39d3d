#include "model/tokenizers/pair_merges.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "base/hash.h"

namespace starling::model {

namespace {

// One of all words a text repeats is most often here; fits into a second-level cache.
constexpr std::size_t kCacheWords = std::size_t{1} << 14;

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(left) << 32U) | static_cast<std::uint32_t>(right);
}

}  // namespace

PairMerges::PairMerges(const ByteTokens& bytes, std::size_t rules_expected)
    : bytes_(bytes), slots_(std::bit_ceil(2 * rules_expected + 2)) {}

std::size_t PairMerges::place_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = ((pair * 0x9e3779b97f4a7c15U) >> 29U) & mask;
  while (slots_[place].pair != pair && slots_[place].pair != kEmpty) place = (place + 1) & mask;
  return place;
}

void PairMerges::add(std::int32_t left, std::int32_t right, PairRule rule) {
  STARLING_ASSERT(left >= 0);
  STARLING_ASSERT(right >= 0);
  const std::uint64_t pair = pair_of(left, right);
  slots_[place_of(pair)] = {pair, rule};
}

const PairRule* PairMerges::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  const Slot& slot = slots_[place_of(pair)];
  return slot.pair == pair ? &slot.rule : nullptr;
}

PairMerger::PairMerger(const PairMerges& merges) : merges_(&merges), cache_(kCacheWords) {}

void PairMerger::encode(std::string_view word, std::vector<std::int32_t>& tokens) {
  if (word.empty()) return;
  if (word.size() > CachedWord::kBytesMax) {
    merge(word, tokens);
    return;
  }
  CachedWord& cached = cache_[digest(word) % kCacheWords];
  if (std::string_view(cached.text.data(), cached.bytes) == word) {
    tokens.insert(tokens.end(), cached.tokens.begin(), cached.tokens.begin() + cached.count);
    return;
  }
  const std::size_t first = tokens.size();
  merge(word, tokens);
  const std::size_t count = tokens.size() - first;
  if (count > CachedWord::kTokensMax) return;
  std::copy(word.begin(), word.end(), cached.text.begin());
  cached.bytes = static_cast<std::uint8_t>(word.size());
  std::copy_n(tokens.end() - static_cast<std::ptrdiff_t>(count), count, cached.tokens.begin());
  cached.count = static_cast<std::uint8_t>(count);
}

namespace {

// The top of the heap is the pair of least rank, of those the leftmost.
constexpr auto kLater = [](const auto& left, const auto& right) {
  if (left.rule.rank != right.rule.rank) return left.rule.rank > right.rule.rank;
  return left.at > right.at;
};

}  // namespace

void PairMerger::merge(std::string_view word, std::vector<std::int32_t>& tokens) {
  STARLING_ASSERT(word.size() < (std::size_t{1} << 31U));
  symbols_.resize(word.size());
  candidates_.clear();
  const auto count = static_cast<std::int32_t>(word.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    symbols_[at] = {
        .token = merges_->token_of(word[at]), .before = i - 1, .after = i + 1 < count ? i + 1 : -1};
  }
  for (std::int32_t i = 0; i + 1 < count; ++i) propose(i);
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end(), kLater);
    const Candidate best = candidates_.back();
    candidates_.pop_back();
    apply(best);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols_[static_cast<std::size_t>(i)].after) {
    tokens.push_back(symbols_[static_cast<std::size_t>(i)].token);
  }
}

// The pair of `at` and its right neighbour.
void PairMerger::propose(std::int32_t at) {
  const Symbol& left = symbols_[static_cast<std::size_t>(at)];
  if (left.after < 0) return;
  const PairRule* rule =
      merges_->find(left.token, symbols_[static_cast<std::size_t>(left.after)].token);
  if (rule == nullptr) return;
  candidates_.push_back({*rule, at});
  std::push_heap(candidates_.begin(), candidates_.end(), kLater);
}

void PairMerger::apply(const Candidate& candidate) {
  Symbol& left = symbols_[static_cast<std::size_t>(candidate.at)];
  if (left.gone || left.after < 0) return;
  Symbol& right = symbols_[static_cast<std::size_t>(left.after)];
  // Either may have become another since. As in the reference, only the outcome must be the same.
  const PairRule* rule = merges_->find(left.token, right.token);
  if (rule == nullptr || rule->merged != candidate.rule.merged) return;
  left.token = candidate.rule.merged;
  left.after = right.after;
  right.gone = true;
  if (left.after >= 0) symbols_[static_cast<std::size_t>(left.after)].before = candidate.at;
  propose(candidate.at);
  if (left.before >= 0) propose(left.before);
}

}  // namespace starling::model
