#include "peer/roles/run_start.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "peer/files/token_shard.h"
#include "peer/io/clock.h"
#include "peer/roles/role_settings.h"
#include "tests/peer/file_steps.h"
#include "tests/peer/model_samples.h"
#include "tests/peer/scratch_folder.h"

namespace starling::peer {
namespace {

model::ParamLayout layout_of(const PeerConfig& config, std::uint16_t fragments) {
  auto layout = model::ParamLayout::plan(config.model, fragments);
  REQUIRE(layout.ok());
  return std::move(layout).value();
}

PeerConfig config_with_data(const ScratchFolder& folder) {
  auto writer = ShardWriter::create(folder.path() / "bytes.tok",
                                    {.token_bytes = 2, .vocabulary = 256, .tokenizer = "bytes"});
  REQUIRE(writer.ok());
  REQUIRE(writer.value().append(std::vector<std::int32_t>(50, 7)).ok());
  REQUIRE(writer.value().finish().ok());
  PeerConfig config = small_config();
  config.data.train = {(folder.path() / "bytes.tok").string()};
  return config;
}

}  // namespace

TEST_CASE("a run starts from a checkpoint's weights, whatever fragments it was cut into") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "start.ckpt", 3);
  const model::ParamLayout other = layout_of(small_config(), 3);
  auto start = open_start(written.path.string(), other, {});
  REQUIRE(start.ok());
  std::vector<float> expected(other.elements());
  model::initialise(other, 3, expected);
  const model::ParamLayout own = layout_of(small_config(), 2);
  for (const model::ParamSlot& slot : other.slots()) {
    CAPTURE(slot.name);
    const std::size_t from = own.find(slot.name)->range.first;
    for (std::size_t i = 0; i < slot.range.count; ++i) {
      REQUIRE(start.value().weights[slot.range.first + i] == written.fast[from + i]);
    }
  }
}

TEST_CASE("runs that start from other weights are other runs") {
  const ScratchFolder folder;
  const model::ParamLayout layout = layout_of(small_config(), 2);
  auto first = open_start(write_drawn(folder, "a.ckpt", 1).path.string(), layout, {});
  auto again = open_start(write_drawn(folder, "b.ckpt", 1).path.string(), layout, {});
  auto other = open_start(write_drawn(folder, "c.ckpt", 2).path.string(), layout, {});
  auto none = open_start("", layout, {});
  REQUIRE(first.ok());
  REQUIRE(again.ok());
  REQUIRE(other.ok());
  REQUIRE(none.ok());
  const auto run = [&layout](const RunStart& start) {
    return run_digests("name", start, layout).run;
  };
  CHECK(run(first.value()) == run(again.value()));
  CHECK(run(first.value()) != run(other.value()));
  CHECK(run(first.value()) != run(none.value()));
}

TEST_CASE("a start of another model is refused and names what differs") {
  const ScratchFolder folder;
  const Written written = write_drawn(folder, "start.ckpt", 3);
  auto start = open_start(written.path.string(), layout_of(small_config("32"), 2), {});
  REQUIRE_FALSE(start.ok());
  CHECK(start.error().message().find("[model]") != std::string::npos);
  CHECK(start.error().message().find("start.ckpt") != std::string::npos);
  CHECK_FALSE(open_start((folder.path() / "none").string(), layout_of(small_config(), 2), {}).ok());
}

TEST_CASE("a start whose model computes otherwise is refused, also where all shapes are the same") {
  const ScratchFolder folder;
  const std::string path = write_drawn(folder, "start.ckpt", 3).path.string();
  const auto refusal = [&path](const PeerConfig& config) {
    auto start = open_start(path, layout_of(config, 2), {});
    return start.ok() ? std::string() : start.error().message();
  };
  PeerConfig config = small_config();
  config.model.rope_theta = 500'000.0F;
  CHECK(refusal(config).find("model.rope_theta is 10000.0 there, 500000.0 here") !=
        std::string::npos);
  config = small_config();
  config.model.heads = 4;
  config.model.kv_heads = 2;
  CHECK(refusal(config).find("model.heads is 2 there, 4 here, model.kv_heads is 1 there, 2 here") !=
        std::string::npos);
  config = small_config();
  config.model.context = 16;
  config.model.rope_low_frequency = 2.0F;  // says nothing without model.rope_factor
  CHECK(refusal(config).empty());
}

