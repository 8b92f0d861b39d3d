// Frames as a hostile sender would edit them. Thread: plain functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gossip/wire/wire.h"

namespace starling::gossip {

using Buffer = std::vector<std::byte>;

// Sets one byte of the body and makes the checksum right again, as a hostile sender would.
inline Result<Frame> decode_with(Buffer& frame, std::size_t at, std::uint8_t value) {
  frame[at] = static_cast<std::byte>(value);
  seal(frame);
  return decode(frame);
}

}  // namespace starling::gossip
