// Reads a Hugging Face tokenizer.json with byte-level byte pair encoding: those of GPT-2, Llama 3
// and Qwen 2 and 3, and others that are made of the same pieces.
//
//   model           BPE without dropout, prefixes and suffixes; every byte has a token;
//                   merges as "a b" or ["a", "b"]; with or without ignore_merges
//   normalizer      none or NFC
//   pre_tokenizer   ByteLevel with its own pattern or none, or a Sequence of Split and ByteLevel
//                   with a pattern of word_splitter.h; no space is put before the text
//   added_tokens    without lstrip, rstrip and single_word
//   decoder         ByteLevel
//
// Of post_processor only the token that begins a text is taken. Truncation and padding are not for
// us. Whatever else changes the tokens is an error that names the field and what is read. The text
// may be hostile: sizes, numbers and names are checked, and some 200 MB is the most that they cost
// beside the text as JSON, which takes up to nine times its size.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/tokenizers/tokenizer.h"

namespace starling::model {

inline constexpr std::size_t kTokenizerJsonBytesMax = std::size_t{64} << 20;
inline constexpr std::int32_t kVocabularyMax = 1 << 20;
inline constexpr std::size_t kMergesMax = std::size_t{4} * kVocabularyMax;  // Llama 3: 2 a token
inline constexpr std::size_t kAddedTokenBytesMax = 256;

// Its name is "bpe-" and the digest of `text`. The end of a document is a special token of one of
// the usual names: <|endoftext|>, <|end_of_text|>, </s>, <|eos|>, <eos>.
Result<std::unique_ptr<Tokenizer>> read_tokenizer_json(std::string_view text);

}  // namespace starling::model
