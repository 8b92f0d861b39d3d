#include "gossip/standing.h"

#include <cmath>

#include "base/assert.h"

namespace starling::gossip {

bool is_printable(char letter) { return letter >= 0x20 && letter < 0x7f; }

Standing make_standing(float loss, std::string_view device) {
  Standing standing;
  if (std::isfinite(loss) && loss > 0) standing.loss = loss;
  for (const char letter : device.substr(0, kDeviceBytesMax)) {
    STARLING_ASSERT(standing.device.try_push(is_printable(letter) ? letter : '?'));
  }
  return standing;
}

std::string_view device(const Standing& standing) {
  return {standing.device.begin(), standing.device.size()};
}

}  // namespace starling::gossip
