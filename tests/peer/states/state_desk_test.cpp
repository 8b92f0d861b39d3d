#include "peer/states/state_desk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "base/cpu_device.h"
#include "base/rng.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/checkpoint_write.h"
#include "peer/roles/pools.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

namespace {

constexpr std::size_t kHead = 64;

model::ParamLayout layout_of_two_stripes() {
  const model::LlamaConfig config{
      .vocabulary = 16, .width = 8, .layers = 1, .heads = 1, .kv_heads = 1, .ffn = 8, .context = 8};
  return model::ParamLayout::plan(config, 2).value();
}

// A desk over a disk without a thread: what is submitted is done in finish().
struct Bench {
  Bench()
      : layout(layout_of_two_stripes()),
        stripes(layout),
        plan(stripes),
        image(layout.elements(), true),
        pool(pool_memory(device, 2, 1 << 16, "slots").value(), 2),
        disk(std::in_place, CheckpointStore::open(folder.path(), 1).value()),
        desk({.digests = {}, .head_bytes = kHead}, plan, *disk, pool) {
    Rng rng(1);
    for (float& value : image.slow) value = rng.normal();
    desk.start([this](StateAnswer answer) { answers.push_back(std::move(answer)); });
  }
  void finish() {
    std::thread thread([this] { disk->run(); });
    disk->stop();
    thread.join();
  }

  ScratchFolder folder;
  model::ParamLayout layout;
  StripeTable stripes;
  StatePlan plan;
  CheckpointImage image;
  CpuDevice device;
  SlotPool pool;
  std::optional<Disk> disk;
  std::vector<StateAnswer> answers;
  StateDesk desk;
};

}  // namespace

TEST_CASE("without a checkpoint there is no snapshot, and a damaged one is none") {
  Bench bench;
  bench.desk.submit(gossip::PrepareSnapshot{}, {});
  testing::write_file(bench.folder / "bad", "this is no checkpoint");
  bench.desk.note_checkpoint(bench.folder / "bad");
  bench.desk.submit(gossip::PrepareSnapshot{}, {});
  bench.finish();
  REQUIRE(bench.answers.size() == 2);
  for (const StateAnswer& answer : bench.answers) {
    CHECK_FALSE(std::get<gossip::SnapshotReady>(answer.input).offer.has_value());
  }
}

TEST_CASE("orders are carried out in order, each with its answer, and slots are a limit") {
  Bench bench;
  const auto sections = sections_of(bench.image, "");
  REQUIRE(write_checkpoint(bench.folder / "a", {}, sections.sections).ok());
  const auto offer = ServedState::open(bench.folder / "a", bench.plan, {}).value().offer();
  bench.desk.note_checkpoint(bench.folder / "a");
  bench.desk.submit(gossip::PrepareSnapshot{}, {});
  const PeerId newcomer{7};
  for (std::uint32_t piece = 0; piece < 3; ++piece) {  // two slots
    bench.desk.submit(gossip::ReadPiece{newcomer, offer.snapshot, piece}, {});
  }
  bench.desk.submit(gossip::ReadPiece{newcomer, offer.snapshot + 1, 0}, {});
  bench.finish();
  REQUIRE(bench.answers.size() == 5);
  CHECK(std::get<gossip::SnapshotReady>(bench.answers[0].input).offer->snapshot == offer.snapshot);
  const gossip::PieceRead expected[] = {gossip::PieceRead::kRead, gossip::PieceRead::kRead,
                                        gossip::PieceRead::kNoRoom, gossip::PieceRead::kFailed};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& done = std::get<gossip::PieceReadDone>(bench.answers[1 + i].input);
    CHECK(done.outcome == expected[i]);
    CHECK(bench.answers[1 + i].slot.has_value() == (i < 2));
  }
  const auto slow =
      std::as_bytes(std::span(bench.image.slow)).first(bench.answers[1].payload_bytes);
  const auto read = bench.answers[1].slot->bytes().subspan(kHead, slow.size());
  CHECK(std::equal(slow.begin(), slow.end(), read.begin()));
  bench.answers.clear();
}

TEST_CASE("what is fetched goes to its files, and the check says whether it is the donor's") {
  Bench bench;
  const auto sections = sections_of(bench.image, "");
  REQUIRE(write_checkpoint(bench.folder / "a", {}, sections.sections).ok());
  const auto served = ServedState::open(bench.folder / "a", bench.plan, {}).value();
  bench.desk.keep(PartialState::open(bench.folder / "join", bench.plan, {}, 1).value());
  const auto give = [&](std::uint32_t piece) {
    std::vector<std::byte> bytes(served.piece_bytes(piece));
    REQUIRE(served.read(piece, bytes).ok());
    bench.desk.submit(
        gossip::StorePiece{PeerId{7}, served.offer().snapshot, piece, served.offer().manifest[0]},
        Bytes::copy_of(bytes));
  };
  give(gossip::kManifestPiece);
  for (std::uint32_t piece = 0; piece < bench.plan.stripes(); ++piece) give(piece);
  bench.desk.submit(gossip::CheckState{served.offer().sketch, 1e-3}, {});
  gossip::StateSketch other = served.offer().sketch;
  other.values[0] += 1;
  bench.desk.submit(gossip::CheckState{other, 1e-3}, {});
  bench.desk.submit(gossip::ForgetPieces{}, {});
  bench.desk.submit(gossip::CheckState{served.offer().sketch, 1e-3}, {});
  bench.finish();
  const std::size_t stored = 1 + bench.plan.stripes();
  REQUIRE(bench.answers.size() == stored + 3);
  for (std::size_t i = 0; i < stored; ++i) {
    const auto& done = std::get<gossip::PieceStoredDone>(bench.answers[i].input);
    CHECK(done.outcome == gossip::PieceStored::kStored);
  }
  CHECK(std::get<gossip::StateChecked>(bench.answers[stored].input).good);
  CHECK_FALSE(std::get<gossip::StateChecked>(bench.answers[stored + 1].input).good);
  CHECK_FALSE(std::get<gossip::StateChecked>(bench.answers[stored + 2].input).good);
}

}  // namespace starling::peer
