// What a run without work costs, by number of threads, and one in which every thread takes part: of
// ThreadTeam, and of OpenMP where the compiler has it. Build with STARLING_BENCHMARKS=ON. Threads
// are not pinned.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>

#include "base/thread_team.h"

namespace starling {

namespace {

void empty_run(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  ThreadTeam team(threads);
  for (auto _ : state) {
    team.run(threads, [](std::int64_t task, int) { benchmark::DoNotOptimize(task); });
  }
}
BENCHMARK(empty_run)->Arg(1)->Arg(2)->UseRealTime();

// Each thread waits for all others, so that none computes two tasks.
void meet(std::atomic<int>& arrived, int threads) {
  ++arrived;
  while (arrived < threads) continue;
}

void run_of_all(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  ThreadTeam team(threads);
  for (auto _ : state) {
    std::atomic<int> arrived{0};
    team.run(threads, [&](std::int64_t, int) { meet(arrived, threads); });
  }
}
BENCHMARK(run_of_all)->Arg(2)->UseRealTime();

#if defined(_OPENMP)
void empty_run_of_openmp(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (std::int64_t task = 0; task < threads; ++task) benchmark::DoNotOptimize(task);
  }
}
BENCHMARK(empty_run_of_openmp)->Arg(1)->Arg(2)->UseRealTime();

void run_of_all_of_openmp(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
    std::atomic<int> arrived{0};
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int task = 0; task < threads; ++task) meet(arrived, threads);
  }
}
BENCHMARK(run_of_all_of_openmp)->Arg(2)->UseRealTime();
#endif

}  // namespace

}  // namespace starling
