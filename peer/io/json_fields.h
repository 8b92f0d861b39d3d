// JSON that comes from a stranger or a damaged file, and fields of its objects: one that is missing
// or of another kind is none, and nothing of a text but printable ASCII gets through. Pure
// functions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace starling::peer {

inline constexpr double kNumberMax = 1e18;  // what is larger fits no column

inline constexpr int kNestedMax = 8;  // objects and arrays in one another

// Without what is nested deeper than kNestedMax: it would overflow the stack of whoever copies or
// writes it. is_discarded(): that is no JSON.
inline nlohmann::json parse_shallow(std::string_view text) {
  using nlohmann::json;
  const auto is_shallow = [](int depth, json::parse_event_t, const json&) {
    return depth <= kNestedMax;
  };
  return json::parse(text, is_shallow, false);
}

inline const nlohmann::json& field(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

inline std::optional<double> number(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = field(object, key);
  if (!value.is_number()) return std::nullopt;
  const auto result = value.get<double>();
  if (!(std::abs(result) < kNumberMax)) return std::nullopt;
  return result;
}

inline bool is_set(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = field(object, key);
  return value.is_boolean() && value.get<bool>();
}

inline std::string text(const nlohmann::json& object, const char* key, std::size_t characters_max) {
  const nlohmann::json& value = field(object, key);
  if (!value.is_string()) return "-";
  std::string result = value.get_ref<const std::string&>().substr(0, characters_max);
  std::replace_if(
      result.begin(), result.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

}  // namespace starling::peer
