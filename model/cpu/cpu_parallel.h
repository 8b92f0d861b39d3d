// parallel_rows: rows of a tensor as tasks of a ThreadTeam: a worker gets the same part of the rows
// every time, unless it falls behind because a peer's other threads hold its processor. Each task
// writes its own memory, so results do not depend on who computes what.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_team.h"

namespace starling::model {

constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

// What one worker sums of a depth that all have written; and the most bytes of such sums.
inline constexpr std::int64_t kSharedDepth = 512;
inline constexpr std::int64_t kSharedSumsBytes = std::int64_t{512} << 10;

// `parts` alike for `workers`: nobody has much more to do than the others.
constexpr bool is_even(std::int64_t parts, std::int64_t workers) {
  return parts >= workers && 8 * divide_up(parts, workers) * workers <= 9 * parts;
}

struct RowRange {
  std::int64_t first = 0, count = 0;
};

struct RowSplit {
  std::int64_t rows = 0, grain = 1;
};

// body(RowRange) over all rows, in pieces of at most `grain` rows.
template <class Body>
void parallel_rows(ThreadTeam& team, RowSplit split, const Body& body) {
  const std::int64_t tasks = divide_up(split.rows, split.grain);
  team.run(tasks, [&](std::int64_t task, int /*worker*/) {
    const std::int64_t first = task * split.grain;
    body(RowRange{first, std::min(split.grain, split.rows - first)});
  });
}

}  // namespace starling::model
