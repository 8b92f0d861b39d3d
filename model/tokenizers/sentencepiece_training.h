// Makes a SentencePiece model of text. What it makes never loses text: nothing is normalized, no
// space is added or taken away, and what is not in the vocabulary is encoded as bytes. No space is
// put before a text either: texts here are books and documents, not sentences, and so decoding is
// the plain inverse of encoding. Tokens 0, 1 and 2 are <unk>, <s> and </s>, as in Llama's; digits
// are tokens of their own. The same sentences give the same file, on any number of processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "model/tokenizers/sentencepiece_model.h"

namespace starling::model {

// A sentence is a line without its end, or a part of one.
inline constexpr std::size_t kSentenceBytesMax = 4096;
// 256 bytes, the three above, and room for characters.
inline constexpr std::int32_t kTrainedVocabularyMin = 300;

struct TokenizerTraining {
  SentencePieceModel::Algorithm algorithm = SentencePieceModel::Algorithm::kUnigram;
  std::int32_t vocabulary = 32'000;
};

// The model file. A vocabulary that the text cannot fill, or that has no room for its characters,
// is an error that names one that works. Blocking, minutes long for much text; starts threads of
// its own.
Result<std::string> train_sentencepiece(std::span<const std::string> sentences,
                                        const TokenizerTraining& training);

}  // namespace starling::model
