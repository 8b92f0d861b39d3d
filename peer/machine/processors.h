// Which processors the threads of a process run on: the trainer's team has some for itself, one for
// each of its threads, distinct cores before their hyper-threads; the other threads have the rest.
// The plans are pure; what they need to know is read at start.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace starling::peer {

struct ProcessorFacts {
  std::vector<int> allowed;  // to this process; empty: unknown
  // Of allowed[i], those that share its core, itself among them. Empty: it has its core to itself.
  std::vector<std::vector<int>> siblings;
  std::vector<int> taken;  // of those allowed, by the teams of other peers
  // Processors whose time the container may use, whichever they are; empty: all.
  std::optional<double> quota{};
};

struct TeamWish {
  std::uint32_t threads = 0;  // 0: default_threads(), or fewer, those that are free
  bool pin = false;
};

struct ProcessorPlan {
  int threads = 1;
  std::vector<int> team;  // one per thread; empty: not pinned
  std::vector<int> rest;  // of the other threads; empty: where they like
};

// A list of the system's, like "0-3,8"; empty where it is none, or names more than any system has.
std::vector<int> parse_processors(std::string_view text);
// Of a container's time, as in the kernel's cpu.max: "200000 100000" is two; empty: no limit.
std::optional<double> parse_quota(std::string_view text);
ProcessorFacts processor_facts();

// How many of those allowed can be kept busy: threads beyond the quota are only held up.
int usable_processors(const ProcessorFacts& facts);
// The number that threads = 0 stands for: all usable processors but one where there are more than
// two.
int default_threads(const ProcessorFacts& facts);
// Where others have some, a team of no certain size takes those that are free; one that finds too
// few free, or none, is not pinned. Error kInvalidConfig: more pinned
// threads than processors.
Result<ProcessorPlan> plan_processors(const ProcessorFacts& facts, const TeamWish& wish);

// Processors of each of `parts` processes, the same number in each but for one more in some; those
// of a core are neighbors, so that few cores have two owners. Empty: there are more parts than
// processors, and they have to share.
std::vector<std::vector<int>> divide_processors(const ProcessorFacts& facts, std::size_t parts);

}  // namespace starling::peer
