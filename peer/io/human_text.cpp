#include "peer/io/human_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace starling::peer {

namespace {

// Three significant digits are as much as an eye can follow at one refresh per second.
std::string scaled(double value, double base, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  while (std::abs(value) >= base && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  const int digits = unit == 0 || std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 2;
  return fmt::format("{:.{}f}{}", value, digits, units[unit]);
}

}  // namespace

std::string human_bytes(double bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {" B", " KiB", " MiB", " GiB", " TiB"};
  return scaled(bytes, 1024, kUnits);
}

std::string human_bytes(std::uint64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

std::string human_count(double count) {
  static constexpr std::array<std::string_view, 5> kUnits = {"", " k", " M", " G", " T"};
  return scaled(count, 1000, kUnits);
}

std::string counted(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string printable(std::string_view text) {
  std::string clean(text);
  std::replace_if(
      clean.begin(), clean.end(),
      [](char c) {
        return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
      },
      '?');
  // Another 32 of them, as UTF-8 writes them.
  for (std::size_t i = 0; i + 1 < clean.size(); ++i) {
    const auto next = static_cast<unsigned char>(clean[i + 1]);
    if (clean[i] == '\xC2' && next >= 0x80 && next < 0xA0) clean.replace(i, 2, "??");
  }
  return clean;
}

std::string time_left(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s left", seconds);
  if (seconds < 100 * 60) return fmt::format("{:.0f} min left", seconds / 60);
  return fmt::format("{:.1f} h left", seconds / 3600);
}

}  // namespace starling::peer
