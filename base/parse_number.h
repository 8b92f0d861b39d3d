// parse_number: reads a text that is one number and nothing else. Gives nothing where the text is
// empty, has anything before or behind the number (a space, a plus sign), or the type cannot hold
// it. Numbers are decimal; floating-point types take "inf" and "nan" too. The same in every locale.
// Thread: any.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace starling {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc() || stopped != end) return std::nullopt;
  return number;
}

}  // namespace starling
