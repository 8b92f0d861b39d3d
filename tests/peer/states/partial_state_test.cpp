#include "peer/states/partial_state.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_write.h"
#include "peer/io/file_io.h"
#include "peer/states/served_state.h"
#include "peer/states/state_plan.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

namespace {

using gossip::kManifestPiece;
using gossip::PieceStored;
using gossip::StorePiece;

constexpr CheckpointDigests kOurs{.run = 1, .model = 2, .layout = 3};
constexpr PeerId kDonor{5};

model::ParamLayout small_layout() {
  const model::LlamaConfig config{.vocabulary = 300000,  // the embedding is cut into stripes
                                  .width = 2,
                                  .layers = 1,
                                  .heads = 1,
                                  .kv_heads = 1,
                                  .ffn = 4,
                                  .context = 4};
  return model::ParamLayout::plan(config, 2).value();
}

// A donor's checkpoint on disk, opened for service, and a folder to fetch into.
struct World {
  explicit World(std::uint64_t seed = 1)
      : layout(small_layout()), stripes(layout), plan(stripes), image(layout.elements(), true) {
    Rng rng(seed);
    for (auto* values : {&image.weights, &image.first_moment, &image.second_moment, &image.slow,
                         &image.momentum}) {
      for (float& value : *values) value = std::abs(rng.normal());
    }
    image.progress.steps = 30;
    image.progress.tokens = 400;
    image.progress.inherited = 1000;
  }
  ServedState serve() {
    const auto sections = sections_of(image, "");
    CheckpointHeader header;
    header.digests = kOurs;
    REQUIRE(write_checkpoint(folder / "a.ckpt", header, sections.sections).ok());
    auto served = ServedState::open(folder / "a.ckpt", plan, kOurs);
    REQUIRE(served.ok());
    return std::move(served).value();
  }
  PartialState fetch(bool moments = true) {
    auto partial =
        PartialState::open(folder / "join", plan, kOurs, gossip::sections_taken(moments));
    REQUIRE(partial.ok());
    return std::move(partial).value();
  }

  ScratchFolder folder;
  model::ParamLayout layout;
  // Weights and second moments.
  std::vector<std::uint32_t> taken() const {
    std::vector<std::uint32_t> pieces;
    for (std::uint32_t piece = 0; piece < plan.pieces(); ++piece) {
      const std::uint32_t section = plan.piece(piece).section;
      if (section == 0 || section == kSecondMoment) pieces.push_back(piece);
    }
    return pieces;
  }

  StripeTable stripes;
  StatePlan plan;
  CheckpointImage image;
};

std::vector<std::byte> read(const ServedState& served, std::uint32_t piece) {
  std::vector<std::byte> bytes(served.piece_bytes(piece));
  REQUIRE(served.read(piece, bytes).ok());
  return bytes;
}

StorePiece order_of(const ServedState& served, std::uint32_t piece) {
  StorePiece order{kDonor, served.offer().snapshot, piece, {}};
  if (piece >= kManifestPiece) order.expected = served.offer().manifest[piece - kManifestPiece];
  return order;
}

PieceStored store(PartialState& partial, const ServedState& served, std::uint32_t piece) {
  return partial.store(order_of(served, piece), read(served, piece));
}

std::size_t whole(const PartialState& partial) {
  std::size_t stripes = 0;
  for (const std::uint64_t snapshot : partial.held()) stripes += snapshot != 0 ? 1 : 0;
  return stripes;
}

}  // namespace

TEST_CASE("what a donor serves arrives as it stood in its checkpoint") {
  World world;
  const ServedState served = world.serve();
  CHECK(served.offer().step == 30);
  CHECK(served.offer().tokens == 1400);
  REQUIRE(world.plan.stripes() > 3);
  PartialState partial = world.fetch();
  CHECK(store(partial, served, kManifestPiece) == PieceStored::kStored);
  std::vector<std::uint32_t> pieces = world.taken();
  std::reverse(pieces.begin(), pieces.end());
  for (const std::uint32_t piece : pieces) {
    REQUIRE(store(partial, served, piece) == PieceStored::kStored);
  }
  CHECK(whole(partial) == world.plan.stripes());
  CHECK(partial.check({served.offer().sketch, 1e-3}).value());
  CheckpointImage got(world.layout.elements(), true);
  REQUIRE(partial.load(got).ok());
  CHECK(got.slow == world.image.slow);
  CHECK(got.weights == world.image.slow);
  CHECK(got.second_moment == world.image.second_moment);
}

TEST_CASE("what would move a newcomer's weights is not taken, and starts at zero") {
  World world;
  const ServedState served = world.serve();
  PartialState partial = world.fetch();
  REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
  for (const std::uint32_t section : {1U, 3U}) {
    CHECK(store(partial, served, section * world.plan.stripes()) == PieceStored::kWrong);
  }
  for (const std::uint32_t piece : world.taken()) {
    REQUIRE(store(partial, served, piece) == PieceStored::kStored);
  }
  CheckpointImage got(world.layout.elements(), true);
  std::fill(got.momentum.begin(), got.momentum.end(), 3.0F);
  std::fill(got.first_moment.begin(), got.first_moment.end(), 4.0F);
  REQUIRE(partial.load(got).ok());
  const std::vector<float> zeros(world.layout.elements(), 0.0F);
  CHECK(got.first_moment == zeros);
  CHECK(got.momentum == zeros);
}

