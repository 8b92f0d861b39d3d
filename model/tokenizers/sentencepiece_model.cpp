#include "model/tokenizers/sentencepiece_model.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/assert.h"
#include "base/protobuf.h"
#include "model/tokenizers/tokenizer_json.h"
#include "model/tokenizers/unicode.h"

namespace starling::model {

namespace {

Error fault(std::string message) {
  return Error(ErrorCode::kInvalidConfig, "tokenizer.model: " + std::move(message));
}

// --- protocol buffers, as far as this format needs them ---

enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  std::uint64_t number = 0;
  Wire wire = Wire::kVarint;
  std::uint64_t value = 0;   // of every kind but kBytes
  std::string_view bytes{};  // of kBytes
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  // Nothing at the end, or where the message is broken.
  std::optional<Field> next() {
    if (rest_.empty() || broken_) return std::nullopt;
    Field field;
    const std::uint64_t tag = varint();
    field.number = tag >> 3;
    field.wire = static_cast<Wire>(tag & 7);
    switch (field.wire) {
      case Wire::kVarint: field.value = varint(); break;
      case Wire::kFixed64: field.value = fixed(8); break;
      case Wire::kFixed32: field.value = fixed(4); break;
      case Wire::kBytes: field.bytes = take(varint()); break;
      default: broken_ = true;
    }
    if (field.number == 0) broken_ = true;
    return broken_ ? std::nullopt : std::optional(field);
  }

  bool broken() const noexcept { return broken_; }

 private:
  std::string_view take(std::uint64_t bytes) {
    if (bytes > rest_.size()) {
      broken_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (byte.empty()) return 0;
      const auto bits = static_cast<unsigned char>(byte[0]);
      value |= std::uint64_t{bits & 0x7fU} << shift;
      if (bits < 0x80) return value;
    }
    broken_ = true;
    return 0;
  }

  std::uint64_t fixed(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::string_view taken = take(bytes);
    for (std::size_t i = 0; i < taken.size(); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    }
    return value;
  }

  std::string_view rest_;
  bool broken_ = false;
};

// Gives each field of `message` to `use`, which returns a Status.
template <class Use>
Status each_field(std::string_view message, Use use) {
  FieldReader reader(message);
  while (const auto field = reader.next()) {
    if (Status used = use(*field); !used.ok()) return used;
  }
  if (!reader.broken()) return ok_status();
  return fault("broken or cut short, or no SentencePiece model at all");
}

// --- the parts of the file ---

Status read_piece(std::string_view message, SentencePieceModel& model) {
  if (model.pieces.size() == kVocabularyMax) {
    return fault(fmt::format("more than {} pieces", kVocabularyMax));
  }
  Piece piece;
  Status read = each_field(message, [&](const Field& field) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) {
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
    }
    // The format lets readers pass over kinds that they do not know; such a piece is a normal one.
    if (field.number == 3 && field.value >= 1 && field.value <= 6) {
      piece.kind = static_cast<PieceKind>(field.value);
    }
    return ok_status();
  });
  if (!read.ok()) return read;
  const std::string_view text = piece.text;
  const std::size_t number = model.pieces.size();
  if (text.empty() || text.size() > kPieceBytesMax) {
    return fault(fmt::format("piece {} has {} bytes: 1 to {} are read", number, text.size(),
                             kPieceBytesMax));
  }
  if (find_invalid(text) < text.size() || text.find('\0') != std::string_view::npos) {
    return fault(fmt::format("piece {} is no UTF-8, or holds a zero", number));
  }
  if (!std::isfinite(piece.score)) return fault(fmt::format("piece {} has no score", number));
  model.pieces.push_back(std::move(piece));
  return ok_status();
}

Status read_trainer(std::string_view message, SentencePieceModel& model) {
  return each_field(message, [&](const Field& field) {
    switch (field.number) {
      case 3:
        if (field.value != 1 && field.value != 2) {
          return Status(fault(
              "its type is neither unigram nor bpe (those split words or single characters)"));
        }
        model.algorithm = static_cast<SentencePieceModel::Algorithm>(field.value);
        break;
      case 24:
        if (field.value != 0) {
          return Status(fault("treat_whitespace_as_suffix is on, which is not read"));
        }
        break;
      case 35: model.byte_fallback = field.value != 0; break;
      case 44: model.unknown_text = field.bytes; break;
      case 46: model.begin_name = field.bytes; break;
      case 47: model.end_name = field.bytes; break;
      default: break;
    }
    return ok_status();
  });
}

