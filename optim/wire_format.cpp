#include "optim/wire_format.h"

namespace starling::optim {

std::optional<WireFormat> parse_wire_format(std::string_view text) {
  for (const WireFormat format : kWireFormats) {
    if (to_string(format) == text) return format;
  }
  return std::nullopt;
}

}  // namespace starling::optim
