#include "peer/io/repainter.h"

#include <fmt/format.h>

#include <algorithm>

namespace starling::peer {

void Repainter::paint(std::string_view text, std::size_t columns) {
  if (lines_ > 0) out_ << fmt::format("\x1b[{}A", lines_);
  std::size_t painted = 0;
  for (std::string_view rest = text; !rest.empty(); ++painted) {
    const std::size_t end = rest.find('\n');
    out_ << "\x1b[2K" << rest.substr(0, std::min(end, columns)) << '\n';
    rest.remove_prefix(std::min(end, rest.size() - 1) + 1);
  }
  if (painted < lines_) out_ << "\x1b[J";
  lines_ = painted;
  out_ << std::flush;
}

void Repainter::clear() {
  if (lines_ > 0) out_ << fmt::format("\x1b[{}A\x1b[J", lines_);
  lines_ = 0;
}

}  // namespace starling::peer
