// Repainter: a block of text on a terminal that is painted over its last state.
//
// Lines end with a line feed; one that is wider than the terminal is cut, because a wrapped one
// takes two rows and the way back up would miss. What is printed between must be told by clear().
// One thread.
#pragma once

#include <cstddef>
#include <ostream>
#include <string_view>

namespace starling::peer {

class Repainter {
 public:
  explicit Repainter(std::ostream& out) : out_(out) {}

  void paint(std::string_view text, std::size_t columns);
  void clear();  // takes the block away; the next one is painted where the cursor is

 private:
  std::ostream& out_;
  std::size_t lines_ = 0;  // painted last
};

}  // namespace starling::peer
