#include "gossip/code_agreement.h"

#include <algorithm>

#include "base/assert.h"

namespace starling::gossip {

std::uint8_t CodeAgreement::offered(std::uint8_t wished) const {
  if (version_ < kCodesAgree) wished = config_.format;
  const auto is_wished = [wished](const Code& code) { return code.format == wished; };
  auto code = std::find_if(config_.codes.begin(), config_.codes.end(), is_wished);
  if (code == config_.codes.end()) return wished;
  while (code->since > version_) {
    STARLING_ASSERT(code != config_.codes.begin());
    --code;
  }
  return code->format;
}

std::optional<std::uint8_t> CodeAgreement::common(std::uint8_t one, std::uint8_t other) const {
  if (one == other) return one;
  const auto find = [&](std::uint8_t which) {
    return std::find_if(config_.codes.begin(), config_.codes.end(), [&](const Code& code) {
      return code.format == which && code.since <= version_;
    });
  };
  const auto first = find(one), second = find(other);
  if (version_ < kCodesAgree || std::max(first, second) == config_.codes.end()) return std::nullopt;
  return std::max(first, second)->format;
}

}  // namespace starling::gossip
