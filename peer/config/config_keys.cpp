#include "peer/config/config_keys.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "peer/config/config_describe.h"

namespace starling::peer {

namespace {

class KeyCollector {
 public:
  void begin_section(std::string_view name, std::string_view) { sections.emplace_back(name); }
  void end_section() {}
  template <class Field, class... Rest>
  void operator()(std::string_view key, Field&, const Rest&...) {
    keys.push_back(sections.back() + "." + std::string(key));
  }
  std::vector<std::string> sections, keys;
};

KeyCollector collect() {
  KeyCollector collector;
  PeerConfig config;
  describe(collector, config);
  return collector;
}

// Levenshtein's distance, one row of the table at a time.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::size_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// With more letters wrong it is no misspelling any more: a third of them, or, as two that have
// changed places are two, two of few.
std::size_t wrong_max(std::string_view word) {
  const std::size_t letters = word.size() < 4 ? 1 : 2;
  return std::max(letters, word.size() / 3);
}

std::string_view last_part(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

constexpr std::size_t kUnlike = std::numeric_limits<std::size_t>::max();

// The first of those that are nearest by `distance`, a function of one of `known`. Empty: none is
// like it.
template <class Distance>
std::string nearest_by(std::span<const std::string> known, const Distance& distance) {
  std::string nearest;
  std::size_t best = kUnlike;
  for (const std::string& candidate : known) {
    const std::size_t far = distance(candidate);
    if (far >= best) continue;
    best = far;
    nearest = candidate;
  }
  return nearest;
}

// Of keys, by their last parts: `word` with a few letters wrong.
auto misspelt(std::string_view word, std::size_t letters_max) {
  return [word, letters_max](std::string_view known) {
    const std::size_t letters = edit_distance(word, last_part(known));
    return letters <= letters_max ? letters : kUnlike;
  };
}

constexpr std::size_t kTellingLetters = 3;  // fewer begin and end too many words

bool begins(std::string_view part, std::string_view whole) {
  return part.size() >= kTellingLetters && whole.starts_with(part);
}

// With whole words of it.
bool ends(std::string_view part, std::string_view whole) {
  return part.size() >= kTellingLetters && part.size() < whole.size() && whole.ends_with(part) &&
         whole[whole.size() - part.size() - 1] == '_';
}

// Of keys, by their last parts: one is the shorter form of the other, as `is_part` has it.
auto shortened(std::string_view word, bool (*is_part)(std::string_view, std::string_view)) {
  return [word, is_part](std::string_view known) {
    const std::string_view last = last_part(known);
    return is_part(word, last) || is_part(last, word) ? edit_distance(word, last) : kUnlike;
  };
}

}  // namespace

std::vector<std::string> section_names() { return collect().sections; }

std::vector<std::string> config_keys() { return collect().keys; }

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  const std::size_t letters_max = wrong_max(word);
  return nearest_by(known, [word, letters_max](std::string_view candidate) {
    const std::size_t letters = edit_distance(word, candidate);
    return letters <= letters_max ? letters : kUnlike;
  });
}

std::vector<std::string> keys_beside(std::string_view key) {
  const std::string_view section = key.substr(0, key.find('.') + 1);
  std::vector<std::string> beside;
  for (const std::string& known : config_keys()) {
    if (!section.empty() && known.starts_with(section)) {
      beside.push_back(known.substr(section.size()));
    }
  }
  return beside;
}

std::string nearest_key(std::string_view key) {
  const KeyCollector all = collect();
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) {
    const std::string section = nearest_word(key, all.sections);
    return section.empty() ? nearest_by(all.keys, misspelt(key, 0)) : section;
  }
  // Who has found the section looks for something in it, so that a little is enough there; of
  // other sections a word must be as good as right.
  std::vector<std::string> beside, elsewhere;
  for (const std::string& known : all.keys) {
    (known.starts_with(key.substr(0, dot + 1)) ? beside : elsewhere).push_back(known);
  }
  const std::string_view word = last_part(key);
  for (const std::string& near :
       {nearest_by(beside, misspelt(word, 1)), nearest_by(beside, shortened(word, begins)),
        nearest_by(beside, shortened(word, ends)), nearest_by(elsewhere, misspelt(word, 0)),
        nearest_by(beside, misspelt(word, wrong_max(word))),
        nearest_by(elsewhere, misspelt(word, word.size() / 5))}) {
    if (!near.empty()) return near;
  }
  return {};
}

}  // namespace starling::peer
