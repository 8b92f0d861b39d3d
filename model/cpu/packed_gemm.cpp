#include "model/cpu/packed_gemm.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "model/cpu/cpu_parallel.h"

namespace starling::model {

namespace {

// Packed at a time: for all workers, in a cache that they share; of one, in its own.
constexpr std::size_t kRightBytes = std::size_t{4} << 20;
constexpr std::size_t kLeftBytes = std::size_t{256} << 10;
constexpr std::int64_t kSumsMax = 32 * 512;  // of one tile of a strip
constexpr std::size_t kWorkerBytes = kLeftBytes + sizeof(float) * kSumsMax;
constexpr std::int64_t kBlockTiles = 8;      // at most, in a block of rows
constexpr std::int64_t kTasksPerThread = 4;  // slack for a worker that loses its core

// Tiles of a block, at most `most`, so that the worker with the most blocks has the least to do. A
// block is taken to cost an eighth of a tile beside its tiles.
std::int64_t choose_block(std::int64_t tiles, int threads, std::int64_t most) {
  std::int64_t best = 1, best_cost = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t block = std::max<std::int64_t>(1, most); block >= 1; --block) {
    const std::int64_t cost = divide_up(divide_up(tiles, block), threads) * (8 * block + 1);
    if (cost >= best_cost) continue;
    best_cost = cost;
    best = block;
  }
  return best;
}

// Of its depth, from `first` on, at most `most`.
Product part_of(const Product& product, std::int64_t first, std::int64_t most) {
  Product part = product;
  part.left = product.left.at(0, first);
  part.right = product.right.at(0, first);
  part.depth = std::min(most, product.depth - first);
  return part;
}

}  // namespace

// How a product is cut.
struct PackedGemm::Plan {
  std::int64_t parts;         // 2 of a paired strip, else 1
  std::int64_t part_columns;  // all columns of one part
  std::int64_t strips;
  std::int64_t part_panels;       // of one part of a strip
  std::size_t panel_bytes;        // of the right operand
  std::int64_t strips_at_a_time;  // are packed
  bool direct;                    // the left operand is not packed
  std::int64_t block;             // rows
  std::int64_t blocks;
  std::int64_t groups;  // of strips, each of which packs its rows: where blocks are too few
  bool adds;

  Plan(const GemmKernel& kernel, const Product& product, int threads, bool part) : adds(part) {
    parts = product.paired ? 2 : 1;
    part_columns = product.columns / parts;
    strips = divide_up(part_columns, product.strip);
    part_panels = divide_up(product.strip, kPanelColumns);
    panel_bytes = kernel.right_bytes(product.depth);
    const std::size_t strip_bytes = panel_bytes * static_cast<std::size_t>(panels());
    strips_at_a_time = std::max<std::int64_t>(
        1, std::min(strips, static_cast<std::int64_t>(kRightBytes / strip_bytes)));
    const PanelSource<bf16>& halves = product.left.halves;
    direct = kernel.reads_rows && halves.data != nullptr && !halves.transposed &&
             product.depth % kernel.depth_step == 0;
    const std::int64_t tiles = divide_up(product.rows, kernel.left_rows);
    const auto fit = static_cast<std::int64_t>(kLeftBytes / kernel.left_bytes(product.depth));
    const std::int64_t wanted = divide_up(tiles, kTasksPerThread * threads);
    block = kernel.left_rows * choose_block(tiles, threads, std::min({wanted, fit, kBlockTiles}));
    blocks = divide_up(product.rows, block);
    groups = std::min(divide_up(2 * threads, blocks), strips_at_a_time);
    if (threads == 1) groups = 1;
  }
  std::int64_t panels() const { return parts * part_panels; }  // of a strip
  // Columns of the strip's part that are there.
  std::int64_t columns_of(const Product& product, std::int64_t strip) const {
    return std::min(product.strip, part_columns - strip * product.strip);
  }
  // Those of one of its panels; the last strip may have panels without any.
  std::int64_t columns_of(const Product& product, std::int64_t strip, std::int64_t panel) const {
    const std::int64_t before = panel % part_panels * kPanelColumns;
    return std::clamp<std::int64_t>(columns_of(product, strip) - before, 0, kPanelColumns);
  }
};

// What one worker does with some rows: packs them if need be and multiplies them with strips.
class PackedGemm::BlockOfRows {
 public:
  BlockOfRows(const PackedGemm& gemm, const Product& product, const Plan& plan, int worker,
              std::int64_t row)
      : kernel_(gemm.kernel_),
        product_(product),
        plan_(plan),
        row_(row),
        rows_(std::min(plan.block, product.rows - row)) {
    std::byte* packed = gemm.left_ + static_cast<std::size_t>(worker) * kWorkerBytes;
    sums_ = reinterpret_cast<float*>(packed + kLeftBytes);
    kernel_.begin();
    pack(packed);
  }
  ~BlockOfRows() { kernel_.end(); }
  BlockOfRows(const BlockOfRows&) = delete;
  BlockOfRows& operator=(const BlockOfRows&) = delete;

