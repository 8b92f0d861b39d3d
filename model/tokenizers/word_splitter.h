// Cuts a text into words as the regular expressions of the known byte-level tokenizers do; merges
// never cross words. Written by hand, which is exact and needs no library:
//
//   kGpt2   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   kLlama3 (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//           ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   kQwen2  the same with \p{N} instead of \p{N}{1,3}
//   kWhole  none: all of a text is one word
//
// A byte that is no UTF-8 is neither a letter nor a number nor white space. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace starling::model {

enum class WordPattern : std::uint8_t { kGpt2, kLlama3, kQwen2, kWhole };

// The pattern that a tokenizer's file writes as `regex`, character by character.
std::optional<WordPattern> word_pattern(std::string_view regex);

// Where the word that begins at `at`, inside the text, ends. Linear over a text in all.
std::size_t word_end(std::string_view text, std::size_t at, WordPattern pattern);

// Tokenizer::cut() as far as words go. Of all patterns but kWhole: no word has a space after its
// beginning, unless all before it is white space, or goes on after a lone line feed.
std::size_t word_cut(std::string_view text, WordPattern pattern);

}  // namespace starling::model
