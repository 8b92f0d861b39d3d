#include "peer/files/checkpoint_store.h"

#include <doctest/doctest.h>
#include <sys/fsuid.h>

#include "peer/files/checkpoint_write.h"
#include "tests/peer/checkpoint_samples.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::holds_sample;
using starling::testing::kDigests;
using starling::testing::read_file;
using starling::testing::SampleCheckpoint;
using starling::testing::write_file;

namespace {

CheckpointStore open_store(const ScratchFolder& folder, std::uint32_t keep = 3) {
  auto store = CheckpointStore::open(folder.path(), keep);
  REQUIRE(store.ok());
  return std::move(store).value();
}

std::filesystem::path write_sample(CheckpointStore& store) {
  SampleCheckpoint sample(store.next_sequence());
  const auto path = store.path_of(sample.header.sequence);
  REQUIRE(write_checkpoint(path, sample.header, sample.sections()).ok());
  return path;
}

void damage(const std::filesystem::path& path) {
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(path, bytes);
}

std::uint64_t newest_step(CheckpointStore& store) {  // 0: there is none
  auto loaded = store.load_newest(kDigests, "this test");
  REQUIRE(loaded.ok());
  if (!loaded.value().has_value()) return 0;
  CHECK(holds_sample(*loaded.value()));
  return loaded.value()->header().step;
}

}  // namespace

TEST_CASE("an empty folder holds no checkpoint, and that is no error") {
  const ScratchFolder folder;
  CheckpointStore store = open_store(folder);
  CHECK(newest_step(store) == 0);
}

TEST_CASE("the newest checkpoint is loaded and damaged ones are passed over in order") {
  const ScratchFolder folder;
  CheckpointStore store = open_store(folder);
  std::vector<std::filesystem::path> paths;
  for (int i = 0; i < 4; ++i) paths.push_back(write_sample(store));
  CHECK(newest_step(store) == 4);
  damage(paths[3]);
  CHECK(newest_step(store) == 3);
  CHECK(!std::filesystem::exists(paths[3]));
  CHECK(std::filesystem::exists(paths[3].string() + ".bad"));
  std::filesystem::resize_file(paths[2], 5000);
  write_file(paths[1], "");
  CHECK(newest_step(store) == 1);
  damage(paths[0]);
  CHECK(newest_step(store) == 0);
  // No number is used again, not even that of a damaged file.
  CheckpointStore later = open_store(folder);
  CHECK(later.next_sequence() == 5);
}

TEST_CASE("temporary files go at start and foreign files stay") {
  const ScratchFolder folder;
  {
    CheckpointStore store = open_store(folder);
    const auto path = write_sample(store);
    std::filesystem::copy_file(path, store.path_of(9).string() + ".tmp");
    write_file(folder / "notes.txt", "mine");
    write_file(folder / "7.ckpt", "not by our naming");
  }
  CheckpointStore store = open_store(folder);
  CHECK(!std::filesystem::exists(store.path_of(9).string() + ".tmp"));
  CHECK(std::filesystem::exists(folder / "notes.txt"));
  CHECK(std::filesystem::exists(folder / "7.ckpt"));
  CHECK(newest_step(store) == 1);
}

TEST_CASE("pruning keeps the newest ones") {
  const ScratchFolder folder;
  CheckpointStore store = open_store(folder, 2);
  for (int i = 0; i < 5; ++i) write_sample(store);
  store.prune();
  CHECK(store.sequences() == std::vector<std::uint64_t>{5, 4});
}

TEST_CASE("a training that begins anew prunes nothing of an earlier one, nor do its restarts") {
  const ScratchFolder folder;
  std::vector<std::filesystem::path> earlier;
  {
    CheckpointStore store = open_store(folder, 2);
    for (int i = 0; i < 2; ++i) earlier.push_back(write_sample(store));
  }
  for (int start = 0; start < 2; ++start) {
    CheckpointStore store = open_store(folder, 2);
    if (start == 0) REQUIRE(store.set_aside().ok());
    for (int i = 0; i < 3; ++i) {
      write_sample(store);
      store.prune();
    }
    store.make_room();
  }
  CHECK(open_store(folder).sequences() == std::vector<std::uint64_t>{8, 7});
  for (const auto& path : earlier) {
    CHECK(CheckpointFile::open(path.string() + ".old").ok());
  }
}

TEST_CASE("the numbers of checkpoints that were set aside are not used again") {
  const ScratchFolder folder;
  CheckpointStore store = open_store(folder);
  write_sample(store);
  REQUIRE(store.set_aside().ok());
  CHECK(newest_step(store) == 0);
  CHECK(open_store(folder).next_sequence() == 2);
}

TEST_CASE("making room never leaves fewer than two") {
  const ScratchFolder folder;
  CheckpointStore store = open_store(folder);
  for (int i = 0; i < 3; ++i) write_sample(store);
  CHECK(store.make_room());
  CHECK(store.sequences() == std::vector<std::uint64_t>{3, 2});
  CHECK_FALSE(store.make_room());
  CHECK(store.sequences() == std::vector<std::uint64_t>{3, 2});
}

TEST_CASE("a checkpoint of another model is an error that names both, and is not passed over") {
  const ScratchFolder folder;
  CheckpointStore store = open_store(folder);
  const auto path = write_sample(store);
  auto other = kDigests;
  other.model = 99;
  auto loaded = store.load_newest(other, "a larger model");
  REQUIRE(!loaded.ok());
  CHECK(loaded.error().code() == ErrorCode::kIncompatible);
  const std::string& message = loaded.error().message();
  CHECK(message.find(path.string()) != std::string::npos);
  CHECK(message.find("a small model") != std::string::npos);
  CHECK(message.find("a larger model") != std::string::npos);
  CHECK(message.find("another model") != std::string::npos);
  CHECK(std::filesystem::exists(path));
}

