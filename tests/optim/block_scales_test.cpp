#include "optim/block_scales.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"
#include "optim/lattice.h"
#include "tests/optim/codec_support.h"

namespace starling::optim {

namespace {

constexpr std::size_t kCount = 2 * kBlockParameters + 100;

std::vector<std::int8_t> exponents_of(const BlockScales& scales, WireFormat format,
                                      const std::vector<float>& slow) {
  std::vector<std::int8_t> exponents(scales.blocks());
  scales.exponents(format, slow, exponents);
  return exponents;
}

// Exchanges with partners that differ by `draw`, each block on a scale of its own. Returns the
// share of blocks that were skipped after the first exchanges.
double share_skipped(WireFormat format, float (*draw)(Rng&)) {
  Rng rng(92);
  constexpr std::size_t kBlocks = 64;
  BlockScales scales(kBlocks * kBlockParameters);
  const auto slow = normal_values(rng, kBlocks * kBlockParameters, 0.02f);
  std::size_t skipped = 0;
  constexpr int kWarmUp = 5;
  constexpr int kRounds = 30;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> other = slow;
    for (std::size_t i = 0; i < other.size(); ++i) {
      other[i] += 1e-4f * (1.0f + static_cast<float>(i / kBlockParameters)) * draw(rng);
    }
    const WireFormat used = scales.cold() ? WireFormat::kBf16 : format;
    std::vector<std::byte> push(push_bytes(used, slow.size()));
    std::vector<std::byte> delta(delta_bytes(used, slow.size()));
    std::vector<BlockReport> blocks(kBlocks);
    const std::uint64_t key = rng.next();
    REQUIRE(encode_push(used, key, slow, exponents_of(scales, used, slow), push).ok());
    auto made = make_delta(key, push, other, 0.0f, delta, blocks);
    REQUIRE(made.ok());
    scales.observe(blocks, made.value().clip_factor, made.value().format);
    if (round >= kWarmUp) skipped += made.value().blocks_skipped;
  }
  return static_cast<double>(skipped) / (kBlocks * (kRounds - kWarmUp));
}

}  // namespace

TEST_CASE("block scales are cold until anything was compared") {
  BlockScales scales(kCount);
  CHECK(scales.cold());
  CHECK(scales.blocks() == 3);
  scales.observe(std::vector<BlockReport>(3, {0.0, 0.0f, 1.0f}), 1.0f);  // all were skipped
  CHECK(scales.cold());
  scales.observe(blocks_of(kCount, 0.0f), 1.0f);
  CHECK_FALSE(scales.cold());
  CHECK(scales.rms() == 0);
  scales.observe(blocks_of(kCount, 0.5f), 1.0f);
  CHECK(!scales.cold());
  CHECK(scales.rms() == doctest::Approx(0.5));
}

TEST_CASE("steps reach five times the usual, a quarter more than the largest, further with bits") {
  for (const auto& [format, slack] :
       {std::pair{WireFormat::kMod8, 3.0}, std::pair{WireFormat::kMod6, 2.0},
        std::pair{WireFormat::kMod5, 1.25}, std::pair{WireFormat::kMod4, 1.0}}) {
    CAPTURE(to_string(format));
    const std::vector<float> slow(kCount, 0.01f);
    BlockScales scales(kCount);
    std::vector<float> difference(kCount, 0.001f);
    difference[kBlockParameters] = 0.1f;  // a heavy tail in the second block
    scales.observe(blocks_of(difference), 1.0f);
    const auto exponents = exponents_of(scales, format, slow);
    const double first = slack * 5.0 * 0.001 / largest_code(format);
    const double second = slack * 1.25 * 0.1 / largest_code(format);
    for (const auto& [block, step] : {std::pair{0, first}, std::pair{1, second}}) {
      CHECK(lattice_step(exponents[block]) >= step * 0.9999);
      CHECK(lattice_step(exponents[block] - 1) < step);
    }
  }
}

TEST_CASE("steps are never too small for the weights") {
  BlockScales scales(kCount);
  scales.observe(blocks_of(kCount, 1e-12f), 1.0f);
  Rng rng(91);
  for (const float size : {1e-6f, 1.0f, 1e6f}) {
    CAPTURE(size);
    const auto slow = normal_values(rng, kCount, size);
    const auto exponents = exponents_of(scales, WireFormat::kMod8, slow);
    std::vector<std::byte> push(push_bytes(WireFormat::kMod8, kCount));
    CHECK(encode_push(WireFormat::kMod8, 1, slow, exponents, push).ok());
  }
}

TEST_CASE("scales are averages over exchanges and undo the clipping") {
  BlockScales scales(kCount);
  scales.observe(blocks_of(kCount, 1.0f), 1.0f);
  scales.observe(blocks_of(kCount, 2.0f), 1.0f);
  CHECK(scales.rms() == doctest::Approx(0.7 * 1.0 + 0.3 * 2.0));
  BlockScales clipped(kCount);
  clipped.observe(blocks_of(kCount, 0.5f), 0.25f);
  CHECK(clipped.rms() == doctest::Approx(2.0));
}