TEST_CASE("a checkpoint of another run is told by the keys that differ") {
  const ScratchFolder folder;
  write_drawn(folder, "00000000000000000001.ckpt", 3);
  auto store = CheckpointStore::open(folder.path(), 2);
  REQUIRE(store.ok());
  PeerConfig config = small_config();
  config.model.context = 32;
  config.run.start = "other.ckpt";
  config.run.tokens = 200;  // may change
  auto newest = newest_of_run(store.value(), {.run = 1}, config);
  REQUIRE_FALSE(newest.ok());
  CHECK(newest.error().message().find(
            " (run.start is \"\" there, \"other.ckpt\" here, model.context is 8 there, 32 here)") !=
        std::string::npos);
}

TEST_CASE("weights that were drawn from another seed are of another run") {
  const ScratchFolder folder;
  write_drawn(folder, "00000000000000000001.ckpt", 3);
  auto store = CheckpointStore::open(folder.path(), 2);
  REQUIRE(store.ok());
  PeerConfig config = config_with_data(folder);
  config.outer.rule.method = optim::OuterMethod::kLocal;
  const CheckpointDigests digests{.layout = layout_of(config, 2).digest()};
  CHECK(newest_of_run(store.value(), digests, config).ok());
  config.run.seed = 2;
  auto newest = newest_of_run(store.value(), digests, config);
  REQUIRE_FALSE(newest.ok());
  CHECK(newest.error().message().find("run.seed is 1 there, 2 here") != std::string::npos);
  config.run.start = "anything";
  CHECK(newest_of_run(store.value(), digests, config).ok());
}

TEST_CASE("a start whose file has other weights than the run began with is told as that") {
  const ScratchFolder folder;
  PeerConfig config = small_config();
  config.run.start = "it's.ckpt";
  const model::ParamLayout layout = layout_of(config, 2);
  Written contents;
  contents.fast.resize(layout.elements());
  write(folder, "00000000000000000001.ckpt", config, std::move(contents));
  auto store = CheckpointStore::open(folder.path(), 2);
  REQUIRE(store.ok());
  auto newest = newest_of_run(store.value(), {.run = 1, .layout = layout.digest()}, config);
  REQUIRE_FALSE(newest.ok());
  CHECK(newest.error().message().find("(the weights in run.start = \"it's.ckpt\" are not") !=
        std::string::npos);
}

TEST_CASE(
    "a run with outer steps goes on only from a checkpoint that has made some, one alone not") {
  const ScratchFolder folder;
  write_drawn(folder, "00000000000000000001.ckpt", 3, true);  // without momentum
  auto store = CheckpointStore::open(folder.path(), 2);
  REQUIRE(store.ok());
  PeerConfig config = config_with_data(folder);
  const CheckpointDigests digests{.layout = layout_of(config, 2).digest()};
  const auto refusal = [&] {
    auto newest = newest_of_run(store.value(), digests, config);
    REQUIRE_FALSE(newest.ok());
    CHECK(newest.error().message().find("outer.method: ") == 0);
    return newest.error().message();
  };
  CHECK(refusal().find("was \"local\"") != std::string::npos);
  config.outer.rule.method = optim::OuterMethod::kLocal;
  CHECK(refusal().find("was not \"local\"") != std::string::npos);
}

