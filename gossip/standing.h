// Standing: what the two of an exchange tell each other of themselves with Offer and Accept, so
// that whoever watches one peer sees how others fare. Each one's own word: nothing is decided by
// it.
// Thread: plain values.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/bounded.h"

namespace starling::gossip {

inline constexpr std::size_t kDeviceBytesMax = 32;

struct Standing {
  float loss = 0;                               // of its last training step; 0: none yet
  BoundedList<char, kDeviceBytesMax> device{};  // what it computes on, printable ASCII
  friend bool operator==(const Standing&, const Standing&) = default;
};

// A loss that is no positive number is none. What does not fit of the name is cut off, what is not
// printable replaced.
Standing make_standing(float loss, std::string_view device);
std::string_view device(const Standing& standing);
bool is_printable(char letter);  // ASCII

}  // namespace starling::gossip
