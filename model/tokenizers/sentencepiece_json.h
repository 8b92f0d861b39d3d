// A SentencePiece model as Hugging Face's tokenizer.json, for those who open a model without the
// SentencePiece library, or with a version of `transformers` that reads any tokenizer.model as
// BPE. Its tokens are those of the model but for what the format cannot say: control pieces ("<s>")
// in a text become those tokens, U+2581 a space, and "<0x41>" a byte to a unigram model that knows
// no "<", and to BPE where it is all there is between two user-defined pieces. User-defined pieces
// that normalization would change cut the text, and spaces beside them may be lost or put in. Of
// two ways that a unigram model finds equally likely either may be taken.
//
// A pure function of a model that read_sentencepiece_model() has checked.
#pragma once

#include <string>

#include "model/tokenizers/sentencepiece_model.h"

namespace starling::model {

// The piece `begin_name`, where the model has it, is put before every text.
std::string sentencepiece_json(const SentencePieceModel& model);

}  // namespace starling::model
