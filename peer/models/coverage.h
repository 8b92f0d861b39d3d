// coverage: what the checkpoints of peers tell about the reading of their training data: which
// share of it was read never, once or more often, by whom. Peers with the same data are counted
// together; a part was read as often as these peers say that they did, or as often as one of them
// has heard, whichever is more.
//
// A folder is that of a peer or of a run, which stands for all its peers. Blocking; for the command
// line. Errors name the folder; one is that a peer would count twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/files/data_parts.h"

namespace starling::peer {

struct ReaderCoverage {
  std::string name;
  std::uint64_t finished = 0;  // parts read to the end, each as often as it was
};

// Of one data set.
struct Coverage {
  std::uint64_t space = 0;
  std::uint64_t parts = 0, never = 0, once = 0, more = 0;
  std::uint64_t least = 0, most = 0;  // times that a part was read
  std::vector<ReaderCoverage> readers;
};

struct ReadPosition {
  std::string name;
  DataPosition position;
};
std::vector<Coverage> coverage_of(std::span<const ReadPosition> readers);

Result<std::vector<Coverage>> coverage(std::span<const std::filesystem::path> folders);

// What a person reads.
std::string coverage_text(std::span<const Coverage> all);

}  // namespace starling::peer
