// PackedGemm: matrix products in bf16 on the CPU, by packed panels (gemm_kernel.h):
// sums(r, c) = sum over k of left(r, k) * right(c, k).
//
// The right operand is packed once for all threads, in pieces of a few MiB; then each worker takes
// blocks of rows. What becomes of the sums is said by a function, which gets them in strips while
// they are in the nearest cache, so that it costs no pass of its own.
//
// Thread: the one that may call team.run(). Memory: 4 MiB, and 0.3 MiB for each worker, the
// caller's. Deterministic: sums, and their parts, are made in an order that the sizes alone decide.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_team.h"
#include "model/cpu/gemm_kernel.h"

namespace starling::model {

// One of the two: floats, which are rounded, or bf16.
struct ProductOperand {
  PanelSource<float> floats;
  PanelSource<bf16> halves;

  ProductOperand(const PanelSource<float>& source) : floats(source) {}  // NOLINT: implicit
  ProductOperand(const PanelSource<bf16>& source) : halves(source) {}   // NOLINT: implicit
  ProductOperand at(std::int64_t i, std::int64_t k) const {
    if (floats.data != nullptr) return floats.at(i, k);
    return halves.at(i, k);
  }
};

struct Product {
  ProductOperand left, right;
  std::int64_t rows = 0, columns = 0, depth = 0;
  // Columns that must come in one strip: consecutive ones; with `paired` the same number of the
  // first and of the second half of the columns.
  std::int64_t strip = kPanelColumns;
  bool paired = false;
};

// Sums of `columns` columns from `column` on, in `rows` rows from `row` on. Paired, those of the
// second half are at sums + pair. Very deep sums come in several parts: `adds` says that parts of
// them came before.
struct Strip {
  const float* sums = nullptr;
  std::int64_t stride = 0, pair = 0;
  std::int64_t row = 0, rows = 0;
  std::int64_t column = 0, columns = 0;
  bool adds = false;
};

// Refers to a callable that outlives it; called by any worker, for strips that do not overlap.
class StripStore {
 public:
  template <class Store>
  StripStore(const Store& store)  // NOLINT: implicit
      : store_(&store),
        call_([](const void* to, const Strip& strip) { (*static_cast<const Store*>(to))(strip); }) {
  }
  void operator()(const Strip& strip) const { call_(store_, strip); }

 private:
  const void* store_;
  void (*call_)(const void* store, const Strip& strip);
};

// Up to this depth sums come in one piece.
inline constexpr std::int64_t kPackedDepth = 4096;

class PackedGemm {
 public:
  static std::size_t memory_bytes(int workers);
  // `memory`: so much, aligned to 64 bytes, for as long as it lives.
  PackedGemm(const GemmKernel& kernel, ThreadTeam& team, std::byte* memory);

  void run(const Product& product, const StripStore& store);
  // The same where each worker wrote its share of the depth, as it did of the tokens that a
  // weight's gradient is summed over. Where the sums are few, each worker makes its own of what is
  // in its cache, in parts of kSharedDepth, and the parts are told one after the other, as of a
  // very deep sum. Not for paired products.
  void run_by_depth(const Product& product, const StripStore& store);

 private:
  struct Plan;
  class BlockOfRows;
  class PartialSums;
  struct Parts {  // of the depth, whose sums lie in pieces of so many bytes
    std::int64_t first, count;
    std::size_t piece;
  };
  void run_part(const Product& product, bool adds, const StripStore& store);
  void run_parts(const Product& product, std::int64_t depth, const StripStore& store);
  void tell_parts(const Product& product, const Parts& made, const StripStore& store);
  void pack_panel(const Product& product, const Plan& plan, std::int64_t index,
                  std::byte* to) const;
  void pack_right(const Product& product, const Plan& plan, std::int64_t first_strip,
                  std::int64_t strips);
  void multiply(const Product& product, const Plan& plan, std::int64_t first_strip,
                std::int64_t strips, const StripStore& store);

  const GemmKernel& kernel_;
  ThreadTeam& team_;
  std::byte* right_;  // packed strips, shared by all workers
  std::byte* left_;   // of one worker after the other: packed rows, then sums
};

}  // namespace starling::model
