// FailingDisk: while it lives one of the calls by which this process opens, writes, makes durable
// and renames files does not go well: the one of this number, counted from 1. Stands in for the
// system's own functions, in libraries too, in whatever executable is linked with it.
//
// Thread: made and destroyed while nobody else is at a file; calls may come from any.
#pragma once

#include <cstdint>

namespace starling::testing {

enum class DiskFault : std::uint8_t {
  kBroken,    // an error of the device
  kFull,      // no space
  kReadOnly,  // as a file system is after an error
  kShort      // of a write only half is taken, and the rest can be written after
};

class FailingDisk {
 public:
  // Nothing fails: calls() tells how many there are.
  FailingDisk() : FailingDisk(0, DiskFault::kBroken) {}
  FailingDisk(int call, DiskFault fault);
  ~FailingDisk();
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  int calls() const;
  bool failed() const;  // the call came, and could go wrong so
};

}  // namespace starling::testing
