// AddedTokens: the texts that a tokenizer takes for one token before it looks at anything else:
// markers like "<|endoftext|>", and whatever its makers added later. Found are the leftmost, of
// those the longest. Time at each place is at most the longest text's length times the logarithm
// of their number. Constant after construction; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace starling::model {

struct AddedToken {
  std::string text;  // not empty
  std::int32_t token = 0;
  bool special = false;  // stands for no text
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t first = 0, end = 0;
    const AddedToken* token = nullptr;  // never null in a match
  };
  // The first match that begins at or after `from`.
  std::optional<Match> find(std::string_view text, std::size_t from) const;

  const std::vector<AddedToken>& all() const noexcept { return tokens_; }
  std::size_t longest() const noexcept { return longest_; }  // bytes
  // Null if none has this text.
  const AddedToken* named(std::string_view text) const;
  // Whether one of these texts begins before `at` and ends behind it, found by find() or not: where
  // a match begins depends on those before it.
  bool crosses(std::string_view text, std::size_t at) const;

 private:
  const AddedToken* longest_at(std::string_view text) const;
  std::vector<AddedToken> tokens_;  // by text
  std::array<bool, 256> begins_{};  // whether any text begins with this byte
  std::size_t longest_ = 0;
};

}  // namespace starling::model
