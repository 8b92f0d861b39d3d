// dump and describe_config: PeerConfig -> TOML, by the descriptions of config_describe.h.
#include <fmt/format.h>

#include <iterator>
#include <sstream>
#include <type_traits>

#include "base/assert.h"
#include "peer/config/config.h"
#include "peer/config/config_describe.h"
#include "peer/config/config_text.h"

namespace starling::peer {

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F) {
      result += fmt::format("\\u{:04X}", static_cast<unsigned>(letter));
    } else {
      result += letter;
    }
  }
  return result + "\"";
}

namespace {

std::string to_toml(bool value) { return value ? "true" : "false"; }
std::string to_toml(const std::optional<std::int64_t>& value) {
  return value ? fmt::format("{}", *value) : "\"auto\"";
}
std::string to_toml(const std::string& value) { return in_quotes(value); }
std::string to_toml(const std::vector<std::string>& values) {
  std::string result = "[";
  for (const std::string& value : values) {
    if (result.size() > 1) result += ", ";
    result += in_quotes(value);
  }
  return result + "]";
}
template <class Number>
std::string to_toml(Number value) {
  // The shortest text that reads back as the same number, for float and for double.
  std::string text = fmt::format("{}", value);
  if (std::is_floating_point_v<Number> && text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}
template <class Enum, std::size_t kCount>
std::string to_toml(Enum value, const std::array<Choice<Enum>, kCount>& choices) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.value == value) return in_quotes(choice.name);
  }
  STARLING_ASSERT(false);
  return {};
}

std::string words(IntegerRange range) {
  if (range.last == INT64_MAX) return fmt::format("{} or more", range.first);
  return fmt::format("{} to {}", range.first, range.last);
}
std::string words(AutoRange range) {
  return fmt::format("\"auto\", or {} to {}", range.first, range.last);
}
std::string words(RealRange range) { return fmt::format("{} to {}", range.first, range.last); }
std::string words(TextRange) { return {}; }
template <class Enum, std::size_t kCount>
std::string words(const std::array<Choice<Enum>, kCount>& choices) {
  return names_of(choices);
}

// A visitor that writes every key with its value; with `explain`, also with its meaning.
class Writer {
 public:
  explicit Writer(bool explain) : explain_(explain) {}

  void begin_section(std::string_view name, std::string_view why) {
    if (!text_.empty()) text_ += "\n";
    if (explain_) text_ += fmt::format("# {}\n", why);
    text_ += fmt::format("[{}]\n", name);
  }
  void end_section() {}

  void operator()(std::string_view key, bool& field, std::string_view why) {
    write(key, to_toml(field), why, "");
  }
  template <class Field, class Range>
  void operator()(std::string_view key, Field& field, const Range& range, std::string_view why) {
    if constexpr (std::is_enum_v<Field>) {
      write(key, to_toml(field, range), why, words(range));
    } else {
      write(key, to_toml(field), why, words(range));
    }
  }

  std::string take() && { return std::move(text_); }

 private:
  void write(std::string_view key, const std::string& value, std::string_view why,
             const std::string& range) {
    if (explain_) {
      text_ += fmt::format("\n# {}\n", why);
      if (!range.empty()) text_ += fmt::format("# ({})\n", range);
    }
    text_ += fmt::format("{} = {}\n", key, value);
  }

  const bool explain_;
  std::string text_;
};

std::string write(const PeerConfig& config, bool explain) {
  PeerConfig copy = config;  // descriptions visit fields that may be set
  Writer writer(explain);
  describe(writer, copy);
  return std::move(writer).take();
}

}  // namespace

std::string dump(const PeerConfig& config) { return write(config, false); }

std::vector<KeyDifference> differing_keys(const PeerConfig& first, const PeerConfig& second) {
  constexpr std::string_view kSet = " = ";
  std::istringstream lines_of_first(dump(first)), lines_of_second(dump(second));
  std::vector<KeyDifference> found;
  std::string section, left, right;
  // Every configuration has the same keys in the same order, a line each.
  while (std::getline(lines_of_first, left) && std::getline(lines_of_second, right)) {
    if (left.starts_with('[')) section = left.substr(1, left.size() - 2);
    if (left == right) continue;
    const std::size_t set = left.find(kSet);
    STARLING_ASSERT(set != std::string::npos && right.starts_with(left.substr(0, set)));
    const std::size_t value = set + kSet.size();
    found.push_back({section + "." + left.substr(0, set), left.substr(value), right.substr(value)});
  }
  return found;
}

std::string describe_config() {
  return "# Every key of a Starling configuration with its default. Keys that are left out have\n"
         "# it; any of them can be set on the command line: --set section.key=value\n\n" +
         write(PeerConfig{}, true);
}

}  // namespace starling::peer
