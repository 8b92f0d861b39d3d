// LoopbackRate: how fast this machine carries payloads to itself over TCP, in the clear or
// enciphered as every link is (CURVE). ZeroMQ alone: no link of this machine can be faster, and
// what the two differ by is what encryption costs. Tools; blocks for `length`, one thread beside
// ZeroMQ's own.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"

namespace starling::gossip {

enum class Cipher : std::uint8_t { kNone, kCurve };

// Bytes of payload a second. kUnavailable: nothing arrived, with the library's reason.
Result<double> loopback_rate(Cipher cipher, Duration length);

}  // namespace starling::gossip
