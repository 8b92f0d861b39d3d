// What decode() promises of a frame that it accepts. Thread: plain functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "gossip/wire/wire.h"

namespace starling::gossip {

inline std::vector<std::byte> encoded_again(const Frame& decoded) {
  if (!is_bulk(decoded.message)) return encode(decoded.from, decoded.message, decoded.version);
  std::vector<std::byte> frame(kBulkHeadBytes);
  frame.insert(frame.end(), decoded.payload.begin(), decoded.payload.end());
  encode_bulk_head(decoded.from, decoded.message, frame, decoded.version);
  return frame;
}

// These read a reason that they do not know as one that they do.
inline bool tells_reason(const Message& message) {
  return std::holds_alternative<Refuse>(message) || std::holds_alternative<Decline>(message) ||
         std::holds_alternative<StateDeclined>(message) ||
         std::holds_alternative<Abandoned>(message) || std::holds_alternative<Abort>(message);
}

// Is what decode() accepted worth believing? Encoding it again gives the same bytes; of an unknown
// reason, as many bytes, and from then on the same.
inline bool is_canonical(std::span<const std::byte> frame, const Frame& decoded) {
  const std::vector<std::byte> again = encoded_again(decoded);
  if (std::equal(frame.begin(), frame.end(), again.begin(), again.end())) return true;
  if (!tells_reason(decoded.message) || again.size() != frame.size()) return false;
  auto twice = decode(again);
  return twice.ok() && encoded_again(twice.value()) == again;
}

}  // namespace starling::gossip
