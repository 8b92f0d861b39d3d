// parallel_for: the one place where model/ starts threads, through OpenMP's team of the calling
// thread. Tasks are handed out as workers come free, because a peer's other threads may hold a
// core; each task writes its own memory, so results do not depend on who runs what.
//
// Without OpenMP, and under the thread sanitizer (which does not know OpenMP's barriers), tasks run
// one after the other.
#pragma once

#include <algorithm>
#include <cstdint>

#if defined(_OPENMP) && !defined(__SANITIZE_THREAD__)
#define STARLING_MODEL_OPENMP 1
#include <omp.h>
#endif

namespace starling::model {

struct RowRange {
  std::int64_t first = 0, count = 0;
};

struct RowSplit {
  std::int64_t rows = 0, grain = 1;
};

// body(task, worker), worker < threads.
template <class Body>
void parallel_for(int threads, std::int64_t tasks, const Body& body) {
#if defined(STARLING_MODEL_OPENMP)
  if (threads > 1 && tasks > 1) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (std::int64_t task = 0; task < tasks; ++task) body(task, omp_get_thread_num());
    return;
  }
#else
  static_cast<void>(threads);
#endif
  for (std::int64_t task = 0; task < tasks; ++task) body(task, 0);
}

// body(RowRange) over all rows, in pieces of at most `grain` rows.
template <class Body>
void parallel_rows(int threads, RowSplit split, const Body& body) {
  const std::int64_t tasks = (split.rows + split.grain - 1) / split.grain;
  parallel_for(threads, tasks, [&](std::int64_t task, int /*worker*/) {
    const std::int64_t first = task * split.grain;
    body(RowRange{first, std::min(split.grain, split.rows - first)});
  });
}

}  // namespace starling::model
