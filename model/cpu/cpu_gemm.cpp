#include "model/cpu/cpu_gemm.h"

#include <oneapi/dnnl/dnnl.h>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "model/cpu/cpu_parallel.h"

namespace starling::model {

namespace {

constexpr std::int64_t kTileMin = 32;             // rows or columns
constexpr std::int64_t kTileWorkMin = 4'000'000;  // multiply-adds: about 70 us on one core
constexpr std::int64_t kTilesPerThread = 4;       // slack for a worker that loses its core
constexpr int kPartsPerThread = 4;                // of a depth, whose sums are kept

struct Tile {
  std::int64_t rows, columns;
};

// With AVX2 oneDNN reads the operands of a small product where they lie (2.6,
// src/cpu/x64/gemm/gemm_driver.cpp, nocopy_checker_avx2). Where those rows of one that are
// multiplied one after the other lie whole pages apart, all fall into the same few lines of the
// nearest cache: half as fast, on a Zen 3, as what is large enough to be copied.
bool is_slow(const Tile& tile, const Gemm& args) {
  constexpr double kReadInPlace = 0.0038;
  constexpr std::int64_t kPageFloats = 1024;
#if defined(__x86_64__)
  static const bool is_avx2 = !__builtin_cpu_supports("avx512f");
#else
  constexpr bool is_avx2 = false;
#endif
  const bool collides = (args.left.transposed && args.left.stride % kPageFloats == 0) ||
                        (!args.right.transposed && args.right.stride % kPageFloats == 0);
  return is_avx2 && collides &&
         1.0 / static_cast<double>(tile.rows) + 1.0 / static_cast<double>(tile.columns) >=
             kReadInPlace;
}

// Of those that make so many tasks, the tile that leaves the least to the worker with the most of
// them, and reads the fewest operand values.
Tile even_tile(int threads, std::int64_t tasks, const Gemm& args) {
  Tile best{args.rows, args.columns};
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

// Tasks enough, unless fewer make the library twice as fast.
Tile choose_tile(int threads, const Gemm& args) {
  const std::int64_t work = args.rows * args.columns * args.inner;
  const std::int64_t tasks = std::min(kTilesPerThread * threads, work / kTileWorkMin);
  if (threads == 1 || tasks <= 1) return {args.rows, args.columns};
  const Tile usual = even_tile(threads, tasks, args);
  Tile tile = usual;
  for (std::int64_t fewer = tasks - threads; is_slow(tile, args); fewer -= threads) {
    if (fewer < threads) return usual;
    tile = even_tile(threads, fewer, args);
  }
  return tile;
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

std::size_t depth_sums(int threads) {
  constexpr std::size_t kSums = kSharedSumsBytes / sizeof(float);
  return threads == 1 ? 0 : kPartsPerThread * static_cast<std::size_t>(threads) * kSums;
}

void gemm_by_depth(ThreadTeam& team, const Gemm& args, std::span<float> sums) {
  STARLING_ASSERT(args.keep == 0.0F || args.keep == 1.0F);
  const std::int64_t parts = divide_up(args.inner, kSharedDepth);
  const std::int64_t size = args.rows * args.columns;
  const bool few = size * static_cast<std::int64_t>(sizeof(float)) <= kSharedSumsBytes ||
                   is_slow(choose_tile(team.size(), args), args);
  const std::int64_t at_once = std::min({parts, std::int64_t{kPartsPerThread} * team.size(),
                                         static_cast<std::int64_t>(sums.size()) / size});
  if (team.size() == 1 || !few || !is_even(at_once, team.size())) return parallel_gemm(team, args);
  STARLING_ASSERT(at_once * size <= static_cast<std::int64_t>(sums.size()));
  for (std::int64_t begun = 0; begun < parts; begun += at_once) {
    const std::int64_t count = std::min(at_once, parts - begun);
    team.run(count, [&](std::int64_t index, int /*worker*/) {
      const std::int64_t first = (begun + index) * kSharedDepth;
      Gemm part = args;
      part.left.data = advanced(args.left, 0, first);
      part.right.data = advanced(args.right, first, 0);
      part.inner = std::min(kSharedDepth, args.inner - first);
      part.out = sums.data() + index * size;
      part.out_stride = args.columns;
      part.keep = 0.0F;
      gemm(part);
    });
    // In their order, whoever made them.
    const std::int64_t grain = divide_up(args.rows, kTilesPerThread * team.size());
    parallel_rows(team, {args.rows, grain}, [&](RowRange rows) {
      for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row) {
        float* to = args.out + row * args.out_stride;
        if (begun == 0 && args.keep == 0.0F) std::fill_n(to, args.columns, 0.0F);
        for (std::int64_t index = 0; index < count; ++index) {
          const float* from = sums.data() + index * size + row * args.columns;
          for (std::int64_t column = 0; column < args.columns; ++column) to[column] += from[column];
        }
      }
    });
  }
}

}  // namespace starling::model
