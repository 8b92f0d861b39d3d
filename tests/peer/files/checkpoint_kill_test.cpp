// Crash consistency with real processes: a writer is killed at random moments, and whatever it
// left must hold a complete checkpoint at least as new as any it had reported.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/rng.h"
#include "peer/files/checkpoint_store.h"
#include "peer/files/checkpoint_write.h"
#include "tests/peer/checkpoint_samples.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::holds_sample;
using starling::testing::kDigests;
using starling::testing::SampleCheckpoint;

namespace {

// Writes checkpoints for ever and tells each that is complete through `report`.
[[noreturn]] void write_for_ever(const std::filesystem::path& folder, int report) {
  auto store = CheckpointStore::open(folder, 2);
  if (!store.ok()) ::_exit(1);
  for (;;) {
    const std::uint64_t sequence = store.value().next_sequence();
    const SampleCheckpoint sample(sequence, 50'000);
    if (!write_checkpoint(store.value().path_of(sequence), sample.header, sample.sections()).ok()) {
      ::_exit(2);
    }
    store.value().prune();
    if (::write(report, &sequence, sizeof(sequence)) != sizeof(sequence)) ::_exit(3);
  }
}

std::uint64_t last_reported(int pipe_end) {
  std::uint64_t last = 0;
  std::uint64_t sequence = 0;
  while (::read(pipe_end, &sequence, sizeof(sequence)) == sizeof(sequence)) last = sequence;
  return last;
}

}  // namespace

TEST_CASE("a writer killed at any moment leaves a complete checkpoint, at least its last one") {
  const ScratchFolder folder;
  constexpr std::uint64_t kSeed = 20260721;
  CAPTURE(kSeed);
  Rng rng(kSeed);
  std::uint64_t newest = 0;
  std::size_t interrupted = 0;
  for (int kill_number = 0; kill_number < 60; ++kill_number) {
    CAPTURE(kill_number);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) write_for_ever(folder.path(), ends[1]);
    ::close(ends[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + rng.below(60'000)));
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    newest = std::max(newest, last_reported(ends[0]));
    ::close(ends[0]);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (entry.path().extension() == kTemporaryExtension) ++interrupted;
    }

    auto store = CheckpointStore::open(folder.path(), 2);
    REQUIRE(store.ok());
    auto loaded = store.value().load_newest(kDigests, "this test");
    REQUIRE(loaded.ok());
    if (newest == 0 && !loaded.value().has_value()) continue;
    REQUIRE(loaded.value().has_value());
    CHECK(holds_sample(*loaded.value()));
    CHECK(loaded.value()->header().step >= newest);
    newest = loaded.value()->header().step;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      CHECK(entry.path().extension() == ".ckpt");  // nothing was found damaged
    }
  }
  MESSAGE("wrote " << newest << " checkpoints, " << interrupted << " writes were interrupted");
  CHECK(newest > 10);
  CHECK(interrupted > 10);
}

}  // namespace starling::peer
