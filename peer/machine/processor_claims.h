// ProcessorClaims: which processors the teams of this user's peers have on this machine, so that
// peers started beside each other do not sit on the same ones. A claim is a lock on one byte of a
// file, at the processor's number: it ends with the process, however that ends. Blocking, for
// kPatience at most.
//
// Where there is no such file, or another user's in its place, everything is free. Thread: one
// owner.
#pragma once

#include <chrono>
#include <filesystem>
#include <span>
#include <vector>

#include "peer/io/file_io.h"

namespace starling::peer {

class ProcessorClaims {
 public:
  // For whoever claims before; one that is stopped there holds nobody up for longer.
  static constexpr std::chrono::seconds kPatience{2};

  ProcessorClaims() = default;  // knows of no others
  explicit ProcessorClaims(const std::filesystem::path& file);
  // Of all peers of this user that see the same folder for temporary files.
  static std::filesystem::path usual_file();

  // Claims those that nobody else has, and returns the others. Until it gives back what it does not
  // need, whoever claims waits: two that start at once would each find the other at all of them.
  std::vector<int> claim(std::span<const int> processors);
  void give_back(std::span<const int> processors);

 private:
  bool lock(int place, short kind) const;

  FileHandle file_;
};

}  // namespace starling::peer