TEST_CASE("the weights alone are half of it, and leave the moments as they were") {
  World world;
  const ServedState served = world.serve();
  PartialState partial = world.fetch(false);
  REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
  for (std::uint32_t piece = 0; piece < world.plan.stripes(); ++piece) {
    REQUIRE(store(partial, served, piece) == PieceStored::kStored);
  }
  CHECK(store(partial, served, world.plan.stripes()) == PieceStored::kWrong);
  CheckpointImage got(world.layout.elements(), true);
  std::fill(got.momentum.begin(), got.momentum.end(), 3.0F);
  std::fill(got.first_moment.begin(), got.first_moment.end(), 4.0F);
  REQUIRE(partial.load(got).ok());
  CHECK(got.weights == world.image.slow);
  CHECK(got.momentum == std::vector<float>(world.layout.elements(), 0.0F));
  CHECK(got.first_moment == std::vector<float>(world.layout.elements(), 4.0F));
}

TEST_CASE("nothing is stored that its manifest does not name, or before it is known") {
  World world;
  const ServedState served = world.serve();
  PartialState partial = world.fetch();
  CHECK(store(partial, served, 0) == PieceStored::kUnknown);
  auto part = read(served, kManifestPiece);
  part[5] ^= std::byte{1};
  CHECK(partial.store(order_of(served, kManifestPiece), part) == PieceStored::kWrong);
  part.pop_back();
  CHECK(partial.store(order_of(served, kManifestPiece), part) == PieceStored::kWrong);
  StorePiece beyond = order_of(served, kManifestPiece);
  beyond.piece += 1;
  CHECK(partial.store(beyond, part) == PieceStored::kWrong);
  REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);

  auto bytes = read(served, 1);
  CHECK(partial.store(order_of(served, 0), bytes) == PieceStored::kWrong);
  bytes.push_back({});
  CHECK(partial.store(order_of(served, 1), bytes) == PieceStored::kWrong);
  CHECK(partial.store(order_of(served, 1), {}) == PieceStored::kWrong);
  StorePiece other = order_of(served, 1);
  other.from = PeerId{6};
  CHECK(partial.store(other, read(served, 1)) == PieceStored::kUnknown);
  other = order_of(served, 1);
  other.piece = world.plan.pieces();
  CHECK(partial.store(other, read(served, 1)) == PieceStored::kWrong);
  CHECK(whole(partial) == 0);
}

TEST_CASE("a manifest that is in use stays, and of one that had to go nothing is called wrong") {
  World world;
  const ServedState served = world.serve();
  PartialState partial = world.fetch();
  std::uint64_t others = 0;
  const auto store_other = [&] {
    StorePiece order = order_of(served, kManifestPiece);
    order.snapshot += ++others;
    REQUIRE(partial.store(order, read(served, kManifestPiece)) == PieceStored::kStored);
  };
  REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
  for (std::size_t i = 0; i < 2 * PartialState::kManifestsMax; ++i) {
    store_other();
    REQUIRE(store(partial, served, 0) == PieceStored::kStored);
  }
  for (std::size_t i = 0; i < PartialState::kManifestsMax; ++i) store_other();
  CHECK(store(partial, served, 0) == PieceStored::kUnknown);
  REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
  CHECK(store(partial, served, 0) == PieceStored::kStored);
}

TEST_CASE("numbers that cannot be weights are refused, whatever their digest") {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0F}) {
    World world;
    world.image.second_moment[0] = bad;
    const ServedState served = world.serve();
    PartialState partial = world.fetch();
    REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
    CHECK(store(partial, served, kSecondMoment * world.plan.stripes()) == PieceStored::kWrong);
    CHECK(store(partial, served, 0) == PieceStored::kStored);
  }
}

TEST_CASE("a process that was killed goes on with the stripes that were whole") {
  World world;
  const ServedState served = world.serve();
  const std::uint32_t stripes = world.plan.stripes();
  {
    PartialState partial = world.fetch();
    REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
    for (const std::uint32_t stripe : {0U, 2U}) {
      for (const std::uint32_t piece : {stripe, kSecondMoment * stripes + stripe}) {
        REQUIRE(store(partial, served, piece) == PieceStored::kStored);
      }
    }
    REQUIRE(store(partial, served, 1) == PieceStored::kStored);  // of a stripe that stays a torso
  }
  const auto journal = world.folder / "join" / "state.journal";
  const std::string written = testing::read_file(journal);
  {
    const PartialState again = world.fetch();
    CHECK(whole(again) == 2);
    CHECK(again.held()[0] == served.offer().snapshot);
    CHECK(again.held()[2] == served.offer().snapshot);
  }
  CHECK(whole(world.fetch()) == 2);       // and again, from the journal that was made anew
  CHECK(whole(world.fetch(false)) == 0);  // of another kind
  testing::write_file(journal, written);
  auto other =
      PartialState::open(world.folder / "join", world.plan, {.run = 9, .model = 2, .layout = 3},
                         gossip::sections_taken(true));
  REQUIRE(other.ok());
  CHECK(whole(other.value()) == 0);
}

