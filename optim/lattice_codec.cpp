#include "optim/lattice_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "base/vector_clones.h"
#include "optim/lattice.h"
#include "optim/vector_math.h"

namespace starling::optim::lattice_codec {

namespace {

// Where block `index` of a stripe of `parameters` lies.
struct BlockPlace {
  std::size_t first;       // parameter
  std::size_t count;       // parameters
  std::size_t first_byte;  // of its codes
};

BlockPlace place_of(WireFormat format, std::size_t index, std::size_t parameters) {
  const std::size_t first = index * kBlockParameters;
  return {first, std::min(kBlockParameters, parameters - first),
          index * packed_bytes(code_bits(format), kBlockParameters)};
}

std::size_t bitmap_bytes(std::size_t blocks) { return (blocks + 7) / 8; }

std::size_t code_bytes(WireFormat format, std::size_t parameters) {
  const BlockPlace last = place_of(format, block_count(parameters) - 1, parameters);
  return last.first_byte + packed_bytes(code_bits(format), last.count);
}

bool has_coordinates(float largest, float step) { return largest / step <= kCoordinateMax; }

Result<int> read_exponent(std::byte value) {
  const auto exponent = static_cast<std::int8_t>(value);
  if (exponent < kExponentMin) return Error(ErrorCode::kProtocol, "step exponent out of range");
  return int{exponent};
}

STARLING_VECTOR_CLONES
void scale_loop(const std::int32_t* codes, float scale, float* difference, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    difference[i] = scale * static_cast<float>(codes[i]);
  }
}

struct CodeStats {
  std::uint32_t sum_of_squares = 0;
  std::int32_t largest = 0;
  std::int32_t least = 0;  // the most negative
};

STARLING_VECTOR_CLONES
CodeStats measure_codes(const std::int32_t* codes, std::size_t count) {
  std::uint32_t squares = 0;
  std::int32_t largest = 0;
  std::int32_t least = 0;
  for (std::size_t i = 0; i < count; ++i) {
    squares += static_cast<std::uint32_t>(codes[i] * codes[i]);
    largest = std::max(largest, codes[i]);
    least = std::min(least, codes[i]);
  }
  return {squares, largest, least};
}

// Of codes that count in steps.
VectorStats in_weights(float step, std::uint32_t sum_of_squares, std::int32_t largest) {
  const double wide = step;
  return {wide * wide * sum_of_squares, step * static_cast<float>(largest), true};
}

float reach_of(WireFormat format, float step) {
  return step * static_cast<float>(largest_code(format));
}

// The parts of a DELTA body. Byte is std::byte or const std::byte.
template <class Byte>
struct DeltaParts {
  std::span<Byte> bitmap, exponents, codes;

  DeltaParts(std::span<Byte> body, std::size_t blocks)
      : bitmap(body.first(bitmap_bytes(blocks))),
        exponents(body.subspan(bitmap.size(), blocks)),
        codes(body.subspan(bitmap.size() + blocks)) {}
  bool skipped(std::size_t block) const {
    return (std::to_integer<unsigned>(bitmap[block / 8]) >> (block % 8) & 1U) != 0;
  }
};

}  // namespace

std::size_t push_body_bytes(WireFormat format, std::size_t parameters) {
  return block_count(parameters) * (sizeof(std::uint32_t) + 1) + code_bytes(format, parameters);
}

std::size_t delta_body_bytes(WireFormat format, std::size_t parameters) {
  const std::size_t blocks = block_count(parameters);
  return bitmap_bytes(blocks) + blocks + code_bytes(format, parameters);
}

Status encode_push(WireFormat format, std::uint64_t key, std::span<const float> slow,
                   std::span<const std::int8_t> exponents, std::span<std::byte> body) {
  const std::size_t blocks = block_count(slow.size());
  STARLING_ASSERT(exponents.size() == blocks);
  STARLING_ASSERT(body.size() == push_body_bytes(format, slow.size()));
  std::byte* const checksums = body.data();
  std::byte* const steps = checksums + blocks * sizeof(std::uint32_t);
  std::byte* const codes = steps + blocks;
  BlockWords words;
  BlockIntegers coordinates;
  for (std::size_t b = 0; b < blocks; ++b) {
    const BlockPlace place = place_of(format, b, slow.size());
    const std::span<const float> weights = slow.subspan(place.first, place.count);
    const float largest = largest_magnitude(weights);
    if (!std::isfinite(largest))
      return Error(ErrorCode::kCorrupt, "own slow weights are not finite");
    STARLING_ASSERT(exponents[b] >= kExponentMin);
    const float step = lattice_step(exponents[b]);
    if (!has_coordinates(largest, step)) {
      return Error(ErrorCode::kCorrupt,
                   "the step of block " + std::to_string(b) + " is too small for its weights");
    }
    draw_words(key, static_cast<std::uint32_t>(b), words);
    quantize(weights, step, words, coordinates);
    const std::uint32_t sum = checksum(words, coordinates, place.count);
    std::memcpy(checksums + b * sizeof(sum), &sum, sizeof(sum));
    steps[b] = static_cast<std::byte>(exponents[b]);
    pack(code_bits(format), coordinates, place.count, codes + place.first_byte);
  }
  return ok_status();
}

