#include "peer/roles/run_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "peer/config/config_text.h"
#include "peer/files/checkpoint_parts.h"
#include "peer/files/key_files.h"
#include "peer/files/stored_model.h"
#include "peer/io/clock.h"
#include "peer/io/human_text.h"
#include "peer/io/json_fields.h"
#include "peer/roles/role_settings.h"

namespace starling::peer {

namespace {

// Without stretching, what would say how to stretch says nothing.
model::LlamaConfig without_idle_settings(model::LlamaConfig model) {
  if (model.rope_factor != 1.0F) return model;
  const model::LlamaConfig plain;
  model.rope_low_frequency = plain.rope_low_frequency;
  model.rope_high_frequency = plain.rope_high_frequency;
  model.rope_original_context = plain.rope_original_context;
  return model;
}

std::string told(const std::vector<KeyDifference>& differing) {
  std::string text;
  for (const auto& [key, there, here] : differing) {
    text += fmt::format("{}{} is {} there, {} here", text.empty() ? "" : ", ", key, there, here);
  }
  return text;
}

Status check_model(const StoredModel& stored, const model::LlamaConfig& model) {
  PeerConfig theirs = stored.config, ours = stored.config;
  theirs.model = without_idle_settings(stored.config.model);
  ours.model = without_idle_settings(model);
  ours.model.context = theirs.model.context;  // how far a model is used is not what it is
  const std::string differing = told(differing_keys(theirs, ours));
  if (differing.empty()) return ok_status();
  return Error(ErrorCode::kIncompatible,
               fmt::format("{} holds another model: {}; [model] must be the same, but for its "
                           "context",
                           stored.file.path().string(), differing));
}

bool is_of_the_run(const std::string& key) {
  return key == "run.name" || key == "run.start" || key == "outer.fragments" ||
         key.starts_with("model.");
}

}  // namespace

Result<RunStart> open_start(std::string_view path, const model::ParamLayout& layout,
                            std::span<const std::string> shards) {
  if (path.empty()) return RunStart{};
  auto stored = open_model(path);
  if (!stored.ok()) return std::move(stored).error();
  if (tokenizer_name_of_shards(shards).ok()) {
    Status own = check_tokenizer(stored.value(), shards);
    if (!own.ok()) return std::move(own).error();
  }
  if (Status same = check_model(stored.value(), layout.config()); !same.ok()) {
    return std::move(same).error();
  }
  auto weights = weights_for(layout, stored.value(), WeightsKind::kFast);
  if (!weights.ok()) return std::move(weights).error();
  RunStart start{.weights = std::move(weights).value()};
  start.digest = digest(std::as_bytes(std::span<const float>(start.weights)));
  return start;
}

CheckpointDigests run_digests(std::string_view run, const RunStart& start,
                              const model::ParamLayout& layout) {
  // One fragment: the architecture alone, however it is cut.
  auto whole = model::ParamLayout::plan(layout.config(), 1);
  STARLING_ASSERT(whole.ok());
  return {
      .run = digest(run, start.digest), .model = whole.value().digest(), .layout = layout.digest()};
}

namespace {

// The title alone may be the same.
Error with_differences(Error error, const std::filesystem::path& folder,
                       const CheckpointDigests& digests, const PeerConfig& config) {
  if (error.code() != ErrorCode::kIncompatible) return error;
  auto newest = open_checkpoint(folder);
  if (!newest.ok()) return error;
  const std::string differing = differences(newest.value(), digests, config);
  if (differing.empty()) return error;
  return Error(error.code(), fmt::format("{} ({})", error.message(), differing), error.place());
}

}  // namespace

Status check_seed(const CheckpointFile& file, const PeerConfig& config) {
  if (!config.run.start.empty()) return ok_status();  // nothing was drawn
  auto text = read_config(file);
  if (!text.ok()) return ok_status();
  auto stored = parse_config(text.value(), file.path().string(), {}, ConfigUse::kStored);
  if (!stored.ok() || stored.value().run.seed == config.run.seed) return ok_status();
  return Error(
      ErrorCode::kIncompatible,
      fmt::format("{}: run.seed is {} there, {} here: a run has one seed (another run.name "
                  "starts anew)",
                  file.path().string(), stored.value().run.seed, config.run.seed));
}

std::string differences(const CheckpointFile& file, const CheckpointDigests& digests,
                        const PeerConfig& config) {
  auto text = read_config(file);
  if (!text.ok()) return {};
  auto stored = parse_config(text.value(), file.path().string(), {}, ConfigUse::kStored);
  if (!stored.ok()) return {};
  auto differing = differing_keys(stored.value(), config);
  std::erase_if(differing, [](const KeyDifference& one) { return !is_of_the_run(one.key); });
  if (differing.empty() && !config.run.start.empty() && file.header().digests.run != digests.run) {
    return fmt::format(
        "the weights in run.start = {} are not those that the run began with: bring those back",
        in_quotes(config.run.start));
  }
  return told(differing);
}

bool trains_alone(const PeerConfig& config) {
  return config.outer.rule.method == optim::OuterMethod::kLocal || config.gossip.seeds.empty();
}

namespace {

// Also damaged ones.
bool has_checkpoints(const std::filesystem::path& folder) {
  auto files = checkpoints_in(folder);
  return !files.ok() || !files.value().empty();
}

// By what it logged of them.
bool has_written_some(const RunFolderNames& names, const std::filesystem::path& folder) {
  std::ifstream events(names.path() / kEventsFile, std::ios::binary);
  for (std::string line; std::getline(events, line);) {
    if (line.find(R"("event":"checkpoint")") == std::string::npos) continue;
    const nlohmann::json where = field(parse_shallow(line), "folder");
    if (where.is_string() && where.get<std::string>() == folder.string()) return true;
  }
  return false;
}

// What became of those of the last start, where there are none any more; empty: there were
// none. Whoever clears a folder inside the run's means it.
std::string left_behind(const PeerConfig& config) {
  const RunFolderNames names = run_folder_names(config);
  auto last = load_config(names.path() / "config.toml", {}, ConfigUse::kStored);
  if (!last.ok()) return {};
  const std::filesystem::path before = checkpoint_folder(last.value());
  if (has_checkpoints(before)) {
    return fmt::format("but there are those of the last start in {}: set it back, move them",
                       before.string());
  }
  if (last.value().checkpoint.folder.empty() || !has_written_some(names, before)) return {};
  return fmt::format("though this peer has written some to {}: is that disk mounted? Put them back",
                     before.string());
}

}  // namespace

Status check_kept(const PeerConfig& config) {
  const std::filesystem::path here = checkpoint_folder(config);
  if (config.checkpoint.resume == Resume::kNever || has_checkpoints(here)) return ok_status();
  const std::string where = left_behind(config);
  if (where.empty()) return ok_status();
  return Error(ErrorCode::kInvalidConfig,
               fmt::format("checkpoint.folder: there is no checkpoint in {}, {}, or set "
                           "checkpoint.resume = \"never\" to begin anew",
                           here.string(), where));
}

Result<CheckpointStore> open_checkpoints(const PeerConfig& config, RunFolder& folder) {
  const std::filesystem::path checkpoints = checkpoint_folder(config);
  if (Status locked = folder.lock_checkpoints(checkpoints); !locked.ok()) {
    return std::move(locked).error();
  }
  auto store = CheckpointStore::open(checkpoints, config.checkpoint.keep);
  if (!store.ok()) return store;
  if (config.checkpoint.resume != Resume::kNever) {
    Status kept = check_kept(config);
    if (kept.ok()) return store;
    if (trains_alone(config)) return std::move(kept).error();
    log_warning("{}. Until then this one begins with what the seeds have", kept.error().message());
    return store;
  }
  if (Status aside = store.value().set_aside(); !aside.ok()) return std::move(aside).error();
  return store;
}

Result<std::optional<CheckpointFile>> newest_of_run(CheckpointStore& store,
                                                    const CheckpointDigests& digests,
                                                    const PeerConfig& config) {
  auto newest = store.load_newest(digests, run_title(config));
  if (!newest.ok())
    return with_differences(std::move(newest).error(), store.folder(), digests, config);
  if (!newest.value()) return newest;
  if (Status seed = check_seed(*newest.value(), config); !seed.ok()) return std::move(seed).error();
  Status same = check_tokenizer(*newest.value(), config.data.train);
  if (!same.ok()) {
    return std::move(same).error().with_context("data.train (another run.name starts anew)");
  }
  Status method = check_sections(*newest.value(), config.outer.rule.method);
  if (!method.ok()) return std::move(method).error().with_context("outer.method");
  return newest;
}

Status check_given_up(const PeerConfig& config) {
  const std::filesystem::path folder = checkpoint_folder(config);
  const std::size_t lost = given_up_in(folder);
  if (lost == 0) return ok_status();
  return Error(ErrorCode::kCorrupt,
               fmt::format("none of {} in {} can be used: put a copy of one there, or set "
                           "checkpoint.resume = \"never\" to begin anew",
                           counted(lost, "checkpoint"), folder.string()));
}

Result<std::filesystem::path> restore_newest(CheckpointStore& store,
                                             const CheckpointDigests& digests,
                                             const PeerConfig& config, CheckpointImage& image) {
  while (true) {
    auto newest = newest_of_run(store, digests, config);
    if (!newest.ok()) return std::move(newest).error();
    if (!newest.value()) break;
    const std::filesystem::path path = newest.value()->path();
    Status read = restore(*newest.value(), image);
    if (read.ok()) return path;
    if (read.error().code() != ErrorCode::kCorrupt) return naming(std::move(read).error(), path);
    if (Status moved = store.give_up(path, read.error()); !moved.ok()) {
      return std::move(moved).error().with_context(
          "a checkpoint that cannot be used is in the way");
    }
    image.progress = {};
    std::ranges::fill(image.first_moment, 0.0F);
    std::ranges::fill(image.second_moment, 0.0F);
    image.data = {};
    image.ledger.clear();
    image.unsettled.clear();
    image.tokens.clear();
  }
  Status lost = check_given_up(config);
  if (lost.ok()) return std::filesystem::path();
  if (trains_alone(config)) return std::move(lost).error();
  log_warning("{}. Until then this one begins with what the seeds have", lost.error().message());
  return std::filesystem::path();
}

Result<gossip::Identity> open_identity(const PeerConfig& config, RunFolder& folder) {
  const std::filesystem::path file = key_file(config);
  std::error_code failure;
  const bool known = std::filesystem::exists(file, failure);
  auto identity = load_or_make_identity(file);
  if (!identity.ok()) return std::move(identity).error().with_context("trust.key");
  if (!known) log_info("there was no key in {} (trust.key): made one", file.string());
  Status claimed = folder.claim_key(file, config.run.name);
  if (!claimed.ok()) return std::move(claimed).error();
  return identity;
}

CheckpointAge to_date(const gossip::WeightsAge& age) {
  CheckpointAge dated{.written = 0, .missed = age.missed};
  if (age.written && is_clock_set())
    dated.written = unix_seconds_now() - seconds_since(*age.written);
  return dated;
}

gossip::WeightsAge from_date(const CheckpointAge& age) {
  gossip::WeightsAge told{.missed = age.missed, .written = std::nullopt};
  const double ago = unix_seconds_now() - age.written;
  if (age.written > 0 && ago >= 0 && is_clock_set()) told.written = now() - from_seconds(ago);
  return told;
}

gossip::RestoredState restored_state(const CheckpointImage& image,
                                     std::vector<gossip::LedgerRow> ledger) {
  return {.ledger = std::move(ledger),
          .tokens = image.tokens,
          .passes = image.data.passes,
          .inherited = image.progress.inherited,
          .age = from_date(image.age)};
}

}  // namespace starling::peer
