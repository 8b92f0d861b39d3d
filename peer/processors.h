// Which processors the threads of a process run on: the trainer's team has some for itself, one for
// each of its threads, distinct cores before their hyper-threads; the other threads have the rest.
// The plans are pure; what they need to know is read at start.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::peer {

struct ProcessorFacts {
  std::vector<int> allowed;  // to this process; empty: unknown
  // Of allowed[i], those that share its core, itself among them. Empty: it has its core to itself.
  std::vector<std::vector<int>> siblings;
  std::vector<int> taken;  // of those allowed, by the teams of other peers
};

struct TeamWish {
  std::uint32_t threads = 0;  // 0: all processors but one where there are more than two
  bool pin = false;
};

struct ProcessorPlan {
  int threads = 1;
  std::vector<int> team;  // one per thread; empty: not pinned
  std::vector<int> rest;  // of the other threads; empty: where they like
};

// A list of the system's, like "0-3,8"; empty where it is none, or names more than any system has.
std::vector<int> parse_processors(std::string_view text);
ProcessorFacts processor_facts();

// The number that threads = 0 stands for.
int default_threads(const ProcessorFacts& facts);
// A team that finds too few processors free is not pinned. Error kInvalidConfig: more pinned
// threads than processors.
Result<ProcessorPlan> plan_processors(const ProcessorFacts& facts, const TeamWish& wish);

// Processors of each of `parts` processes, the same number in each but for one more in some; those
// of a core are neighbors, so that few cores have two owners. Empty: there are more parts than
// processors, and they have to share.
std::vector<std::vector<int>> divide_processors(const ProcessorFacts& facts, std::size_t parts);

}  // namespace starling::peer