TEST_CASE("a skipped block has a step twice as large next time and the others keep theirs") {
  for (const WireFormat format : kModularFormats) {
    CAPTURE(to_string(format));
    const std::vector<float> slow(kCount, 0.01f);
    BlockScales scales(kCount);
    scales.observe(blocks_of(kCount, 0.001f), 1.0f);
    const auto before = exponents_of(scales, format, slow);
    std::vector<BlockReport> blocks = blocks_of(kCount, 0.001f);
    blocks[1] = {0.0, 0.0f, lattice_step(before[1]) * static_cast<float>(largest_code(format))};
    scales.observe(blocks, 1.0f, format);
    const auto after = exponents_of(scales, format, slow);
    CHECK(after[0] == before[0]);
    CHECK(after[1] == before[1] + 4);
    CHECK(after[2] == before[2]);
    CHECK(scales.rms() == doctest::Approx(0.001));
  }
}

TEST_CASE("a partner whose codes reached less far than this scale tells it nothing") {
  const std::vector<float> slow(kCount, 0.01f);
  BlockScales scales(kCount);
  scales.observe(blocks_of(kCount, 0.001f), 1.0f);
  const auto before = exponents_of(scales, WireFormat::kMod4, slow);
  std::vector<BlockReport> blocks = blocks_of(kCount, 0.001f);
  blocks[1] = {0.0, 0.0f, lattice_step(before[1] - 16) * 7};
  for (int i = 0; i < 20; ++i) scales.observe(blocks, 1.0f, WireFormat::kMod4);
  CHECK(exponents_of(scales, WireFormat::kMod4, slow)[1] == before[1]);
}

TEST_CASE("a block that never differed is guessed to differ like its stripe") {
  const std::vector<float> slow(kCount, 0.01f);
  BlockScales scales(kCount);
  std::vector<float> difference(kCount, 0.0f);
  std::fill_n(difference.begin(), kBlockParameters, 0.001f);
  scales.observe(blocks_of(difference), 1.0f);
  const auto exponents = exponents_of(scales, WireFormat::kMod8, slow);
  CHECK(lattice_step(exponents[1]) * 127 >= 4.9 * scales.rms());
}

// How many exchanges in modular codes of a difference of `size` it takes until none is left out.
int exchanges_until_through(BlockScales& scales, float size) {
  const std::vector<float> slow(kCount, 0.02f);
  std::vector<float> other = slow;
  for (std::size_t i = 0; i < kCount; i += 2) other[i] += size;
  for (int exchange = 1; exchange <= 20; ++exchange) {
    std::vector<std::byte> push(push_bytes(WireFormat::kMod8, kCount));
    std::vector<std::byte> delta(delta_bytes(WireFormat::kMod8, kCount));
    std::vector<BlockReport> blocks(scales.blocks());
    const auto exponents = exponents_of(scales, WireFormat::kMod8, slow);
    REQUIRE(encode_push(WireFormat::kMod8, 7, slow, exponents, push).ok());
    auto made = make_delta(7, push, other, 0.0f, delta, blocks);
    REQUIRE(made.ok());
    scales.observe(blocks, made.value().clip_factor, made.value().format);
    if (made.value().blocks_skipped == 0) return exchange;
  }
  return 21;
}

TEST_CASE("a stripe that begins to differ soon comes through, by what is usual in its fragment") {
  BlockScales scales(kCount);
  for (int i = 0; i < 5; ++i) scales.observe(blocks_of(kCount, 0.0f), 1.0f);
  BlockScales lost = scales;
  scales.guess(1e-4);
  CHECK(exchanges_until_through(scales, 1e-3f) <= 2);
  CHECK(exchanges_until_through(lost, 1e-3f) > 20);  // whence the guess
}

TEST_CASE("a block that has rested for long soon comes through again") {
  BlockScales scales(kCount);
  scales.observe(blocks_of(kCount, 1e-3f), 1.0f);
  std::vector<float> difference(kCount, 1e-3f);
  std::fill_n(difference.begin() + kBlockParameters, kBlockParameters, 0.0f);
  for (int i = 0; i < 60; ++i) scales.observe(blocks_of(difference), 1.0f);
  CHECK(exchanges_until_through(scales, 1e-3f) <= 7);  // a 256th, doubled and doubled
}

BlockScales scales_of(float difference) {
  BlockScales scales(kCount);
  scales.observe(blocks_of(kCount, difference), 1.0f);
  return scales;
}

