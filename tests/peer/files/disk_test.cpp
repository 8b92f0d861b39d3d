#include "peer/files/disk.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "peer/files/checkpoint_write.h"
#include "tests/peer/checkpoint_samples.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::holds_sample;
using starling::testing::read_file;
using starling::testing::SampleCheckpoint;

static_assert(!std::is_copy_constructible_v<CheckpointJob>);

namespace {

CheckpointStore open_store(const std::filesystem::path& folder, std::uint32_t keep = 2) {
  auto store = CheckpointStore::open(folder, keep);
  REQUIRE(store.ok());
  return std::move(store).value();
}

CheckpointJob job_of(const SampleCheckpoint& sample,
                     std::optional<Result<std::filesystem::path>>& outcome) {
  CheckpointJob job;
  job.header = sample.header;
  job.contents.sections = sample.sections();
  job.done = [&outcome](Result<std::filesystem::path> result) {
    outcome.emplace(std::move(result));
  };
  return job;
}

}  // namespace

TEST_CASE("the disk writes checkpoints and lines, and stops when all is done") {
  const ScratchFolder folder;
  std::optional<Disk> disk(std::in_place, open_store(folder.path()));
  std::thread thread([&disk] { disk->run(); });
  const SampleCheckpoint first(1), second(2, 100'000), third(3);
  std::array<std::optional<Result<std::filesystem::path>>, 3> outcomes;
  disk->submit(job_of(first, outcomes[0]));
  disk->submit(job_of(second, outcomes[1]));
  disk->submit(job_of(third, outcomes[2]));
  for (int i = 0; i < 100; ++i) disk->append(folder / "metrics.jsonl", "{}");
  disk->append(folder / "events.jsonl", "{\"event\": 1}");
  disk->stop();
  thread.join();
  for (auto& outcome : outcomes) {
    REQUIRE(outcome.has_value());
    REQUIRE(outcome->ok());
  }
  CHECK(!std::filesystem::exists(outcomes[0]->value()));  // keep = 2
  auto file = CheckpointFile::open(outcomes[1]->value());
  REQUIRE(file.ok());
  CHECK(file.value().header().step == 2);
  CHECK(file.value().header().sequence == 2);
  CHECK(holds_sample(file.value()));
  CHECK(read_file(folder / "metrics.jsonl").size() == 300);
  CHECK(read_file(folder / "events.jsonl") == "{\"event\": 1}\n");
  const DiskStats stats = disk->stats();
  CHECK(stats.checkpoints_written == 3);
  CHECK(stats.checkpoints_failed == 0);
  CHECK(stats.lines_written == 101);
  CHECK(stats.lines_dropped == 0);
}

TEST_CASE("records stand behind each other in their file, with nothing between them") {
  const ScratchFolder folder;
  Disk disk(open_store(folder / "checkpoints"));
  const std::string first("one\n\0two", 8), second("three\0", 6);
  disk.append_record(folder / "records", first);
  disk.append_record(folder / "records", second);
  disk.stop();
  disk.run();
  CHECK(read_file(folder / "records") == first + second);
  CHECK(disk.stats().lines_written == 2);
}

TEST_CASE("what comes after stop is refused, with an answer") {
  const ScratchFolder folder;
  Disk disk(open_store(folder.path()));
  disk.stop();
  const SampleCheckpoint sample(1);
  std::optional<Result<std::filesystem::path>> outcome;
  disk.submit(job_of(sample, outcome));
  REQUIRE(outcome.has_value());
  CHECK(outcome->error().code() == ErrorCode::kCancelled);
  disk.append(folder / "metrics.jsonl", "{}");
  CHECK(disk.stats().lines_dropped == 1);
  disk.run();
  CHECK(!std::filesystem::exists(folder / "metrics.jsonl"));
  CHECK(disk.stats().lines_dropped == 1);
}

TEST_CASE("a disk that never ran still does what was submitted when it goes") {
  const ScratchFolder folder;
  const SampleCheckpoint sample(1);
  std::optional<Result<std::filesystem::path>> outcome;
  {
    Disk disk(open_store(folder.path()));
    disk.submit(job_of(sample, outcome));
    disk.append(folder / "metrics.jsonl", "{}");
  }
  REQUIRE(outcome.has_value());
  CHECK(outcome->ok());
  CHECK(read_file(folder / "metrics.jsonl") == "{}\n");
}

TEST_CASE("more checkpoints than can wait are refused, and every job has its answer") {
  const ScratchFolder folder;
  const SampleCheckpoint sample(1);
  std::array<std::optional<Result<std::filesystem::path>>, Disk::kJobsMax + 1> outcomes;
  {
    Disk disk(open_store(folder.path()));
    for (auto& outcome : outcomes) disk.submit(job_of(sample, outcome));
    REQUIRE(outcomes.back().has_value());
    CHECK(outcomes.back()->error().code() == ErrorCode::kExhausted);
  }
  for (std::size_t i = 0; i < Disk::kJobsMax; ++i) {
    REQUIRE(outcomes[i].has_value());
    CHECK(outcomes[i]->ok());
  }
}

TEST_CASE("a checkpoint that cannot be written is counted and the next one is written") {
  const ScratchFolder folder;
  const auto checkpoints = folder / "checkpoints";
  Disk disk(open_store(checkpoints));
  const SampleCheckpoint first(1), second(2);
  std::array<std::optional<Result<std::filesystem::path>>, 2> outcomes;
  std::filesystem::remove(checkpoints);
  CheckpointJob failing = job_of(first, outcomes[0]);
  std::optional<CheckpointTrouble> trouble;
  // The folder comes back after the failure, on the disk's own thread.
  failing.done = [&](Result<std::filesystem::path> result) {
    trouble = disk.stats().trouble;
    outcomes[0].emplace(std::move(result));
    std::filesystem::create_directory(checkpoints);
  };
  disk.submit(std::move(failing));
  disk.submit(job_of(second, outcomes[1]));
  disk.stop();
  disk.run();
  REQUIRE(outcomes[0].has_value());
  CHECK(!outcomes[0]->ok());
  REQUIRE(outcomes[1].has_value());
  CHECK(outcomes[1]->ok());
  CHECK(disk.stats().checkpoints_failed == 1);
  CHECK(disk.stats().checkpoints_written == 1);
  REQUIRE(trouble.has_value());
  CHECK(trouble->tries == 1);
  CHECK(trouble->since_step == first.header.step);
  CHECK(trouble->why == outcomes[0]->error().message());
  CHECK(!disk.stats().trouble.has_value());  // the next one was written
}

TEST_CASE("a checkpoint that nothing comes after is tried again, in a folder that is made again") {
  const ScratchFolder folder;
  const auto checkpoints = folder / "checkpoints";
  const SampleCheckpoint sample(1);
  for (const int more_tries : {1, 3}) {
    CAPTURE(more_tries);
    Disk disk(open_store(checkpoints));
    std::filesystem::remove_all(checkpoints);
    std::ofstream(checkpoints) << "in the way";
    std::optional<Result<std::filesystem::path>> outcome;
    CheckpointJob job = job_of(sample, outcome);
    job.more_tries = more_tries;
    job.pause = std::chrono::milliseconds(1);
    int repeats = 0;
    job.tried_again = [&] {
      if (++repeats == 2) std::filesystem::remove(checkpoints);  // the third try finds it gone
    };
    disk.submit(std::move(job));
    disk.stop();
    disk.run();
    REQUIRE(outcome.has_value());
    CHECK(outcome->ok() == (more_tries == 3));
    CHECK(repeats == (more_tries == 3 ? 2 : 1));
    const DiskStats stats = disk.stats();
    CHECK(stats.checkpoints_failed == (more_tries == 3 ? 0 : 1));
    REQUIRE(stats.trouble.has_value() == (more_tries == 1));
    if (stats.trouble) CHECK(stats.trouble->tries == 2);
    std::filesystem::remove_all(checkpoints);
  }
}

}  // namespace starling::peer
