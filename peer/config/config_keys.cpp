#include "peer/config/config_keys.h"

#include <algorithm>
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

// So many letters wrong are no misspelling any more: more than a third of them, or, as two that
// have changed places are two, than two of few.
std::size_t misspelt_from(std::string_view word) {
  const std::size_t letters = word.size() < 4 ? 1 : 2;
  return std::max(letters, word.size() / 3) + 1;
}

std::string_view last_part(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

}  // namespace

std::vector<std::string> section_names() { return collect().sections; }

std::vector<std::string> config_keys() { return collect().keys; }

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  std::string nearest;
  std::size_t best = misspelt_from(word);
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  return nearest;
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
  const bool section = key.find('.') == std::string_view::npos;
  std::string nearest;
  std::size_t best = misspelt_from(key);
  for (const std::string& known : section ? all.sections : all.keys) {
    std::size_t distance = edit_distance(key, known);
    if (!section && last_part(known) == last_part(key))
      distance = std::min<std::size_t>(distance, 1);
    if (distance >= best) continue;
    best = distance;
    nearest = known;
  }
  if (!nearest.empty() || !section) return nearest;
  for (const std::string& known : all.keys) {  // a key without its section
    if (last_part(known) == key) return known;
  }
  return {};
}

}  // namespace starling::peer