Status read_normalizer(std::string_view message, SentencePieceModel& model) {
  return each_field(message, [&](const Field& field) {
    switch (field.number) {
      case 2: model.character_map = field.bytes; break;
      case 3: model.space_before_text = field.value != 0; break;
      case 4: model.joins_spaces = field.value != 0; break;
      case 5:
        if (field.value == 0) {
          return Status(fault("escape_whitespaces is off, which is not read"));
        }
        break;
      default: break;
    }
    return ok_status();
  });
}

Status check_denormalizer(std::string_view message) {
  return each_field(message, [&](const Field& field) {
    if (field.number == 2 && !field.bytes.empty()) {
      return Status(
          fault("it changes the text that it decodes (denormalizer_spec), which is not "
                "done here"));
    }
    return ok_status();
  });
}

Status check_pieces(const SentencePieceModel& model) {
  std::array<bool, 256> bytes{};
  std::size_t unknown = 0, byte_count = 0;
  // As in the library, a name may stand once among what is looked for in texts, and once among the
  // rest.
  std::array<std::unordered_set<std::string_view>, 2> names;
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const bool special = piece.kind == PieceKind::kUnknown || piece.kind == PieceKind::kControl ||
                         piece.kind == PieceKind::kByte;
    if (!names[special ? 1 : 0].insert(piece.text).second) {
      return fault(fmt::format("piece {} is there twice", i));
    }
    unknown += piece.kind == PieceKind::kUnknown ? 1 : 0;
    if (piece.kind != PieceKind::kByte) continue;
    const int byte = byte_of_piece(piece.text);
    if (byte < 0) return fault(fmt::format("piece {} is of a byte, but names none", i));
    bytes[static_cast<std::size_t>(byte)] = true;
    ++byte_count;
  }
  if (unknown != 1) return fault(fmt::format("{} pieces for what is unknown, not one", unknown));
  for (const bool there : bytes) {
    if (model.byte_fallback && !there) return fault("byte_fallback is on, but bytes are missing");
  }
  if (!model.byte_fallback && byte_count > 0) return fault("bytes, but byte_fallback is off");
  return ok_status();
}

}  // namespace

std::string with_spaces(std::string_view text) {
  std::string spaced;
  for (std::size_t at = 0; at < text.size();) {
    const bool space = text.substr(at).starts_with(kPieceSpace);
    spaced += space ? ' ' : text[at];
    at += space ? kPieceSpace.size() : 1;
  }
  return spaced;
}

int byte_of_piece(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const std::size_t high = kDigits.find(text[3]);
  const std::size_t low = kDigits.find(text[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return -1;
  return static_cast<int>(high * 16 + low);
}

Result<SentencePieceModel> read_sentencepiece_model(std::string_view file) {
  if (file.size() > kTokenizerModelBytesMax) {
    return fault(
        fmt::format("{} bytes; at most {} are read", file.size(), kTokenizerModelBytesMax));
  }
  SentencePieceModel model;
  Status read = each_field(file, [&](const Field& field) {
    switch (field.number) {
      case 1: return read_piece(field.bytes, model);
      case 2: return read_trainer(field.bytes, model);
      case 3: return read_normalizer(field.bytes, model);
      case 5: return check_denormalizer(field.bytes);
      default: return ok_status();
    }
  });
  if (!read.ok()) return std::move(read).error();
  if (model.pieces.empty()) return fault("it has no pieces: no SentencePiece model");
  Status checked = check_pieces(model);
  if (!checked.ok()) return std::move(checked).error();
  return model;
}

std::string segmentation_file(const SentencePieceModel& model) {
  std::string out, message;
  const bool bpe = model.algorithm == SentencePieceModel::Algorithm::kBpe;
  for (const Piece& piece : model.pieces) {
    const bool found_before = bpe && piece.kind == PieceKind::kUserDefined;
    message.clear();
    protobuf::append_bytes(1, piece.text, message);
    protobuf::append_float(2, piece.score, message);
    protobuf::append_number(
        3, static_cast<std::uint64_t>(found_before ? PieceKind::kControl : piece.kind), message);
    protobuf::append_bytes(1, message, out);
  }
  message.clear();
  protobuf::append_number(3, static_cast<std::uint64_t>(model.algorithm), message);
  protobuf::append_number(35, model.byte_fallback ? 1 : 0, message);
  protobuf::append_bytes(2, message, out);
  message.clear();
  protobuf::append_number(3, 0, message);
  protobuf::append_number(4, 0, message);
  protobuf::append_bytes(3, message, out);
  return out;
}

}  // namespace starling::model
