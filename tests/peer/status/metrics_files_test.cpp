#include "peer/status/metrics_files.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "peer/status/event_file.h"
#include "tests/peer/file_steps.h"

namespace starling::peer {

using starling::testing::read_file;

namespace {

constexpr std::int64_t kNow = 1'600'000'000;

// One life of a peer, which writes a line for each step and returns its event file.
std::filesystem::path live(const ScratchFolder& root, bool tensorboard, std::uint64_t first_step) {
  auto folder = RunFolder::open({root.path(), "run", "a"});
  REQUIRE(folder.ok());
  auto store = CheckpointStore::open(folder.value().checkpoints(), 1);
  REQUIRE(store.ok());
  Disk disk(std::move(store).value());
  MetricsFiles files(disk, folder.value(), tensorboard);
  for (std::uint64_t step = first_step; step < first_step + 2; ++step) {
    files.write({{"step", step}, {"loss", 1.5}}, {.unix_seconds = kNow});
  }
  return folder.value().event_file();
}

std::string events(std::uint64_t first_step) {
  const nlohmann::json line = {{"step", first_step}, {"loss", 1.5}};
  const nlohmann::json next = {{"step", first_step + 1}, {"loss", 1.5}};
  return event_file_head({.unix_seconds = kNow, .step = first_step}) +
         event_of_metrics(line, kNow) + event_of_metrics(next, kNow);
}

}  // namespace

TEST_CASE("figures go to a line and to an event file, a new one in every life") {
  const ScratchFolder root;
  const auto first = live(root, true, 1);
  const auto second = live(root, true, 2);  // goes on from a checkpoint after step 1
  CHECK(read_file(first) == events(1));
  CHECK(read_file(second) == events(2));
  CHECK(first.filename().string() < second.filename().string());
  CHECK(first.filename().string().starts_with("events.out.tfevents."));
  CHECK(first.filename().string().ends_with(".a"));
  CHECK(read_file(root / "run/a/metrics.jsonl") ==
        "{\"loss\":1.5,\"step\":1}\n{\"loss\":1.5,\"step\":2}\n"
        "{\"loss\":1.5,\"step\":2}\n{\"loss\":1.5,\"step\":3}\n");
}

TEST_CASE("who does not want event files has none") {
  const ScratchFolder root;
  CHECK(!std::filesystem::exists(live(root, false, 1)));
  CHECK(std::filesystem::exists(root / "run/a/metrics.jsonl"));
}

}  // namespace starling::peer