TEST_CASE("a run goes on only with data of the tokenizer that it was trained with") {
  const ScratchFolder folder;
  PeerConfig config = config_with_data(folder);
  config.outer.rule.method = optim::OuterMethod::kLocal;
  auto store = CheckpointStore::open(folder.path(), 2);
  REQUIRE(store.ok());
  Written contents = write_drawn(folder, "model.ckpt", 3);
  const CheckpointDigests digests{.layout = layout_of(config, 2).digest()};
  for (const std::string tokenizer : {"bytes", "spm-0123456789abcdef"}) {
    CAPTURE(tokenizer);
    contents.tokenizer = tokenizer;
    contents = write(folder, "00000000000000000001.ckpt", config, std::move(contents));
    auto newest = newest_of_run(store.value(), digests, config);
    REQUIRE(newest.ok() == (tokenizer == "bytes"));
    if (newest.ok()) continue;
    CHECK(newest.error().message().find("data.train") == 0);
    CHECK(newest.error().message().find("trained with tokenizer '" + tokenizer + "'") !=
          std::string::npos);
  }
}

TEST_CASE("checkpoints that the last start had elsewhere are not left behind without a word") {
  const ScratchFolder folder;
  PeerConfig config = config_with_data(folder);
  config.run.folder = folder.path() / "runs";
  const std::string last = dump(config);
  const auto opened = [&] {
    auto run = RunFolder::open(run_folder_names(config));
    REQUIRE(run.ok());
    REQUIRE(run.value().note_start(last, false).ok());
    return open_checkpoints(config, run.value());
  };
  auto store = opened();
  REQUIRE(store.ok());
  const auto before = store.value().folder();
  write_drawn(folder, "drawn.ckpt", 5);
  std::filesystem::rename(folder.path() / "drawn.ckpt", store.value().path_of(1));
  REQUIRE(open_checkpoint(before).ok());
  CHECK(opened().ok());

  config.checkpoint.folder = folder.path() / "elsewhere";
  auto refused = opened();
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message().find("checkpoint.folder: there is no checkpoint in ") == 0);
  CHECK(refused.error().message().find(before.string()) != std::string::npos);
  config.gossip.seeds = {"KEY@192.0.2.1:7700"};  // who have the weights
  CHECK(opened().ok());
  config.gossip.seeds.clear();
  config.checkpoint.resume = Resume::kNever;
  CHECK(opened().ok());
  config.checkpoint.resume = Resume::kAuto;
  std::filesystem::remove_all(before);
  CHECK(opened().ok());
}

TEST_CASE("checkpoints that were on a disk that is not there are not begun anew over") {
  const ScratchFolder folder;
  PeerConfig config = config_with_data(folder);
  config.run.folder = folder.path() / "runs";
  config.checkpoint.folder = folder.path() / "disk";
  const std::string last = dump(config);
  std::filesystem::path events;
  const auto opened = [&] {
    auto run = RunFolder::open(run_folder_names(config));
    REQUIRE(run.ok());
    REQUIRE(run.value().note_start(last, false).ok());
    events = run.value().events();
    return open_checkpoints(config, run.value());
  };
  const auto tell = [&](const std::string& where) {
    starling::testing::write_file(events,
                                  "{\"event\":\"started\",\"seconds\":0}\n"
                                  "{\"event\":\"checkpoint\",\"folder\":\"" +
                                      where + "\",\"seconds\":9}\n");
  };
  REQUIRE(opened().ok());  // the last start, which wrote none
  CHECK(opened().ok());
  tell("/elsewhere");
  CHECK(opened().ok());
  tell(config.checkpoint.folder);
  for (const bool elsewhere : {false, true}) {
    CAPTURE(elsewhere);
    if (elsewhere) config.checkpoint.folder = folder.path() / "other";
    auto refused = opened();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message().find("/disk: is that disk mounted?") != std::string::npos);
    CHECK_FALSE(check_kept(config).ok());
  }
  config.gossip.seeds = {"KEY@192.0.2.1:7700"};  // who have the weights
  CHECK(opened().ok());
  config.gossip.seeds.clear();
  config.checkpoint.resume = Resume::kNever;
  CHECK(opened().ok());
}

