#include "peer/states/state_desk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <system_error>
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

// Whether this process has the file open, which is there: what is removed is never found.
bool is_open(const std::filesystem::path& file) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    if (std::filesystem::equivalent(entry.path(), file, ignored)) return true;
  }
  return false;
}

// Behind all that was submitted before it.
struct Marker final : DiskTask {
  void work() override { reached.set_value(); }
  std::promise<void> reached;
};

// A desk over a disk without a thread: what is submitted is done in settle() or finish().
struct Bench {
  Bench()
      : layout(layout_of_two_stripes()),
        stripes(layout),
        plan(stripes),
        image(layout.elements(), true),
        pool(pool_memory(device, 2, 1 << 16, "slots").value(), 2),
        disk(std::in_place, CheckpointStore::open(folder.path(), 1).value()),
        desk({.digests = {}, .head_bytes = kHead, .clock = [this] { return time; }}, plan, *disk,
             pool) {
    Rng rng(1);
    for (float& value : image.slow) value = rng.normal();
    desk.start([this](StateAnswer answer) { answers.push_back(std::move(answer)); });
  }
  ~Bench() {
    if (thread.joinable()) finish();
  }
  void start_thread() {
    if (!thread.joinable()) thread = std::thread([this] { disk->run(); });
  }
  // More may be submitted afterwards.
  void settle() {
    start_thread();
    auto marker = std::make_unique<Marker>();
    auto reached = marker->reached.get_future();
    disk->perform(std::move(marker));
    reached.get();
  }
  void finish() {
    start_thread();
    disk->stop();
    thread.join();
  }
  std::filesystem::path write(std::string_view name) {
    const auto sections = sections_of(image, "");
    REQUIRE(write_checkpoint(folder / name, {}, sections.sections).ok());
    return folder / name;
  }
  void note(const std::filesystem::path& checkpoint) {
    desk.note_checkpoint(checkpoint);
    settle();
  }
  gossip::StateOffer prepare() {
    answers.clear();
    desk.submit(gossip::PrepareSnapshot{}, {});
    settle();
    REQUIRE(answers.size() == 1);
    const auto& ready = std::get<gossip::SnapshotReady>(answers[0].input);
    REQUIRE(ready.offer.has_value());
    return *ready.offer;
  }
  gossip::PieceRead read(std::uint64_t snapshot) {
    answers.clear();  // and with them their slots
    desk.submit(gossip::ReadPiece{PeerId{7}, snapshot, 0}, {});
    settle();
    REQUIRE(answers.size() == 1);
    return std::get<gossip::PieceReadDone>(answers[0].input).outcome;
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
  Instant time{};
  StateDesk desk;
  std::thread thread;  // of the disk
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

TEST_CASE("an older checkpoint that nobody reads any more is not held open") {
  Bench bench;
  const auto older = bench.write("older"), newer = bench.write("newer");
  bench.note(older);
  const auto offer = bench.prepare();
  bench.time += std::chrono::minutes(1);
  CHECK(bench.read(offer.snapshot) == gossip::PieceRead::kRead);
  bench.time += StateDesk::kReadWithin;
  bench.settle();
  CHECK(is_open(older));  // as long as it is the newest
  bench.note(newer);
  CHECK_FALSE(is_open(older));
  CHECK(bench.read(offer.snapshot) == gossip::PieceRead::kFailed);
  CHECK(bench.prepare().snapshot == offer.snapshot);  // their contents are the same
  CHECK(is_open(newer));
}

TEST_CASE("an older checkpoint stays open while its pieces are read") {
  Bench bench;
  const auto older = bench.write("older"), newer = bench.write("newer");
  bench.note(older);
  const auto offer = bench.prepare();
  for (int checkpoint = 0; checkpoint < 3; ++checkpoint) {
    bench.time += StateDesk::kReadWithin - std::chrono::seconds(1);
    bench.note(newer);
    CHECK(is_open(older));
    CHECK(bench.read(offer.snapshot) == gossip::PieceRead::kRead);
  }
  bench.time += StateDesk::kReadWithin;
  bench.note(newer);
  CHECK_FALSE(is_open(older));
}

TEST_CASE("where a checkpoint cannot be written, one that nobody reads makes room") {
  Bench bench;
  const auto only = bench.write("only");
  bench.note(only);
  const auto offer = bench.prepare();
  const auto fail = [&bench] {
    bench.desk.note_failure();
    bench.settle();
  };
  fail();
  CHECK(is_open(only));
  CHECK(bench.read(offer.snapshot) == gossip::PieceRead::kRead);
  bench.time += StateDesk::kReadWithin;
  fail();
  CHECK_FALSE(is_open(only));
  CHECK(bench.read(offer.snapshot) == gossip::PieceRead::kFailed);
}

TEST_CASE("a snapshot outlives checkpoints that come faster than its first reader") {
  Bench bench;
  const auto older = bench.write("older"), newer = bench.write("newer");
  bench.note(older);
  const auto offer = bench.prepare();
  for (int checkpoint = 0; checkpoint < 10; ++checkpoint) {
    bench.time += std::chrono::milliseconds(100);
    bench.note(newer);
  }
  CHECK(is_open(older));
  CHECK(bench.read(offer.snapshot) == gossip::PieceRead::kRead);
}

}  // namespace starling::peer
