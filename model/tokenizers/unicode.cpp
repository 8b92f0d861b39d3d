#include "model/tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/assert.h"

namespace starling::model {

namespace {

struct CodeRange {
  char32_t first, last;
};

// Assigned after Unicode 15, which is what utf8proc 2.8 knows.
constexpr CodeRange kNewLetters[] = {
    {0x1c89, 0x1c8a},   {0xa7cb, 0xa7cd},   {0xa7da, 0xa7dc},   {0x105c0, 0x105f3},
    {0x10d4a, 0x10d65}, {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x11380, 0x11389},
    {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113b7},
    {0x113d1, 0x113d1}, {0x113d3, 0x113d3}, {0x11bc0, 0x11be0}, {0x13460, 0x143fa},
    {0x16100, 0x1611d}, {0x16d40, 0x16d6c}, {0x18cff, 0x18cff}, {0x1e5d0, 0x1e5ed},
    {0x1e5f0, 0x1e5f0}, {0x2ebf0, 0x2ee5d},
};
constexpr CodeRange kNewNumbers[] = {
    {0x10d40, 0x10d49}, {0x116d0, 0x116e3}, {0x11bf0, 0x11bf9}, {0x16130, 0x16139},
    {0x16d70, 0x16d79}, {0x1ccf0, 0x1ccf9}, {0x1e5f1, 0x1e5fa},
};

template <std::size_t kCount>
bool holds(const CodeRange (&ranges)[kCount], char32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges), [code](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
}

CharacterClass class_beyond_ascii(char32_t code) {
  if (code > 0x10ffff) return CharacterClass::kOther;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return CharacterClass::kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return CharacterClass::kNumber;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return CharacterClass::kSpace;
    case UTF8PROC_CATEGORY_CC:
      return code == 0x85 ? CharacterClass::kSpace : CharacterClass::kOther;
    case UTF8PROC_CATEGORY_CN:
      if (holds(kNewLetters, code)) return CharacterClass::kLetter;
      return holds(kNewNumbers, code) ? CharacterClass::kNumber : CharacterClass::kOther;
    default: return CharacterClass::kOther;
  }
}

constexpr std::array<CharacterClass, 128> ascii_classes() {
  std::array<CharacterClass, 128> classes{};
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const bool letter = (i >= 'a' && i <= 'z') || (i >= 'A' && i <= 'Z');
    const bool space = i == ' ' || (i >= '\t' && i <= '\r');
    classes[i] = letter                 ? CharacterClass::kLetter
                 : i >= '0' && i <= '9' ? CharacterClass::kNumber
                 : space                ? CharacterClass::kSpace
                                        : CharacterClass::kOther;
  }
  return classes;
}

constexpr std::array<CharacterClass, 128> kAscii = ascii_classes();

// Nothing below is changed by normal form C or joined to what stands before it.
constexpr char32_t kFirstThatJoins = 0x300;

int combining_class(std::int32_t code) {
  return static_cast<int>(utf8proc_get_property(code)->combining_class);
}

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  STARLING_ASSERT(at < text.size());
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < bytes) return {};
  char32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xc0U) != 0x80U) return {};
    code = (code << 6U) | (next & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kSmallest[bytes] || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

std::size_t character_start(std::string_view text, std::size_t at) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(at, 3); ++back) {
    if (character_at(text, at - back).bytes > back) return at - back;
  }
  return at;
}

void append_character(char32_t code, std::string& text) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(count));
}

std::size_t find_invalid(std::string_view text, std::size_t from) {
  while (from < text.size()) {
    const Character character = character_at(text, from);
    if (character.code == kNoCharacter) return from;
    from += character.bytes;
  }
  return text.size();
}

CharacterClass class_of(char32_t code) {
  return code < kAscii.size() ? kAscii[code] : class_beyond_ascii(code);
}

std::string_view NormalFormC::normalize(std::string_view text) {
  normal_.clear();
  std::size_t copied = 0;   // of `text`, into normal_
  std::size_t starter = 0;  // the last character that joins nothing before it
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const bool joins = character.code != kNoCharacter && character.code >= kFirstThatJoins;
    if (!joins) {
      starter = at;
      // A byte that is no character takes no part in anything.
      if (character.code == kNoCharacter) starter = at + 1;
      at += character.bytes;
      continue;
    }
    std::size_t end = at;
    for (Character next = character; next.code != kNoCharacter && next.code >= kFirstThatJoins;) {
      end += next.bytes;
      if (end == text.size()) break;
      next = character_at(text, end);
    }
    normal_.append(text.substr(copied, starter - copied));
    normalize_run(text.substr(starter, end - starter));
    copied = at = starter = end;
  }
  if (copied == 0) return text;
  normal_.append(text.substr(copied));
  return normal_;
}

void NormalFormC::normalize_run(std::string_view run) {
  codes_.clear();
  for (std::size_t at = 0; at < run.size();) {
    const Character character = character_at(run, at);
    at += character.bytes;
    // Hangul syllables have three parts, other characters at most four of them.
    std::array<utf8proc_int32_t, 32> parts{};
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code), parts.data(),
                                parts.size(), UTF8PROC_DECOMPOSE, &boundary);
    STARLING_ASSERT(count > 0);
    STARLING_ASSERT(count <= static_cast<utf8proc_ssize_t>(parts.size()));
    codes_.insert(codes_.end(), parts.begin(), parts.begin() + count);
  }
  // Marks in order of their class; the library's own way takes quadratic time over many of them.
  for (auto first = codes_.begin(); first != codes_.end();) {
    if (combining_class(*first) == 0) {
      ++first;
      continue;
    }
    const auto last = std::find_if(first, codes_.end(),
                                   [](std::int32_t code) { return combining_class(code) == 0; });
    std::stable_sort(first, last, [](std::int32_t left, std::int32_t right) {
      return combining_class(left) < combining_class(right);
    });
    first = last;
  }
  const auto length =
      utf8proc_normalize_utf32(codes_.data(), static_cast<utf8proc_ssize_t>(codes_.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  STARLING_ASSERT(length >= 0);
  for (utf8proc_ssize_t i = 0; i < length; ++i) {
    append_character(static_cast<char32_t>(codes_[static_cast<std::size_t>(i)]), normal_);
  }
}

}  // namespace starling::model
