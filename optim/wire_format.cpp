#include "optim/wire_format.h"

#include <array>
#include <utility>

namespace starling::optim {

namespace {

constexpr std::array<std::pair<WireFormat, std::string_view>, 4> kNames = {{
    {WireFormat::kF32, "f32"},
    {WireFormat::kBf16, "bf16"},
    {WireFormat::kMod8, "mod8"},
    {WireFormat::kMod4, "mod4"},
}};

}  // namespace

std::string_view to_string(WireFormat format) {
  for (const auto& [known, name] : kNames) {
    if (known == format) return name;
  }
  return "unknown";
}

std::optional<WireFormat> parse_wire_format(std::string_view text) {
  for (const auto& [format, name] : kNames) {
    if (name == text) return format;
  }
  return std::nullopt;
}

}  // namespace starling::optim