  // Stored tile by tile, while it is near.
  void multiply(const std::byte* right, std::int64_t strip, const StripStore& store) const {
    for (std::int64_t at = 0; at < rows_; at += kernel_.left_rows) {
      const std::int64_t count = std::min(kernel_.left_rows, rows_ - at);
      const LeftPanel left = panel(at / kernel_.left_rows);
      for (std::int64_t panel = 0; panel < plan_.panels(); ++panel) {
        if (plan_.columns_of(product_, strip, panel) == 0) continue;
        kernel_.multiply(left, right + static_cast<std::size_t>(panel) * plan_.panel_bytes,
                         product_.depth,
                         {.sums = sums_ + panel * kPanelColumns,
                          .stride = kPanelColumns * plan_.panels(),
                          .rows = count});
      }
      store({.sums = sums_,
             .stride = kPanelColumns * plan_.panels(),
             .pair = plan_.part_panels * kPanelColumns,
             .row = row_ + at,
             .rows = count,
             .column = strip * product_.strip,
             .columns = plan_.columns_of(product_, strip),
             .adds = plan_.adds});
    }
  }

 private:
  void pack(std::byte* packed) {
    left_ = packed;
    left_stride_ = kernel_.padded_depth(product_.depth) * static_cast<std::int64_t>(sizeof(bf16));
    whole_tiles_ = plan_.direct ? rows_ / kernel_.left_rows : 0;
    if (plan_.direct) direct_ = product_.left.at(row_, 0).halves;
    // Of an operand that is read where it lies, what does not fill a tile is packed all the same.
    const std::int64_t at = whole_tiles_ * kernel_.left_rows;
    if (at == rows_) return;
    const ProductOperand from = product_.left.at(row_ + at, 0);
    if (from.floats.data != nullptr) {
      kernel_.pack_left(packed, from.floats, {rows_ - at, product_.depth});
    } else {
      kernel_.pack_left_bf16(packed, from.halves, {rows_ - at, product_.depth});
    }
  }
  std::size_t offset_of(std::int64_t tile) const {
    return static_cast<std::size_t>(tile - whole_tiles_) * kernel_.left_bytes(product_.depth);
  }
  LeftPanel panel(std::int64_t tile) const {
    if (tile >= whole_tiles_) return {left_ + offset_of(tile), left_stride_};
    return {direct_.at(tile * kernel_.left_rows, 0).data,
            direct_.stride * static_cast<std::int64_t>(sizeof(bf16))};
  }

  const GemmKernel& kernel_;
  const Product& product_;
  const Plan& plan_;
  const std::int64_t row_, rows_;
  std::int64_t whole_tiles_ = 0;  // that are read where they lie
  PanelSource<bf16> direct_;
  const std::byte* left_ = nullptr;
  std::int64_t left_stride_ = 0;
  float* sums_ = nullptr;
};

std::size_t PackedGemm::memory_bytes(int workers) {
  return kRightBytes + static_cast<std::size_t>(workers) * kWorkerBytes;
}

PackedGemm::PackedGemm(const GemmKernel& kernel, ThreadTeam& team, std::byte* memory)
    : kernel_(kernel), team_(team), right_(memory), left_(memory + kRightBytes) {}

void PackedGemm::run(const Product& product, const StripStore& store) {
  STARLING_ASSERT(!product.paired || product.columns % 2 == 0);
  if (product.rows == 0 || product.columns == 0) return;
  run_parts(product, kPackedDepth, store);
}

void PackedGemm::run_parts(const Product& product, std::int64_t depth, const StripStore& store) {
  for (std::int64_t k = 0; k < product.depth; k += depth) {
    run_part(part_of(product, k, depth), k > 0, store);
  }
}

void PackedGemm::run_part(const Product& product, bool adds, const StripStore& store) {
  const Plan plan(kernel_, product, team_.size(), adds);
  STARLING_ASSERT(kernel_.left_rows * plan.panels() * kPanelColumns <= kSumsMax);
  STARLING_ASSERT(static_cast<std::size_t>(plan.panels()) * plan.panel_bytes <= kRightBytes);
  for (std::int64_t first = 0; first < plan.strips; first += plan.strips_at_a_time) {
    const std::int64_t count = std::min(plan.strips_at_a_time, plan.strips - first);
    pack_right(product, plan, first, count);
    multiply(product, plan, first, count, store);
  }
}

void PackedGemm::pack_right(const Product& product, const Plan& plan, std::int64_t first_strip,
                            std::int64_t strips) {
  const std::int64_t panels = plan.panels();
  team_.run(strips * panels, [&](std::int64_t task, int /*worker*/) {
    pack_panel(product, plan, first_strip * panels + task,
               right_ + static_cast<std::size_t>(task) * plan.panel_bytes);
  });
}

