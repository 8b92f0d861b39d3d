// Assertions for the impossible. Always on, also in release builds.
//
// STARLING_ASSERT states what the code around it has established. It never depends on bytes that
// came from a file or another peer and were not validated before. A failed assertion prints the
// expression and its place and aborts the process; the checkpoint is the way back.
#pragma once

namespace starling {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace starling

#define STARLING_ASSERT(expression)                     \
  (static_cast<bool>(expression) ? static_cast<void>(0) \
                                 : ::starling::assertion_failed(#expression, __FILE__, __LINE__))
