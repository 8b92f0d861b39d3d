#include "peer/files/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/assert.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "peer/files/checkpoint_write.h"
#include "peer/files/run_folder.h"
#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".ckpt";
constexpr std::string_view kBadExtension = ".bad";
constexpr std::string_view kOldExtension = ".old";
constexpr std::size_t kDigits = 20;

// The number in "<20 digits>.ckpt" plus `suffix`; nothing for any other name.
std::optional<std::uint64_t> sequence_of(std::string_view name, std::string_view suffix) {
  if (name.size() != kDigits + kExtension.size() + suffix.size()) return {};
  const std::string_view end = name.substr(kDigits);
  if (end.substr(0, kExtension.size()) != kExtension) return {};
  if (end.substr(kExtension.size()) != suffix) return {};
  return parse_number<std::uint64_t>(name.substr(0, kDigits));
}

Result<std::vector<std::string>> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    names.push_back(entry->path().filename().string());
  }
  if (failure) return io_error("list", folder, failure.value());
  return names;
}

std::vector<std::uint64_t> newest_first(std::span<const std::string> names) {
  std::vector<std::uint64_t> sequences;
  for (const std::string& name : names) {
    if (const auto sequence = sequence_of(name, "")) sequences.push_back(*sequence);
  }
  std::sort(sequences.rbegin(), sequences.rend());
  return sequences;
}

fs::path file_name(std::uint64_t sequence) {
  return fmt::format("{:0{}}{}", sequence, kDigits, kExtension);
}

// What of the two does not fit, in words.
std::string_view difference(const CheckpointDigests& found, const CheckpointDigests& expected) {
  if (found.run != expected.run) return "run";
  if (found.model != expected.model) return "model";
  return "parameter layout (outer.fragments)";
}

// Damage is what a fallback is for; a failing disk or a full table of files is not damage.
bool is_damage(const Error& error) { return error.code() == ErrorCode::kCorrupt; }

// Found out before hours of training, not behind them. A full disk may have room by then.
Status check_writable(const fs::path& folder) {
  fs::path probe = folder / file_name(0);
  probe += kTemporaryExtension;  // so that open() removes what a kill has left of it
  auto file = FileHandle::open(probe, O_WRONLY | O_CREAT);
  if (file.ok()) {
    std::error_code ignored;
    fs::remove(probe, ignored);
    return ok_status();
  }
  if (file.error().code() == ErrorCode::kExhausted) return ok_status();
  return Error(
      file.error().code(),
      fmt::format("checkpoint folder {} cannot be written to ({}): make it writable, or set "
                  "checkpoint.folder to one that is",
                  folder.string(), file.error().message()));
}

Error unusable(Error&& error, const fs::path& path) {
  return Error(error.code(),
               fmt::format("checkpoint {} cannot be used: {}; nothing is trained over it. {}",
                           path.string(), error.message(), remedy_of_checkpoint(error)));
}

}  // namespace

std::string_view remedy_of_checkpoint(const Error& error) {
  if (error.code() == ErrorCode::kIncompatible) {
    return "To begin anew with this program, choose another run.name or move the checkpoints away";
  }
  return "Make it readable for this user and try again, or choose another run.name";
}

Result<CheckpointStore> CheckpointStore::open(const fs::path& folder, std::uint32_t keep) {
  STARLING_ASSERT(keep >= 1);
  auto created = create_folder(folder);
  if (!created.ok()) return std::move(created).error();
  if (Status writable = check_writable(folder); !writable.ok()) return std::move(writable).error();
  auto names = names_in(folder);
  if (!names.ok()) return std::move(names).error();
  CheckpointStore store(folder, keep);
  for (const std::string& name : names.value()) {
    if (sequence_of(name, kTemporaryExtension).has_value()) {
      std::error_code ignored;  // it only takes up room; the next start tries again
      fs::remove(folder / name, ignored);
    }
    for (const std::string_view suffix : {std::string_view(""), kBadExtension, kOldExtension}) {
      const std::uint64_t sequence = sequence_of(name, suffix).value_or(0);
      store.last_sequence_ = std::max(store.last_sequence_, sequence);
    }
  }
  return store;
}

Result<std::optional<CheckpointFile>> CheckpointStore::load_newest(
    const CheckpointDigests& expected, std::string_view title) {
  auto names = names_in(folder_);
  if (!names.ok()) return std::move(names).error();
  for (const std::uint64_t sequence : newest_first(names.value())) {
    const fs::path path = path_of(sequence);
    auto file = CheckpointFile::open(path);
    if (file.ok()) {
      const CheckpointHeader& header = file.value().header();
      if (header.digests == expected) return std::optional(std::move(file).value());
      return Error(
          ErrorCode::kIncompatible,
          fmt::format(
              "checkpoint {} is of another {}: it holds '{}', but this peer "
              "trains '{}'; choose another run.name, or checkpoint.resume = \"never\", which "
              "keeps them as *.old",
              path.string(), difference(header.digests, expected), header.title, title));
    }
    if (!is_damage(file.error())) return unusable(std::move(file).error(), path);
    static_cast<void>(give_up(path, file.error()));  // the one before it is tried either way
  }
  return std::optional<CheckpointFile>();
}

