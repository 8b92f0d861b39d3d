// WordCache: the tokens of words met before. Text repeats its words, and cutting one up costs far
// more than a look here.
//
// A table where each word has one place, and the latest that falls there stays. Words and lists of
// tokens that are too long for a place are not kept. It starts small, for short texts, and grows,
// empty, up to 4 MiB. Thread: one owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace starling::model {

class WordCache {
 public:
  static constexpr std::size_t kWordBytesMax = 30;
  static constexpr std::size_t kTokensMax = 8;

  // Empty: not known. Valid until the next put().
  std::span<const std::int32_t> find(std::string_view word) const {
    if (word.empty() || word.size() > kWordBytesMax) return {};
    const Row& row = rows_[place_of(word)];
    if (std::string_view(row.word.data(), row.bytes) != word) return {};
    return std::span(row.tokens).first(row.count);
  }

  void put(std::string_view word, std::span<const std::int32_t> tokens) {
    if (word.empty() || word.size() > kWordBytesMax || tokens.size() > kTokensMax) return;
    if (++puts_ > rows_.size() && rows_.size() < kRowsMax) {
      rows_.assign(2 * rows_.size(), Row{});
      puts_ = 0;
    }
    Row& row = rows_[place_of(word)];
    row.bytes = static_cast<std::uint8_t>(word.size());
    row.count = static_cast<std::uint8_t>(tokens.size());
    std::copy(word.begin(), word.end(), row.word.begin());
    std::copy(tokens.begin(), tokens.end(), row.tokens.begin());
  }

 private:
  static constexpr std::size_t kRowsMin = std::size_t{1} << 8, kRowsMax = std::size_t{1} << 16;

  struct alignas(64) Row {  // a line of the processor's cache
    std::array<char, kWordBytesMax> word;
    std::uint8_t bytes = 0, count = 0;
    std::array<std::int32_t, kTokensMax> tokens;
  };
  static_assert(sizeof(Row) == 64);

  std::size_t place_of(std::string_view word) const {
    return digest(word) & (rows_.size() - 1);  // a power of two
  }

  std::vector<Row> rows_ = std::vector<Row>(kRowsMin);
  std::size_t puts_ = 0;  // since it grew
};

}  // namespace starling::model
