#include "model/cpu_gemm.h"

#include <oneapi/dnnl/dnnl.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "model/cpu_parallel.h"

namespace starling::model {

namespace {

constexpr std::int64_t kTileMin = 32;             // rows or columns
constexpr std::int64_t kTileWorkMin = 4'000'000;  // multiply-adds: about 70 us on one core
constexpr std::int64_t kTilesPerThread = 4;       // slack for a worker that loses its core

struct Tile {
  std::int64_t rows, columns;
};

// The tile that makes enough tasks, leaves the least to the worker with the most of them, and reads
// the fewest operand values.
Tile choose_tile(int threads, const Gemm& args) {
  const std::int64_t work = args.rows * args.columns * args.inner;
  const std::int64_t tasks = std::min(kTilesPerThread * threads, work / kTileWorkMin);
  Tile best{args.rows, args.columns};
  if (threads == 1 || tasks <= 1) return best;
  std::pair best_cost{std::numeric_limits<std::int64_t>::max(), std::int64_t{0}};
  for (std::int64_t parts = 1; parts <= tasks; ++parts) {
    const Tile tile{std::max(kTileMin, divide_up(args.rows, parts)),
                    std::max(kTileMin, divide_up(args.columns, divide_up(tasks, parts)))};
    const std::int64_t tiles =
        divide_up(args.rows, tile.rows) * divide_up(args.columns, tile.columns);
    const std::pair cost{divide_up(tiles, threads) * tile.rows * tile.columns,
                         tile.rows + tile.columns};
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = tile;
  }
  return best;
}

const float* advanced(const GemmOperand& operand, std::int64_t rows, std::int64_t columns) {
  return operand.transposed ? operand.data + columns * operand.stride + rows
                            : operand.data + rows * operand.stride + columns;
}

#if defined(_OPENMP)
// While it lives, oneDNN, whose threads are OpenMP's, finds a team of one on this thread.
class SingleThread {
 public:
  SingleThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThread() { omp_set_num_threads(before_); }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int before_;
};
#endif

}  // namespace

void gemm(const Gemm& args) {
#if defined(_OPENMP)
  const SingleThread single;
#endif
  const dnnl_status_t status =
      dnnl_sgemm(args.left.transposed ? 'T' : 'N', args.right.transposed ? 'T' : 'N', args.rows,
                 args.columns, args.inner, args.scale, args.left.data, args.left.stride,
                 args.right.data, args.right.stride, args.keep, args.out, args.out_stride);
  STARLING_ASSERT(status == dnnl_success);
}

void parallel_gemm(ThreadTeam& team, const Gemm& args) {
  const Tile tile = choose_tile(team.size(), args);
  const std::int64_t across = divide_up(args.columns, tile.columns);
  const std::int64_t tasks = divide_up(args.rows, tile.rows) * across;
  team.run(tasks, [&](std::int64_t task, int /*worker*/) {
    const std::int64_t row = task / across * tile.rows;
    const std::int64_t column = task % across * tile.columns;
    Gemm part = args;
    part.out += row * args.out_stride + column;
    part.left.data = advanced(args.left, row, 0);
    part.right.data = advanced(args.right, 0, column);
    part.rows = std::min(tile.rows, args.rows - row);
    part.columns = std::min(tile.columns, args.columns - column);
    gemm(part);
  });
}

}  // namespace starling::model
