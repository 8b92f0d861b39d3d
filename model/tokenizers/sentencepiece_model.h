// SentencePieceModel: what a SentencePiece model file (tokenizer.model) says, read and checked
// before the library sees any of it: the library trusts its files, and these are of strangers.
//
// Errors name what is wrong and what is read. Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::model {

inline constexpr std::size_t kTokenizerModelBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kPieceBytesMax = 512;
// How a piece writes a space: U+2581.
inline constexpr std::string_view kPieceSpace = "\xe2\x96\x81";

// The numbers are those of the format.
enum class PieceKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Piece {
  std::string text{};  // UTF-8 without zeros, not empty; kPieceSpace for spaces
  float score = 0;     // finite
  PieceKind kind = PieceKind::kNormal;
};

struct SentencePieceModel {
  // The numbers are those of the format.
  enum class Algorithm : std::uint8_t { kUnigram = 1, kBpe = 2 };

  Algorithm algorithm = Algorithm::kUnigram;
  std::vector<Piece> pieces{};  // exactly one kUnknown; all 256 kByte or none
  bool byte_fallback = false;
  bool space_before_text = true;  // the format's add_dummy_prefix
  bool joins_spaces = true;       // the format's remove_extra_whitespaces
  std::string begin_name = "<s>", end_name = "</s>";
  std::string unknown_text = " \xe2\x81\x87 ";
  std::string character_map{};  // for character_map.h
};

Result<SentencePieceModel> read_sentencepiece_model(std::string_view file);

// The text of a piece, with spaces for kPieceSpace.
std::string with_spaces(std::string_view text);

// The byte of a piece of kind kByte ("<0x0A>"); -1 if it is written otherwise.
int byte_of_piece(std::string_view text);

// A model file for the library's segmentation alone: no normalization, and BPE does not look for
// user-defined pieces.
std::string segmentation_file(const SentencePieceModel& model);

}  // namespace starling::model