Status CheckpointStore::give_up(const fs::path& file, const Error& why) {
  const std::vector<std::uint64_t> all = sequences();
  const bool before = !all.empty() && path_of(all.back()) != file;
  log_warning("checkpoint {} cannot be used: {}; it is kept as *{}, and {}", file.string(),
              why.message(), kBadExtension,
              before ? "the one before it is tried" : "there is none before it");
  fs::path bad = file;
  bad += kBadExtension;
  std::error_code failure;
  fs::rename(file, bad, failure);
  if (!failure) return ok_status();
  Error kept = io_error("rename", file, failure.value());
  log_warning("{}", kept.message());
  return kept;
}

Status CheckpointStore::set_aside() {
  auto names = names_in(folder_);
  if (!names.ok()) return std::move(names).error();
  std::vector<std::uint64_t> present = newest_first(names.value());
  std::reverse(present.begin(), present.end());  // killed half-way, the newest are still in place
  for (const std::uint64_t sequence : present) {
    fs::path old = path_of(sequence);
    old += kOldExtension;
    std::error_code failure;
    fs::rename(path_of(sequence), old, failure);
    if (failure) return io_error("rename", path_of(sequence), failure.value());
  }
  if (present.empty()) return ok_status();
  log_warning("{} checkpoints of an earlier training in {} are kept as *{}", present.size(),
              folder_.string(), kOldExtension);
  return sync_folder(folder_);
}

fs::path CheckpointStore::path_of(std::uint64_t sequence) const {
  return folder_ / file_name(sequence);
}

void CheckpointStore::prune() {
  const auto present = sequences();
  for (std::size_t i = keep_; i < present.size(); ++i) remove(path_of(present[i]));
}

bool CheckpointStore::make_room() {
  const auto present = sequences();
  if (present.size() <= 2) return false;
  remove(path_of(present.back()));
  return sequences().size() < present.size();
}

std::vector<std::uint64_t> CheckpointStore::sequences() const {
  auto names = names_in(folder_);
  if (!names.ok()) {
    log_warning("{}", names.error().message());
    return {};
  }
  return newest_first(names.value());
}

void CheckpointStore::remove(const fs::path& file) {
  std::error_code failure;
  fs::remove(file, failure);
  if (failure) log_warning("cannot remove {}: {}", file.string(), failure.message());
}

namespace {

// What people name, and what they may mean by it.
std::string instead_of(const fs::path& folder) {
  std::error_code ignored;
  const fs::path peer = peers_in(folder).front();
  if (peer != folder) {
    return fmt::format(
        ": it is a run, so name one of its peers, as {}, or make one of all by 'starling average'",
        peer.string());
  }
  if (fs::exists(folder / "peer.json", ignored)) {
    return " yet: its peer writes one in every checkpoint.every_steps steps, and at its end, to "
           "checkpoint.folder if that is set";
  }
  if (fs::exists(folder / "config.json", ignored)) {
    return ": if it is a model in Hugging Face's format, 'starling import' makes a checkpoint of "
           "it";
  }
  return "";
}

}  // namespace

std::size_t given_up_in(const fs::path& folder) {
  auto names = names_in(folder);
  if (!names.ok()) return 0;
  return static_cast<std::size_t>(std::count_if(
      names.value().begin(), names.value().end(),
      [](const std::string& name) { return sequence_of(name, kBadExtension).has_value(); }));
}

Result<std::vector<fs::path>> checkpoints_in(const fs::path& path) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const fs::path& folder : {path, path / kCheckpointFolder}) {
    if (!found.empty() || !fs::is_directory(folder, ignored)) continue;
    auto names = names_in(folder);
    if (!names.ok()) return std::move(names).error();
    for (const auto sequence : newest_first(names.value())) {
      found.push_back(folder / file_name(sequence));
    }
  }
  return found;
}

std::vector<fs::path> trained_peers_in(const fs::path& folder) {
  std::vector<fs::path> all = peers_in(folder), trained;
  const auto has_none = [](const fs::path& peer) {
    auto files = checkpoints_in(peer);
    return files.ok() && files.value().empty();
  };
  std::remove_copy_if(all.begin(), all.end(), std::back_inserter(trained), has_none);
  if (trained.empty()) return all;
  for (const fs::path& peer : all) {
    if (!has_none(peer)) continue;
    log_warning(
        "{} has no checkpoint and is left out; where checkpoint.folder is another, name that",
        peer.string());
  }
  return trained;
}

Result<CheckpointFile> open_checkpoint(const fs::path& path) {
  std::error_code ignored;  // what is no folder is tried as a file, whose error says more
  if (!fs::is_directory(path, ignored)) return CheckpointFile::open(path);
  auto files = checkpoints_in(path);
  if (!files.ok()) return std::move(files).error();
  if (files.value().empty()) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("there is no checkpoint in {}{}", path.string(), instead_of(path)));
  }
  const fs::path& newest = files.value().front();
  auto opened = CheckpointFile::open(newest);
  if (opened.ok() || !is_damage(opened.error())) return opened;
  const std::string instead =
      files.value().size() == 1 ? "" : "; name one before it, as " + files.value()[1].string();
  return Error(ErrorCode::kCorrupt,
               fmt::format("{}: {}{}", newest.string(), opened.error().message(), instead));
}

}  // namespace starling::peer