TEST_CASE(
    "a senseless checkpoint that cannot be moved out of the way is an error, and no endless loop") {
  const ScratchFolder folder;
  const PeerConfig config = config_with_data(folder);
  const model::ParamLayout layout = layout_of(config, 2);
  const CheckpointDigests digests{.layout = layout.digest()};
  auto store = CheckpointStore::open(folder.path() / "checkpoints", 2);
  REQUIRE(store.ok());
  CheckpointImage image(layout.elements(), true);
  image.progress.clock = -1;
  const std::string text = dump(config);
  const SectionList sections = sections_of(image, text);
  const auto path = store.value().path_of(store.value().next_sequence());
  REQUIRE(write_checkpoint(path, {.digests = digests, .title = {}}, sections.sections).ok());
  std::filesystem::create_directories(path.string() + ".bad/occupied");
  auto found = restore_newest(store.value(), digests, config, image);
  REQUIRE_FALSE(found.ok());
  CHECK(found.error().message().find("in the way") != std::string::npos);
}

TEST_CASE("damaged checkpoints are passed over, but not one after the other to nothing") {
  const ScratchFolder folder;
  PeerConfig config = config_with_data(folder);
  config.checkpoint.folder = (folder.path() / "checkpoints").string();
  config.outer.rule.method = optim::OuterMethod::kLocal;
  const model::ParamLayout layout = layout_of(config, 2);
  const CheckpointDigests digests{.layout = layout.digest()};
  auto store = CheckpointStore::open(folder.path() / "checkpoints", 2);
  REQUIRE(store.ok());
  CheckpointImage image(layout.elements(), false);
  const auto restored = [&] { return restore_newest(store.value(), digests, config, image); };
  CHECK(restored().value().empty());

  const std::string text = dump(config);
  const auto write_image = [&](std::uint64_t steps, double clock) {
    CheckpointImage written(layout.elements(), false);
    written.progress.steps = steps;
    written.progress.clock = clock;
    std::ranges::fill(written.second_moment, 9.0F);
    const SectionList sections = sections_of(written, text);
    const auto path = store.value().path_of(store.value().next_sequence());
    REQUIRE(write_checkpoint(path, {.digests = digests, .title = {}}, sections.sections).ok());
    return path;
  };
  const auto first = write_image(1, 0);
  write_image(2, -1);  // whole by its digests, but no such clock exists
  const auto newest = write_image(3, 0);
  std::filesystem::resize_file(newest, 5000);
  auto found = restored();
  REQUIRE(found.ok());
  CHECK(found.value() == first);
  CHECK(image.progress.steps == 1);
  CHECK(given_up_in(store.value().folder()) == 2);

  std::filesystem::resize_file(first, 5000);
  for (int start = 0; start < 2; ++start) {
    found = restored();
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().message().find("none of 3 checkpoints") == 0);
    CHECK(found.error().message().find("checkpoint.resume") != std::string::npos);
  }
  write_image(4, -1);
  CheckpointImage unread(layout.elements(), false);
  CHECK_FALSE(restore_newest(store.value(), digests, config, unread).ok());
  const auto is_zero = [](float moment) { return moment == 0; };
  CHECK(std::ranges::all_of(unread.second_moment, is_zero));  // or AdamW would begin with them

  config.outer.rule.method = optim::OuterMethod::kPairGossip;
  config.gossip.seeds = {"KEY@192.0.2.1:7700"};  // who may have the weights
  found = restored();
  REQUIRE(found.ok());
  CHECK(found.value().empty());
}

TEST_CASE("the age of a checkpoint comes back from the date, and without one is not known") {
  const Instant then = now() - std::chrono::hours(3);
  const CheckpointAge dated = to_date({.missed = 70, .written = then});
  CHECK(dated.missed == 70);
  const gossip::WeightsAge back = from_date(dated);
  CHECK(back.missed == 70);
  CHECK(back.written.has_value() == is_clock_set());
  if (back.written) CHECK(std::abs(to_seconds(*back.written - then)) < 60);
  CHECK_FALSE(from_date({.written = 0, .missed = 1}).written);
  CHECK_FALSE(from_date({.written = unix_seconds_now() + 3600}).written);  // the clock was set back
  CHECK(to_date({}).written == 0);
}

}  // namespace starling::peer
