// A disk that fails at every single call: whatever the error, the file that was there before is
// there still, or the new one is, whole; the error names the file; and the next attempt succeeds.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "peer/files/checkpoint_store.h"
#include "peer/files/checkpoint_write.h"
#include "peer/files/disk.h"
#include "peer/files/run_folder.h"
#include "tests/peer/checkpoint_samples.h"
#include "tests/peer/file_steps.h"
#include "tests/support/failing_disk.h"

namespace starling::peer {

using starling::testing::DiskFault;
using starling::testing::FailingDisk;
using starling::testing::holds_sample;
using starling::testing::kDigests;
using starling::testing::read_file;
using starling::testing::SampleCheckpoint;
using starling::testing::write_file;

namespace {

// attempt(call, fault) for every call that a run without faults makes, and every fault of it; true:
// the fault came to pass.
template <class Attempt>
void at_every_call(int calls, const Attempt& attempt) {
  for (const DiskFault fault :
       {DiskFault::kBroken, DiskFault::kFull, DiskFault::kReadOnly, DiskFault::kShort}) {
    int failed = 0;
    for (int call = 1; call <= calls; ++call) {
      CAPTURE(static_cast<int>(fault));
      CAPTURE(call);
      failed += attempt(call, fault) ? 1 : 0;
    }
    if (fault != DiskFault::kShort) CHECK(failed == calls);
    CHECK(failed >= 1);
  }
}

// Newest step in the folder, whose checkpoint must be sound.
std::uint64_t newest_step(CheckpointStore& store) {
  auto loaded = store.load_newest(kDigests, "this test");
  REQUIRE(loaded.ok());
  REQUIRE(loaded.value().has_value());
  CHECK(holds_sample(*loaded.value()));
  return loaded.value()->header().step;
}

Status write_next(CheckpointStore& store, std::uint64_t& step) {
  step = store.next_sequence();
  const SampleCheckpoint sample(step, 2000);
  return write_checkpoint(store.path_of(step), sample.header, sample.sections());
}

}  // namespace

TEST_CASE("whichever call of a checkpoint's writing fails, the one before it or it is there") {
  const ScratchFolder folder;
  auto opened = CheckpointStore::open(folder.path(), 2);
  REQUIRE(opened.ok());
  CheckpointStore& store = opened.value();
  std::uint64_t step = 0;
  int calls = 0;
  {
    const FailingDisk counted;
    REQUIRE(write_next(store, step).ok());
    calls = counted.calls();
  }
  REQUIRE(calls >= 7);  // create, reserve, write, sync, read back, rename, open and sync the folder
  std::uint64_t last = step;
  at_every_call(calls, [&](int call, DiskFault fault) {
    bool failed = false;
    Status written = ok_status();
    {
      const FailingDisk failing(call, fault);
      written = write_next(store, step);
      failed = failing.failed();
    }
    const bool of_folder = call > calls - 2;  // to open it, and to make it durable
    CHECK(written.ok() == (!failed || fault == DiskFault::kShort || of_folder));
    if (!written.ok()) {
      CHECK(written.error().message().find(folder.path().string()) != std::string::npos);
      CHECK((written.error().code() == ErrorCode::kExhausted) == (fault == DiskFault::kFull));
    }
    // Under its name it counts as written, also where the folder cannot be made durable: told
    // otherwise, its owner would write it again and again beside it.
    CHECK(newest_step(store) == (written.ok() ? step : last));
    CHECK_FALSE(std::filesystem::exists(store.path_of(step).string() + ".tmp"));
    REQUIRE(write_next(store, last).ok());
    CHECK(newest_step(store) == last);
    store.prune();
    return failed;
  });
}

TEST_CASE("a disk that has room for as many checkpoints as are kept loses none of the new ones") {
  const ScratchFolder folder;
  auto opened = CheckpointStore::open(folder.path(), 3);
  REQUIRE(opened.ok());
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i) REQUIRE(write_next(opened.value(), last).ok());
  Disk disk(std::move(opened).value());
  const SampleCheckpoint sample(last + 1, 2000);
  CheckpointJob job;
  job.header = sample.header;
  job.contents.sections = sample.sections();
  std::optional<Result<std::filesystem::path>> outcome;
  job.done = [&outcome](Result<std::filesystem::path> result) {
    outcome.emplace(std::move(result));
  };
  {
    const FailingDisk failing(1, DiskFault::kFull);
    disk.submit(std::move(job));
    disk.stop();
    disk.run();
    CHECK(failing.failed());
  }
  REQUIRE(outcome);
  REQUIRE(outcome->ok());
  auto again = CheckpointStore::open(folder.path(), 3);
  REQUIRE(again.ok());
  CHECK(newest_step(again.value()) == last + 1);
  CHECK(again.value().sequences().size() == 3);
}