Result<StripeSums> make_delta(WireFormat format, std::uint64_t key, std::span<const std::byte> push,
                              std::span<const float> slow, std::span<std::byte> delta,
                              std::span<BlockReport> blocks) {
  const std::size_t count_of_blocks = block_count(slow.size());
  STARLING_ASSERT(push.size() == push_body_bytes(format, slow.size()));
  STARLING_ASSERT(delta.size() == delta_body_bytes(format, slow.size()));
  const int bits = code_bits(format);
  const std::byte* const checksums = push.data();
  const std::byte* const steps = checksums + count_of_blocks * sizeof(std::uint32_t);
  const std::byte* const codes = steps + count_of_blocks;
  const DeltaParts<std::byte> out(delta, count_of_blocks);
  std::fill(out.bitmap.begin(), out.bitmap.end(), std::byte{0});
  StripeSums sums;
  BlockWords words;
  BlockIntegers mine;
  BlockIntegers theirs;
  BlockIntegers differences;
  for (std::size_t b = 0; b < count_of_blocks; ++b) {
    const BlockPlace place = place_of(format, b, slow.size());
    const std::span<const float> weights = slow.subspan(place.first, place.count);
    const VectorStats own = measure(weights);
    if (!own.finite) return Error(ErrorCode::kCorrupt, "own slow weights are not finite");
    sums.own += own.sum_of_squares;
    auto exponent = read_exponent(steps[b]);
    if (!exponent.ok()) return std::move(exponent).error();
    out.exponents[b] = steps[b];
    const float step = lattice_step(exponent.value());
    bool good = has_coordinates(own.max_abs, step);
    BlockReport report;
    if (good) {
      draw_words(key, static_cast<std::uint32_t>(b), words);
      quantize(weights, step, words, mine);
      unpack(bits, codes + place.first_byte, place.count, theirs);
      const BlockDifference found = subtract(bits, words, mine, theirs, place.count, differences);
      std::uint32_t claimed = 0;
      std::memcpy(&claimed, checksums + b * sizeof(claimed), sizeof(claimed));
      good = found.checksum == claimed;
      if (good) report = sums.add(in_weights(step, found.sum_of_squares, found.largest));
    }
    if (!good) {
      out.bitmap[b / 8] |= static_cast<std::byte>(1U << (b % 8));
      differences.fill(0);
      report = sums.skip(reach_of(format, step));
    }
    report.own_largest = own.max_abs;
    if (!blocks.empty()) blocks[b] = report;
    pack(bits, differences, place.count, out.codes.data() + place.first_byte);
  }
  return sums;
}

Result<StripeSums> decode_delta(WireFormat format, float clip_factor,
                                std::span<const std::byte> delta, std::span<const float> slow,
                                std::span<float> difference, std::span<BlockReport> blocks) {
  const std::size_t count_of_blocks = block_count(difference.size());
  STARLING_ASSERT(delta.size() == delta_body_bytes(format, difference.size()));
  const int bits = code_bits(format);
  const DeltaParts<const std::byte> in(delta, count_of_blocks);
  for (std::size_t b = count_of_blocks; b < in.bitmap.size() * 8; ++b) {
    if (in.skipped(b)) return Error(ErrorCode::kProtocol, "a block that does not exist is skipped");
  }
  StripeSums sums;
  BlockIntegers codes;
  for (std::size_t b = 0; b < count_of_blocks; ++b) {
    const BlockPlace place = place_of(format, b, difference.size());
    float* const target = difference.data() + place.first;
    auto exponent = read_exponent(in.exponents[b]);
    if (!exponent.ok()) return std::move(exponent).error();
    const float step = lattice_step(exponent.value());
    BlockReport report;
    if (in.skipped(b)) {
      std::fill_n(target, place.count, 0.0f);
      report = sums.skip(reach_of(format, step));
    } else {
      unpack(bits, in.codes.data() + place.first_byte, place.count, codes);
      const CodeStats stats = measure_codes(codes.data(), place.count);
      if (stats.least < -largest_code(format)) {
        return Error(ErrorCode::kProtocol, "a difference of half the range has no sign");
      }
      const float scale = clip_factor * step;
      report =
          sums.add(in_weights(scale, stats.sum_of_squares, std::max(stats.largest, -stats.least)));
      scale_loop(codes.data(), scale, target, place.count);
    }
    if (!slow.empty()) {
      const VectorStats own = measure(slow.subspan(place.first, place.count));
      sums.own += own.sum_of_squares;
      report.own_largest = own.max_abs;
    }
    if (!blocks.empty()) blocks[b] = report;
  }
  return sums;
}

}  // namespace starling::optim::lattice_codec
