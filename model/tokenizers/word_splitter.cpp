#include "model/tokenizers/word_splitter.h"

#include <array>
#include <utility>

#include "base/assert.h"
#include "model/tokenizers/unicode.h"

namespace starling::model {

namespace {

constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// A character, its class and where the next one begins.
struct Seen {
  char32_t code = 0;
  CharacterClass kind = CharacterClass::kOther;
  std::size_t end = 0;
};

Seen look(std::string_view text, std::size_t at) {
  const Character character = character_at(text, at);
  return {character.code, class_of(character.code), at + character.bytes};
}

bool is_line_end(char32_t code) { return code == '\r' || code == '\n'; }

// The end of all characters of one class from `at` on.
std::size_t run_end(std::string_view text, std::size_t at, CharacterClass kind) {
  while (at < text.size()) {
    const Seen next = look(text, at);
    if (next.kind != kind) break;
    at = next.end;
  }
  return at;
}

// ASCII folds to lower case, and so does the long s.
char folded(char32_t code) {
  if (code == 0x17f) return 's';
  if (code >= 'A' && code <= 'Z') return static_cast<char>(code - 'A' + 'a');
  return code < 0x80 ? static_cast<char>(code) : '\0';
}

// The end of 's, 't, 're, 've, 'm, 'll or 'd at the apostrophe `at`; `at` if none stands there.
std::size_t contraction_end(std::string_view text, std::size_t at, bool any_case) {
  constexpr std::string_view kEndings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
  for (const std::string_view ending : kEndings) {
    std::size_t end = at + 1;
    std::size_t matched = 0;
    while (matched < ending.size() && end < text.size()) {
      const Character next = character_at(text, end);
      const bool same = any_case ? folded(next.code) == ending[matched]
                                 : next.code == static_cast<char32_t>(ending[matched]);
      if (!same) break;
      end += next.bytes;
      ++matched;
    }
    if (matched == ending.size()) return end;
  }
  return at;
}

// The end of white space that begins at `at`: \s*[\r\n]+ where `lines`, then \s+(?!\S), then \s+.
std::size_t space_end(std::string_view text, std::size_t at, bool lines) {
  std::size_t end = at;         // of all of it
  std::size_t last = at;        // where its last character begins
  std::size_t after_line = at;  // behind its last line end
  while (end < text.size()) {
    const Seen next = look(text, end);
    if (next.kind != CharacterClass::kSpace) break;
    last = end;
    end = next.end;
    if (is_line_end(next.code)) after_line = end;
  }
  if (lines && after_line > at) return after_line;
  // The last one is left to the word behind it, unless it is all there is.
  return end == text.size() || last == at ? end : last;
}

std::size_t gpt2_end(std::string_view text, std::size_t at) {
  const Seen first = look(text, at);
  if (first.code == '\'') {
    const std::size_t end = contraction_end(text, at, false);
    if (end > at) return end;
  }
  if (first.kind != CharacterClass::kSpace) return run_end(text, first.end, first.kind);
  if (first.code == ' ' && first.end < text.size()) {
    const Seen second = look(text, first.end);
    if (second.kind != CharacterClass::kSpace) return run_end(text, second.end, second.kind);
  }
  return space_end(text, at, false);
}

std::size_t numbers_end(std::string_view text, std::size_t at, int numbers_max) {
  for (int i = 0; i < numbers_max && at < text.size(); ++i) {
    const Seen next = look(text, at);
    if (next.kind != CharacterClass::kNumber) break;
    at = next.end;
  }
  return at;
}

// [^\s\p{L}\p{N}]+[\r\n]*, whose first character ends at `at`.
std::size_t others_end(std::string_view text, std::size_t at) {
  at = run_end(text, at, CharacterClass::kOther);
  while (at < text.size() && is_line_end(static_cast<unsigned char>(text[at]))) ++at;
  return at;
}

std::size_t llama_end(std::string_view text, std::size_t at, int numbers_max) {
  const Seen first = look(text, at);
  if (first.code == '\'') {
    const std::size_t end = contraction_end(text, at, true);
    if (end > at) return end;
  }
  if (first.kind == CharacterClass::kLetter) return run_end(text, first.end, first.kind);
  if (first.kind == CharacterClass::kNumber) return numbers_end(text, at, numbers_max);
  if (first.end < text.size() && !is_line_end(first.code)) {
    const Seen second = look(text, first.end);
    if (second.kind == CharacterClass::kLetter) return run_end(text, second.end, second.kind);
    if (first.code == ' ' && second.kind == CharacterClass::kOther) {
      return others_end(text, second.end);
    }
  }
  if (first.kind == CharacterClass::kOther) return others_end(text, first.end);
  return space_end(text, at, true);
}

// Whether a whole character that is no white space stands at `at`; half a one may become any.
bool word_after(std::string_view text, std::size_t at) {
  const Seen next = look(text, at);
  return next.code != kNoCharacter && next.kind != CharacterClass::kSpace;
}

// Whether white space, or nothing, stands before `at`.
bool space_before(std::string_view text, std::size_t at) {
  const std::size_t from = at < 4 ? 0 : at - 4;
  for (std::size_t begin = from; begin < at; ++begin) {
    const Character character = character_at(text, begin);
    if (character.code == kNoCharacter || begin + character.bytes != at) continue;
    return class_of(character.code) == CharacterClass::kSpace;
  }
  return at == 0;
}

}  // namespace

std::optional<WordPattern> word_pattern(std::string_view regex) {
  constexpr std::array<std::pair<std::string_view, WordPattern>, 3> kPatterns = {
      {{kGpt2Regex, WordPattern::kGpt2},
       {kLlama3Regex, WordPattern::kLlama3},
       {kQwen2Regex, WordPattern::kQwen2}}};
  for (const auto& [known, pattern] : kPatterns) {
    if (regex == known) return pattern;
  }
  return std::nullopt;
}

std::size_t word_end(std::string_view text, std::size_t at, WordPattern pattern) {
  STARLING_ASSERT(at < text.size());
  switch (pattern) {
    case WordPattern::kGpt2: return gpt2_end(text, at);
    case WordPattern::kLlama3: return llama_end(text, at, 3);
    case WordPattern::kQwen2: return llama_end(text, at, 1);
    case WordPattern::kWhole: return text.size();
  }
  return text.size();
}

std::size_t word_cut(std::string_view text, WordPattern pattern) {
  if (pattern == WordPattern::kWhole) return 0;
  for (std::size_t at = text.size(); at > 1; --at) {
    // Before a space behind something else.
    const std::size_t before = at - 1;
    if (text[before] == ' ' && !space_before(text, before)) return before;
    // Behind a line feed with something else on both sides.
    if (text[before] == '\n' && at < text.size() && !space_before(text, before) &&
        word_after(text, at)) {
      return at;
    }
  }
  return 0;
}

}  // namespace starling::model