TEST_CASE("whichever call of replacing a small file fails, it holds the old text or the new") {
  const ScratchFolder folder;
  const auto path = folder / "file";
  int calls = 0;
  {
    const FailingDisk counted;
    REQUIRE(replace_file(path, "before").ok());
    calls = counted.calls();
  }
  REQUIRE(calls >= 6);
  at_every_call(calls, [&](int call, DiskFault fault) {
    bool failed = false;
    Status replaced = ok_status();
    {
      const FailingDisk failing(call, fault);
      replaced = replace_file(path, "after, and longer");
      failed = failing.failed();
    }
    CHECK(replaced.ok() == (!failed || fault == DiskFault::kShort));
    const std::string text = read_file(path);
    CHECK((text == "after, and longer" || (text == "before" && !replaced.ok())));
    CHECK_FALSE(std::filesystem::exists(path.string() + ".tmp"));
    REQUIRE(replace_file(path, "before").ok());
    CHECK(read_file(path) == "before");
    return failed;
  });
}

TEST_CASE("whichever call fails at a peer's start, it gets a number that no life before it had") {
  const ScratchFolder folder;
  const RunFolderNames names{folder.path(), "run", "peer"};
  std::uint64_t last = 0;
  int calls = 0;
  for (int start = 0; start < 2; ++start) {  // the second finds its folders
    const FailingDisk counted;
    auto opened = RunFolder::open(names);
    REQUIRE(opened.ok());
    last = opened.value().incarnation();
    calls = counted.calls();
  }
  at_every_call(calls, [&](int call, DiskFault fault) {
    bool failed = false;
    {
      const FailingDisk failing(call, fault);
      auto opened = RunFolder::open(names);
      failed = failing.failed();
      if (opened.ok()) {
        CHECK(opened.value().incarnation() > last);
        last = opened.value().incarnation();
      } else {
        CHECK(opened.error().message().find(folder.path().string()) != std::string::npos);
      }
    }
    auto opened = RunFolder::open(names);
    REQUIRE(opened.ok());
    CHECK(opened.value().incarnation() > last);
    last = opened.value().incarnation();
    return failed;
  });
}

TEST_CASE("a full disk keeps no peer that has started before from starting again") {
  const ScratchFolder folder;
  const RunFolderNames names{folder.path(), "run", "peer"};
  std::uint64_t last = 0;
  int calls = 0;
  for (int start = 0; start < 2; ++start) {
    const FailingDisk counted;
    auto opened = RunFolder::open(names);
    REQUIRE(opened.ok());
    last = opened.value().incarnation();
    calls = counted.calls();
  }
  int refused = 0;
  for (int call = 1; call <= calls; ++call) {
    const FailingDisk failing(call, DiskFault::kFull);
    auto opened = RunFolder::open(names);
    refused += opened.ok() ? 0 : 1;
    if (!opened.ok()) continue;
    CHECK(opened.value().incarnation() > last);
    last = opened.value().incarnation();
  }
  MESSAGE("refused at " << refused << " of " << calls << " calls");
  CHECK(refused <= 2);  // the lock, or the number to be read, cannot even be opened
}

}  // namespace starling::peer
