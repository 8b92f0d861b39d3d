// What tests of the configuration write and read: texts, overrides and what is said of them.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/config/config.h"

namespace starling::peer {

inline Result<PeerConfig> parse(std::string_view text, std::vector<std::string> overrides = {}) {
  return parse_config(text, "test.toml", overrides);
}

inline std::string error_of(std::string_view text, std::vector<std::string> overrides = {}) {
  auto config = parse(text, std::move(overrides));
  if (config.ok()) return "";
  CHECK(config.error().code() == ErrorCode::kInvalidConfig);
  return config.error().message();
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

inline void names_both(std::vector<std::string> overrides, std::string_view first,
                       std::string_view second) {
  const std::string message = error_of("", std::move(overrides));
  CAPTURE(message);
  CHECK(contains(message, first));
  CHECK(contains(message, second));
}

// A seed of the peer with the smallest key.
inline std::string seed(const std::string& address) {
  return "0000000000000001" + std::string(48, '0') + "@" + address;
}

}  // namespace starling::peer