TEST_CASE("a torn or damaged journal and damaged data cost what they held and no more") {
  World world;
  const ServedState served = world.serve();
  {
    PartialState partial = world.fetch();
    REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
    for (const std::uint32_t piece : world.taken()) {
      REQUIRE(store(partial, served, piece) == PieceStored::kStored);
    }
  }
  const auto journal = world.folder / "join" / "state.journal";
  const auto data = world.folder / "join" / "state.data";
  const std::string written = testing::read_file(journal);
  const std::string bytes = testing::read_file(data);
  for (std::size_t cut = 0; cut < written.size(); cut += 17) {
    testing::write_file(journal, std::string_view(written).substr(0, cut));
    testing::write_file(data, bytes);
    CHECK(whole(world.fetch()) < world.plan.stripes());
  }
  for (std::size_t at = 0; at < written.size(); at += 13) {
    std::string hurt = written;
    hurt[at] = static_cast<char>(hurt[at] ^ 4);
    testing::write_file(journal, hurt);
    testing::write_file(data, bytes);
    CHECK(whole(world.fetch()) < world.plan.stripes());
  }
  testing::write_file(journal, written);
  std::string hurt = bytes;
  hurt[bytes.size() / 4] = static_cast<char>(hurt[bytes.size() / 4] ^ 4);
  testing::write_file(data, hurt);
  CHECK(whole(world.fetch()) == world.plan.stripes() - 1);
  testing::write_file(data, std::string_view(bytes).substr(0, 10));
  CHECK(whole(world.fetch()) == 0);
}

TEST_CASE("pieces of a snapshot are forgotten when they should be") {
  World world;
  const ServedState served = world.serve();
  PartialState partial = world.fetch(false);
  REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
  REQUIRE(store(partial, served, 0) == PieceStored::kStored);
  REQUIRE(partial.forget({kDonor, served.offer().snapshot + 1}).ok());
  CHECK(whole(partial) == 1);
  REQUIRE(partial.forget({PeerId{6}, served.offer().snapshot}).ok());  // another's of that number
  CHECK(whole(partial) == 1);
  REQUIRE(partial.forget({kDonor, served.offer().snapshot}).ok());
  CHECK(whole(partial) == 0);
  CHECK(whole(world.fetch(false)) == 0);
  REQUIRE(store(partial, served, 0) == PieceStored::kStored);
  REQUIRE(partial.forget({}).ok());
  CHECK(whole(partial) == 0);
}

TEST_CASE("what was fetched takes no room on disk once it is removed, whoever has it open") {
  World world;
  const ServedState served = world.serve();
  PartialState partial = world.fetch();
  REQUIRE(store(partial, served, kManifestPiece) == PieceStored::kStored);
  REQUIRE(store(partial, served, 0) == PieceStored::kStored);
  const auto folder = world.folder / "join";
  const auto data = folder / "state.data";
  auto held = FileHandle::open(data, O_RDONLY);
  REQUIRE(held.ok());
  REQUIRE(file_size(held.value(), data).value() >= served.piece_bytes(0));
  PartialState::remove(folder);
  CHECK(file_size(held.value(), data).value() == 0);
  CHECK_FALSE(std::filesystem::exists(folder));
  PartialState::remove(folder);  // every later checkpoint does so again
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("the distance of two sketches is about the distance of the weights") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    std::vector<float> left(100000), right(100000);
    double apart = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      left[i] = rng.normal();
      right[i] = left[i] + 0.01F * rng.normal();
      apart += std::pow(double{right[i]} - double{left[i]}, 2);
    }
    SketchBuilder a, b;
    a.add(0, left);
    b.add(0, std::span<const float>(right).first(777));
    b.add(777, std::span<const float>(right).subspan(777));
    const double seen = gossip::distance(a.value(), b.value());
    CHECK(seen > 0.6 * std::sqrt(apart));
    CHECK(seen < 1.5 * std::sqrt(apart));
  }
}

TEST_CASE("a snapshot outlives its file, and knows whom it is not for") {
  World world;
  const ServedState served = world.serve();
  CHECK_FALSE(ServedState::open(world.folder / "a.ckpt", world.plan, {.run = 9}).ok());
  CHECK_FALSE(ServedState::open(world.folder / "b.ckpt", world.plan, kOurs).ok());
  std::filesystem::remove(world.folder / "a.ckpt");
  CHECK(read(served, 0).size() == served.piece_bytes(0));
  CHECK(served.piece_bytes(world.plan.pieces()) == 0);
  CHECK(served.piece_bytes(kManifestPiece + 1) == 0);
}

}  // namespace starling::peer
