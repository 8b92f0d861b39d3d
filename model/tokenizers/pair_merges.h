// Byte pair encoding of one word: the rule of least rank is applied, the leftmost first, until none
// fits. A word of n bytes takes O(n log n), whatever it holds.
//
// PairMerges is the table of rules; any thread may read it. PairMerger applies it, keeps scratch
// memory and a cache of short words, and belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace starling::model {

// What two neighbours become.
struct PairRule {
  std::int32_t rank = 0;  // the smaller, the sooner
  std::int32_t merged = -1;
};

class PairMerges {
 public:
  // Of each byte, its token.
  using ByteTokens = std::array<std::int32_t, 256>;

  PairMerges(const ByteTokens& bytes, std::size_t rules_expected);

  // A later rule for the same pair replaces the one before.
  void add(std::int32_t left, std::int32_t right, PairRule rule);

  // Null if the two do not merge.
  const PairRule* find(std::int32_t left, std::int32_t right) const;
  std::int32_t token_of(char byte) const { return bytes_[static_cast<unsigned char>(byte)]; }

 private:
  struct Slot {
    std::uint64_t pair = kEmpty;
    PairRule rule{};
  };
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no pair: tokens are not negative
  std::size_t place_of(std::uint64_t pair) const;

  ByteTokens bytes_;
  std::vector<Slot> slots_;  // a power of two, at most half of them taken
};

class PairMerger {
 public:
  explicit PairMerger(const PairMerges& merges);

  // Appends the tokens of `word`.
  void encode(std::string_view word, std::vector<std::int32_t>& tokens);

 private:
  struct Symbol {
    std::int32_t token = 0;
    std::int32_t before = -1, after = -1;  // neighbours; -1: none
    bool gone = false;                     // merged into the one before
  };
  struct Candidate {
    PairRule rule{};
    std::int32_t at = 0;  // the left one of the pair
  };
  struct CachedWord {
    static constexpr std::size_t kBytesMax = 30;
    static constexpr std::size_t kTokensMax = 8;
    std::array<char, kBytesMax> text{};
    std::uint8_t bytes = 0;  // 0: empty
    std::uint8_t count = 0;
    std::array<std::int32_t, kTokensMax> tokens{};
  };
  static_assert(sizeof(CachedWord) == 64);

  void merge(std::string_view word, std::vector<std::int32_t>& tokens);
  void propose(std::int32_t at);
  void apply(const Candidate& candidate);

  const PairMerges* merges_;  // never null
  std::vector<CachedWord> cache_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;  // a heap
};

}  // namespace starling::model