TEST_CASE("a folder that nothing can be written to is refused before there is anything to write") {
  const ScratchFolder folder;
  namespace fs = std::filesystem;
  const fs::path closed = folder / "checkpoints";
  fs::create_directory(closed);
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(closed, fs::perms(0555));
  const int before = ::setfsuid(65534);  // of this thread; root may write anywhere
  auto store = CheckpointStore::open(closed, 2);
  ::setfsuid(static_cast<uid_t>(before));
  REQUIRE(!store.ok());
  CHECK(store.error().message().find(closed.string()) != std::string::npos);
  CHECK(store.error().message().find("checkpoint.folder") != std::string::npos);
  fs::permissions(closed, fs::perms(0755));
  REQUIRE(CheckpointStore::open(closed, 2).ok());
  CHECK(fs::is_empty(closed));
}

TEST_CASE("a checkpoint that cannot be read is an error, and is not passed over") {
  const ScratchFolder folder;
  CheckpointStore store = open_store(folder);
  write_sample(store);
  const auto newest = store.path_of(store.next_sequence());
  std::filesystem::create_directory(newest);  // opens, but no read succeeds
  auto loaded = store.load_newest(kDigests, "this test");
  REQUIRE(!loaded.ok());
  CHECK(loaded.error().code() == ErrorCode::kIo);
  CHECK(loaded.error().message().find(newest.string()) != std::string::npos);
  CHECK(loaded.error().message().find("readable") != std::string::npos);
  CHECK(std::filesystem::exists(newest));
}

TEST_CASE("a checkpoint of another version is no damage: it stays, and the error says what to do") {
  const ScratchFolder folder;
  CheckpointStore store = open_store(folder);
  write_sample(store);
  const auto newest = write_sample(store);
  std::string bytes = read_file(newest);
  bytes[8] = 1;
  write_file(newest, bytes);
  auto loaded = store.load_newest(kDigests, "this test");
  REQUIRE(!loaded.ok());
  CHECK(loaded.error().code() == ErrorCode::kIncompatible);
  const std::string& message = loaded.error().message();
  CAPTURE(message);
  CHECK(message.find("version 1") != std::string::npos);
  CHECK(message.find("run.name") != std::string::npos);
  CHECK(std::filesystem::exists(newest));
}

TEST_CASE("a tool may name a checkpoint, its folder, or the folder of the peer") {
  const ScratchFolder folder;
  const std::filesystem::path peer = folder / "peer-0";
  std::filesystem::create_directories(peer / "checkpoints");
  CHECK(open_checkpoint(peer).error().code() == ErrorCode::kNotFound);
  auto store = CheckpointStore::open(peer / "checkpoints", 3).value();
  write_sample(store);
  const auto newest = write_sample(store);
  for (const auto& named : {newest, peer / "checkpoints", peer}) {
    CAPTURE(named.string());
    auto file = open_checkpoint(named);
    REQUIRE(file.ok());
    CHECK(file.value().path() == newest);
  }
  CHECK(!open_checkpoint(peer / "nothing").ok());

  const auto before = checkpoints_in(peer).value().back();
  std::filesystem::resize_file(newest, 100);
  auto damaged = open_checkpoint(peer);
  REQUIRE_FALSE(damaged.ok());
  for (const auto& named : {newest, before}) {
    CHECK(damaged.error().message().find(named.string()) != std::string::npos);
  }
}

TEST_CASE("where a folder holds no checkpoint, a tool says what was probably meant") {
  const ScratchFolder folder;
  const auto told = [](const std::filesystem::path& path, const std::string& part) {
    const std::string message = open_checkpoint(path).error().message();
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  };
  std::filesystem::create_directories(folder / "run/peer-0/checkpoints");
  told(folder / "run", "run/peer-0, or make one of all by 'starling average'");
  std::filesystem::create_directories(folder / "model");
  write_file(folder / "model/config.json", "{}");
  told(folder / "model", "'starling import' makes a checkpoint of it");
  told(folder / "run/peer-0", "there is no checkpoint in");
  write_file(folder / "run/peer-0/peer.json", "{}");
  told(folder / "run/peer-0", "checkpoint.every_steps");
}

TEST_CASE("of a run those peers are taken that have a checkpoint, and all where none has") {
  const ScratchFolder folder;
  const auto peer = [&folder](const char* name) { return folder / (std::string("run/") + name); };
  for (const char* name : {"a", "b", "c"}) {
    std::filesystem::create_directories(peer(name) / "checkpoints");
    write_file(peer(name) / "peer.json", "{}");
  }
  CHECK(trained_peers_in(folder / "run").size() == 3);
  for (const char* name : {"a", "c"}) write_file(peer(name) / "checkpoints/1.ckpt", "any");
  CHECK(trained_peers_in(folder / "run").size() == 3);  // not by our naming
  for (const char* name : {"a", "c"}) {
    write_file(peer(name) / "checkpoints/00000000000000000001.ckpt", "any");
  }
  CHECK(trained_peers_in(folder / "run") ==
        std::vector<std::filesystem::path>{peer("a"), peer("c")});
  CHECK(trained_peers_in(peer("b")) == std::vector<std::filesystem::path>{peer("b")});
}

}  // namespace starling::peer
