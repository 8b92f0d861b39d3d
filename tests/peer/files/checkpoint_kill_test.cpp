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

// Starts a writer, kills it a little later, and returns the last checkpoint that it has reported;
// 0: none.
std::uint64_t kill_a_writer(const std::filesystem::path& folder, Rng& rng) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) write_for_ever(folder, ends[1]);
  ::close(ends[1]);
  std::uint64_t reported = 0;
  const auto hear = [&] {
    return ::read(ends[0], &reported, sizeof(reported)) == sizeof(reported);
  };
  // Mostly from its first report on, as nobody knows how long the disk takes for a write.
  if (rng.chance(0.75)) hear();
  std::this_thread::sleep_for(std::chrono::microseconds(rng.below(60'000)));
  REQUIRE(::kill(child, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));  // it has not failed by itself
  while (hear()) continue;
  ::close(ends[0]);
  return reported;
}

}  // namespace

TEST_CASE("a writer killed at any moment leaves a complete checkpoint, at least its last one") {
  constexpr int kKills = 60, kKillsMax = 600;
  const ScratchFolder folder;
  constexpr std::uint64_t kSeed = 20260721;
  CAPTURE(kSeed);
  Rng rng(kSeed);
  std::uint64_t newest = 0;
  std::size_t interrupted = 0;
  int kills = 0;
  for (; kills < kKills || newest <= 10 || interrupted <= 10; ++kills) {
    CAPTURE(kills);
    REQUIRE(kills < kKillsMax);
    newest = std::max(newest, kill_a_writer(folder.path(), rng));
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
  MESSAGE(kills << " kills: wrote " << newest << " checkpoints, " << interrupted
                << " writes were interrupted");
}

}  // namespace starling::peer