TEST_CASE("a stripe of which most has wrapped is lost, and then differs as it is seen to") {
  const std::vector<float> slow(kCount, 0.02f);
  BlockScales scales = scales_of(5e-4f);
  const BlockReport wrapped{.skipped_reach = 2.5e-3f};
  std::vector<BlockReport> blocks = blocks_of(kCount, 5e-4f);
  blocks[0] = wrapped;
  scales.observe(blocks, 1.0f, WireFormat::kMod4);
  CHECK_FALSE(scales.lost());
  blocks[2] = wrapped;
  scales.observe(blocks, 1.0f, WireFormat::kMod4);
  CHECK(scales.lost());
  for (const float difference : {7e-3f, 5e-4f}) {  // more than it was, and as it was
    BlockScales next = scales;
    next.observe(blocks_of(kCount, difference), 1.0f, WireFormat::kBf16);
    CHECK_FALSE(next.lost());
    CHECK(exponents_of(next, WireFormat::kMod8, slow) ==
          exponents_of(scales_of(difference), WireFormat::kMod8, slow));
  }
  // Who says that all has wrapped, and then that it hardly differs, is believed by so much.
  const int before = exponents_of(scales, WireFormat::kMod8, slow)[1];
  scales.observe(blocks_of(kCount, 1e-9f), 1.0f, WireFormat::kBf16);
  CHECK(exponents_of(scales, WireFormat::kMod8, slow)[1] >= before - 16);
}

TEST_CASE("one hostile exchange moves a scale by a bounded factor") {
  const std::vector<float> slow(kCount, 0.01f);
  BlockScales scales(kCount);
  scales.observe(blocks_of(kCount, 0.001f), 1.0f);
  const auto before = exponents_of(scales, WireFormat::kMod8, slow);
  BlockScales skipped = scales;
  skipped.observe(std::vector<BlockReport>(3, {0.0, 0.0f, 1e11f}), 1.0f, WireFormat::kMod4);
  BlockScales claimed = scales;
  claimed.observe(blocks_of(kCount, 1e30f), 1e-30f);
  for (const BlockScales& after : {skipped, claimed}) {
    const auto exponents = exponents_of(after, WireFormat::kMod8, slow);
    for (std::size_t b = 0; b < 3; ++b) CHECK(exponents[b] <= before[b] + 16);
    CHECK(after.rms() <= 16.0 * scales.rms());
  }
}

TEST_CASE("no codes, however often and far they wrap, widen a scale beyond the weights") {
  const std::vector<float> slow(kCount, 0.01f);
  const BlockReport far{.skipped_reach = 1e11f, .own_largest = 0.01f};
  // Sixteen times as large a stripe as this one is what the gate lets through.
  const BlockReport out{.sum_of_squares = 26, .max_abs = 5, .own_largest = 0.01f};
  for (const BlockReport& block : {far, out}) {
    BlockScales scales(kCount);
    scales.observe(blocks_of(kCount, 0.001f), 1.0f);
    for (int i = 0; i < 100; ++i) scales.observe(std::vector<BlockReport>(3, block), 1.0f);
    const auto exponents = exponents_of(scales, WireFormat::kMod8, slow);
    CHECK(lattice_step(exponents[0]) * 127 > 0.01f);  // as far as the weights of others may be
    // 1.25 of the largest or five times the usual, three times that in eight bits, and rounded up.
    CHECK(lattice_step(exponents[0]) * 127 <= 1.2 * 3 * 5 * BlockScales::kReachOfWeights * 0.01);
  }
}

TEST_CASE("steady differences wrap seldom once the scales are warm") {
  for (const WireFormat format : kModularFormats) {
    CAPTURE(to_string(format));
    CHECK(share_skipped(format, [](Rng& rng) { return rng.normal(); }) < 0.002);
    // Products of normals have kurtosis 9: their largest differ much from exchange to exchange.
    CHECK(share_skipped(format, [](Rng& rng) { return rng.normal() * rng.normal(); }) < 0.05);
  }
}

TEST_CASE("block scales survive a checkpoint and a damaged one is refused") {
  Rng rng(93);
  const auto slow = normal_values(rng, kCount, 0.02f);
  BlockScales scales(kCount);
  scales.observe(blocks_of(normal_values(rng, kCount, 0.001f)), 1.0f);
  std::vector<float> state(scales.state_floats());
  scales.save(state);
  BlockScales restored(kCount);
  REQUIRE(restored.restore(state).ok());
  CHECK(exponents_of(restored, WireFormat::kMod4, slow) ==
        exponents_of(scales, WireFormat::kMod4, slow));
  CHECK(restored.rms() == doctest::Approx(scales.rms()));
  CHECK(!restored.restore(std::vector<float>(3, 1.0f)).ok());
  state[2] = std::nanf("");
  CHECK(!restored.restore(state).ok());
  state[2] = -1.0f;
  CHECK(!restored.restore(state).ok());
}

}  // namespace starling::optim
