#include "model/tokenizers/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace starling::model {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& left, const AddedToken& right) { return left.text < right.text; });
  for (const AddedToken& token : tokens_) {
    STARLING_ASSERT(!token.text.empty());
    begins_[static_cast<unsigned char>(token.text.front())] = true;
    longest_ = std::max(longest_, token.text.size());
  }
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    const AddedToken* token = longest_at(text.substr(at));
    if (token != nullptr) return Match{at, at + token->text.size(), token};
  }
  return std::nullopt;
}

const AddedToken* AddedTokens::named(std::string_view text) const {
  const auto found = std::find_if(tokens_.begin(), tokens_.end(),
                                  [text](const AddedToken& token) { return token.text == text; });
  return found == tokens_.end() ? nullptr : &*found;
}

bool AddedTokens::crosses(std::string_view text, std::size_t at) const {
  for (std::size_t first = at - std::min(at, longest_); first < at; ++first) {
    if (!begins_[static_cast<unsigned char>(text[first])]) continue;
    const AddedToken* token = longest_at(text.substr(first));
    if (token != nullptr && first + token->text.size() > at) return true;
  }
  return false;
}

// Narrows the sorted texts down to those that agree with ever more of `text`.
const AddedToken* AddedTokens::longest_at(std::string_view text) const {
  const AddedToken* longest = nullptr;
  auto first = tokens_.begin();
  auto last = tokens_.end();
  for (std::size_t i = 0; i < text.size() && first != last; ++i) {
    // A text that ends here sorts before all that go on.
    const auto at = [i](const AddedToken& token) {
      return i < token.text.size() ? static_cast<unsigned char>(token.text[i]) : -1;
    };
    const int byte = static_cast<unsigned char>(text[i]);
    first = std::partition_point(first, last,
                                 [&](const AddedToken& token) { return at(token) < byte; });
    last = std::partition_point(first, last,
                                [&](const AddedToken& token) { return at(token) <= byte; });
    if (first != last && first->text.size() == i + 1) longest = &*first;
  }
  return longest;
}

}  // namespace starling::model
