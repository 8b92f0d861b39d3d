// Parts of the tokenizers, on cases small enough to be done by hand.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/tokenizers/added_tokens.h"
#include "model/tokenizers/byte_alphabet.h"
#include "model/tokenizers/pair_merges.h"
#include "model/tokenizers/unicode.h"
#include "model/tokenizers/word_splitter.h"

namespace starling::model {

namespace {

std::vector<std::string> words(std::string_view text, WordPattern pattern) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(text, at, pattern);
    REQUIRE(end > at);
    found.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return found;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("characters are those of UTF-8, and every other byte is one of its own") {
  CHECK(character_at("a", 0).code == 'a');
  CHECK(character_at("\xf0\x9f\x99\x82", 0).code == 0x1f642);
  // Cut short, overlong, a surrogate, beyond Unicode, a lone continuation.
  for (const std::string text : {"\xf0\x9f\x99", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80", "\x80", "\xff"}) {
    CAPTURE(text);
    CHECK(character_at(text, 0).code == kNoCharacter);
    CHECK(character_at(text, 0).bytes == 1);
    CHECK(find_invalid("ab" + text) == 2);
  }
  CHECK(find_invalid("h\xc3\xa9") == 3);
  CHECK(find_invalid("\xff\xff", 1) == 1);
  CHECK(class_of(kNoCharacter) == CharacterClass::kOther);
  CHECK(class_of(0x180e) == CharacterClass::kOther);  // was white space until Unicode 6.3
  CHECK(class_of(0x85) == CharacterClass::kSpace);
  CHECK(class_of(0x2ebf0) == CharacterClass::kLetter);  // since Unicode 15.1
}

TEST_CASE("a place inside a character is traced back to where it begins") {
  const std::string text = "a\xc3\xa9\xf0\x9f\x99\x82\x82";
  const std::vector<std::size_t> starts = {0, 1, 1, 3, 3, 3, 3, 7, 8};
  for (std::size_t at = 0; at <= text.size(); ++at) {
    CAPTURE(at);
    CHECK(character_start(text, at) == starts[at]);
  }
  CHECK(character_start("\xf0\x9f\x99", 2) == 2);  // cut short
  CHECK(character_start("", 0) == 0);
}

TEST_CASE("normal form C composes, orders marks, and leaves bytes alone that are no characters") {
  NormalFormC form;
  CHECK(form.normalize("plain") == "plain");
  CHECK(form.normalize("e\xcc\x81") == "\xc3\xa9");
  // U+0301 and U+0327 in both orders; the cedilla comes first, and joins the e.
  CHECK(form.normalize("e\xcc\x81\xcc\xa7") == form.normalize("e\xcc\xa7\xcc\x81"));
  CHECK(form.normalize("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8") == "\xea\xb0\x81");
  CHECK(form.normalize("e\xff\xcc\x81") == "e\xff\xcc\x81");
  CHECK(form.normalize("x\xcc\x81 y e\xcc\x81z") == "x\xcc\x81 y \xc3\xa9z");
}

TEST_CASE("the alphabet writes every byte as one character and back") {
  for (int byte = 0; byte < 256; ++byte) {
    std::string name;
    append_character(alphabet_character(static_cast<unsigned char>(byte)), name);
    CHECK(bytes_in_alphabet(name) == std::string(1, static_cast<char>(byte)));
  }
  CHECK(bytes_in_alphabet("\xc4\xa0the") == " the");  // U+0120
  CHECK(!bytes_in_alphabet("a b").has_value());
  CHECK(!bytes_in_alphabet("\xff").has_value());
}

TEST_CASE("words end where the patterns say") {
  CHECK(words("I'll go, 1234 \n  x", WordPattern::kGpt2) ==
        Words{"I", "'ll", " go", ",", " 1234", " \n ", " x"});
  CHECK(words("I'LL go, 1234 \n  x", WordPattern::kLlama3) ==
        Words{"I", "'LL", " go", ",", " ", "123", "4", " \n", " ", " x"});
  CHECK(words("12.\n\nx", WordPattern::kQwen2) == Words{"1", "2", ".\n\n", "x"});
  // The long s is an s in another case.
  CHECK(words("it'\xc5\xbfx", WordPattern::kQwen2) == Words{"it", "'\xc5\xbf", "x"});
  CHECK(words("it'\xc5\xbfx", WordPattern::kGpt2) == Words{"it", "'", "\xc5\xbfx"});
  CHECK(words("\xff\xff z", WordPattern::kLlama3) == Words{"\xff\xff", " z"});
}

TEST_CASE("the rule of least rank goes first, of equal ones the leftmost") {
  PairMerges::ByteTokens bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::int32_t>(i);
  PairMerges merges(bytes, 3);
  merges.add('b', 'c', {0, 300});
  merges.add('a', 'b', {1, 301});
  merges.add('a', 'a', {2, 302});
  PairMerger merger(merges);
  const auto tokens = [&merger](std::string_view word) {
    std::vector<std::int32_t> found;
    merger.encode(word, found);
    return found;
  };
  using Tokens = std::vector<std::int32_t>;
  for (int i = 0; i < 2; ++i) {  // the second time from the cache
    CHECK(tokens("abc") == Tokens{'a', 300});
    CHECK(tokens("ab") == Tokens{301});
    CHECK(tokens("aaa") == Tokens{302, 'a'});
    CHECK(tokens("").empty());
  }
  CHECK(tokens(std::string(1000, 'a')) == Tokens(500, 302));
}

TEST_CASE("of added tokens the leftmost is found, of those the longest") {
  const AddedTokens added({{"<a>", 1, false}, {"<a><b>", 2, false}, {"<b>", 3, true}, {"b", 4}});
  const auto first = added.find("x<a><b>", 0);
  REQUIRE(first.has_value());
  CHECK(first->token->token == 2);
  CHECK(first->first == 1);
  CHECK(first->end == 7);
  CHECK(added.find("x<a><b", 0)->token->token == 1);
  CHECK(added.find("<a><b>", 1)->token->token == 3);
  CHECK(!added.find("<a", 0).has_value());
  CHECK(added.crosses("x<a>", 2));
  CHECK(!added.crosses("x<a>", 1));
  CHECK(!added.crosses("x<a>", 4));
}

}  // namespace starling::model