// `index`: of the product's panels, strip by strip.
void PackedGemm::pack_panel(const Product& product, const Plan& plan, std::int64_t index,
                            std::byte* to) const {
  const std::int64_t strip = index / plan.panels(), panel = index % plan.panels();
  const PanelSize size{plan.columns_of(product, strip, panel), product.depth};
  if (size.count == 0) return;
  const std::int64_t part = panel / plan.part_panels;
  const std::int64_t within = panel % plan.part_panels * kPanelColumns;
  const std::int64_t column = part * plan.part_columns + strip * product.strip + within;
  const ProductOperand right = product.right.at(column, 0);
  if (right.floats.data != nullptr) {
    kernel_.pack_right(to, right.floats, size);
  } else {
    kernel_.pack_right_bf16(to, right.halves, size);
  }
}

void PackedGemm::multiply(const Product& product, const Plan& plan, std::int64_t first_strip,
                          std::int64_t strips, const StripStore& store) {
  const std::int64_t groups = std::min(plan.groups, strips);
  team_.run(plan.blocks * groups, [&](std::int64_t task, int worker) {
    const std::int64_t row = task / groups * plan.block, group = task % groups;
    BlockOfRows block(*this, product, plan, worker, row);
    for (std::int64_t strip = strips * group / groups; strip < strips * (group + 1) / groups;
         ++strip) {
      block.multiply(right_ + static_cast<std::size_t>(strip * plan.panels()) * plan.panel_bytes,
                     first_strip + strip, store);
    }
  });
}

// Sums of one part of the depth, made by one worker in its piece of the memory for right operands:
// row by row, and behind them what it packed.
class PackedGemm::PartialSums {
 public:
  PartialSums(const PackedGemm& gemm, const Product& product)
      : gemm_(gemm), product_(product), plan_(gemm.kernel_, product, 1, false) {}

  std::size_t bytes() const {
    return sums_bytes() + static_cast<std::size_t>(panels()) * plan_.panel_bytes;
  }
  void make(std::byte* memory, int worker) const {
    std::byte* const packed = memory + sums_bytes();
    for (std::int64_t panel = 0; panel < panels(); ++panel) {
      gemm_.pack_panel(product_, plan_, panel, packed + offset(panel));
    }
    float* const sums = reinterpret_cast<float*>(memory);
    const auto keep = [&](const Strip& strip) {
      float* to = sums + strip.row * product_.columns + strip.column;
      for (std::int64_t row = 0; row < strip.rows; ++row, to += product_.columns) {
        std::copy_n(strip.sums + row * strip.stride, strip.columns, to);
      }
    };
    for (std::int64_t row = 0; row < product_.rows; row += plan_.block) {
      const BlockOfRows block(gemm_, product_, plan_, worker, row);
      for (std::int64_t strip = 0; strip < plan_.strips; ++strip) {
        block.multiply(packed + offset(strip * plan_.panels()), strip, keep);
      }
    }
  }

 private:
  std::int64_t panels() const { return plan_.strips * plan_.panels(); }
  std::size_t offset(std::int64_t panel) const {
    return static_cast<std::size_t>(panel) * plan_.panel_bytes;
  }
  std::size_t sums_bytes() const {
    return (static_cast<std::size_t>(product_.rows * product_.columns) * sizeof(float) + 63) / 64 *
           64;
  }

  const PackedGemm& gemm_;
  const Product& product_;
  const Plan plan_;
};

void PackedGemm::run_by_depth(const Product& product, const StripStore& store) {
  STARLING_ASSERT(!product.paired);
  if (product.rows == 0 || product.columns == 0) return;
  const std::int64_t parts = divide_up(product.depth, kSharedDepth);
  const std::int64_t sums_bytes =
      product.rows * product.columns * static_cast<std::int64_t>(sizeof(float));
  if (parts < 2 || sums_bytes > kSharedSumsBytes) return run(product, store);
  const Product largest = part_of(product, 0, kSharedDepth);
  const std::size_t piece = PartialSums(*this, largest).bytes();
  const std::int64_t size = team_.size();
  const auto room = static_cast<std::int64_t>(kRightBytes / piece);
  const std::int64_t at_once = std::min(parts, room - room % size);
  if (size == 1 || !is_even(at_once, size)) return run_parts(product, kSharedDepth, store);
  for (std::int64_t begun = 0; begun < parts; begun += at_once) {
    const std::int64_t count = std::min(at_once, parts - begun);
    team_.run(count, [&](std::int64_t part, int worker) {
      const Product own = part_of(product, (begun + part) * kSharedDepth, kSharedDepth);
      PartialSums(*this, own).make(right_ + static_cast<std::size_t>(part) * piece, worker);
    });
    tell_parts(product, {begun, count, piece}, store);
  }
}

// In their order, whoever made them.
void PackedGemm::tell_parts(const Product& product, const Parts& made, const StripStore& store) {
  const std::int64_t grain = divide_up(product.rows, kTasksPerThread * team_.size());
  parallel_rows(team_, {.rows = product.rows, .grain = grain}, [&](RowRange rows) {
    for (std::int64_t part = 0; part < made.count; ++part) {
      const auto* sums =
          reinterpret_cast<const float*>(right_ + static_cast<std::size_t>(part) * made.piece);
      store({.sums = sums + rows.first * product.columns,
             .stride = product.columns,
             .row = rows.first,
             .rows = rows.count,
             .columns = product.columns,
             .adds = made.first + part > 0});
    }
  });
}

}  // namespace starling::model
