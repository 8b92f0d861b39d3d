// What a description of configuration keys (config_describe.h) says of a value. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace starling::peer {

// Bounds that not only the reader of configurations keeps to.
inline constexpr std::int64_t kTokensMax = 1'000'000'000'000'000;
inline constexpr std::int64_t kStepsPerRoundMax = 1'000'000;

// Settings of lines are in megabits per second.
inline constexpr double kBytesPerMbit = 1e6 / 8;

struct IntegerRange {  // both ends included
  std::int64_t first = 0, last = 0;
};
struct AutoRange {  // "auto", or an integer within; both ends included
  std::int64_t first = 0, last = 0;
};
struct RealRange {  // both ends included
  double first = 0, last = 0;
};
struct TextRange {  // bytes of the text, or of each text of a list
  std::size_t bytes_min = 0, bytes_max = 0;
};
template <class Enum>
struct Choice {
  std::string_view name;
  Enum value;
};
// "a", "b": as errors and descriptions list them.
template <class Enum, std::size_t kCount>
std::string names_of(const std::array<Choice<Enum>, kCount>& choices) {
  std::string names;
  for (const Choice<Enum>& choice : choices) {
    names += (names.empty() ? "\"" : ", \"") + std::string(choice.name) + '"';
  }
  return names;
}
// Named as to_string() beside the enumeration does.
template <class Enum, std::size_t kCount>
constexpr std::array<Choice<Enum>, kCount> choices_of(const std::array<Enum, kCount>& values) {
  std::array<Choice<Enum>, kCount> choices{};
  for (std::size_t i = 0; i < kCount; ++i) choices[i] = {to_string(values[i]), values[i]};
  return choices;
}

}  // namespace starling::peer
