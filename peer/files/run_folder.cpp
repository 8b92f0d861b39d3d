#include "peer/files/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/hash.h"
#include "base/log.h"
#include "gossip/messages.h"
#include "peer/io/clock.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockFile = "lock";
constexpr std::string_view kIncarnationFile = "peer.json";
constexpr std::uint64_t kIncarnationsEnd = std::uint64_t{1} << (64 - gossip::kRefutationBits);
constexpr std::uint64_t kPerSecond = 256;  // so that 2^40 last until 2106

// `key`: what to set to another value if somebody has the folder.
Result<FileHandle> take_lock(const fs::path& folder, std::string_view key) {
  const fs::path path = folder / kLockFile;
  auto file = lock_file(path);
  if (!file.ok()) {
    if (file.error().code() != ErrorCode::kUnavailable) return file;
    auto holder = read_text(path, 64);
    return Error(
        ErrorCode::kUnavailable,
        fmt::format("folder {} is in use by process {}: end it, or give this peer another {}",
                    folder.string(), holder.ok() ? holder.value() : "(unknown)", key));
  }
  const std::string pid = std::to_string(::getpid());
  if (::ftruncate(file.value().get(), 0) != 0) return io_error("write", path, errno);
  auto written = write_all(file.value(), path, std::as_bytes(std::span(pid)));
  // It is held all the same, and nobody is kept from training by a full disk of checkpoints.
  const bool full = !written.ok() && written.error().code() == ErrorCode::kExhausted;
  if (!written.ok() && !full) return std::move(written).error();
  return file;
}

std::optional<std::uint64_t> parse_incarnation(const std::string& text) {
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  const auto incarnation = parsed.find("incarnation");
  if (incarnation == parsed.end() || !incarnation->is_number_unsigned()) return std::nullopt;
  return incarnation->get<std::uint64_t>();
}

// 0: there is none yet.
Result<std::uint64_t> read_incarnation(const fs::path& path) {
  auto text = read_text(path, 4096);
  if (!text.ok() && text.error().code() == ErrorCode::kNotFound) return std::uint64_t{0};
  if (!text.ok()) return std::move(text).error();
  const auto parsed = parse_incarnation(text.value());
  if (parsed && *parsed < kIncarnationsEnd - 1) return *parsed;  // there is a next one
  // A number made up could be that of a former life, so a person has to decide.
  return Error(ErrorCode::kCorrupt,
               fmt::format("{} is damaged; remove it and the key beside it to join as a new peer",
                           path.string()));
}

// In its place, where a full disk has no room for another: one sector of a file of the same length.
Status overwrite(const fs::path& path, std::string_view text) {
  auto file = FileHandle::open(path, O_RDWR);
  if (!file.ok()) return std::move(file).error();
  auto size = file_size(file.value(), path);
  if (!size.ok()) return std::move(size).error();
  if (size.value() != text.size()) return Error(ErrorCode::kExhausted, "of another length");
  Status written = write_at(file.value(), path, 0, std::as_bytes(std::span(text)));
  if (!written.ok()) return written;
  return ::fdatasync(file.value().get()) == 0 ? ok_status() : io_error("make durable", path, errno);
}

}  // namespace

std::uint64_t incarnation_now() {
  return static_cast<std::uint64_t>(unix_seconds_now() * static_cast<double>(kPerSecond));
}

std::uint64_t next_incarnation(std::uint64_t last, std::uint64_t clock) {
  return std::max(last + 1, clock < kIncarnationsEnd - 2 ? clock : 0);
}

std::uint64_t visit_incarnation(std::uint64_t last, std::uint64_t clock, bool is_set) {
  if (is_set) return std::max(last + 1, clock);
  constexpr std::uint64_t kDay = 24 * 3600 * kPerSecond;
  if (last == 0) return clock > kDay ? clock - kDay : 1;
  return last + 1 + (clock - std::min(clock, last)) / 16;
}

double seconds_between(std::uint64_t earlier, std::uint64_t later) {
  return static_cast<double>(later - earlier) / static_cast<double>(kPerSecond);
}

std::vector<fs::path> peers_in(const fs::path& folder) {
  std::vector<fs::path> peers;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    std::error_code ignored;
    const bool is_peer = fs::is_directory(entry->path() / kCheckpointFolder, ignored);
    if (is_peer) peers.push_back(entry->path());
  }
  std::sort(peers.begin(), peers.end());
  if (peers.empty()) peers.push_back(folder);
  return peers;
}

Result<LastStart> last_start(const fs::path& folder) {
  auto incarnation = read_incarnation(folder / kIncarnationFile);
  if (!incarnation.ok()) return std::move(incarnation).error();
  LastStart last{.incarnation = incarnation.value(), .process = {}};
  const fs::path path = folder / kLockFile;
  auto lock = FileHandle::open(path, O_RDONLY);
  if (!lock.ok() && lock.error().code() == ErrorCode::kNotFound) return last;
  if (!lock.ok()) return std::move(lock).error();
  if (::flock(lock.value().get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return last;
  auto holder = read_text(path, 64);
  last.process = holder.ok() ? holder.value() : "(unknown)";
  return last;
}

Result<RunFolder> RunFolder::open(const RunFolderNames& names) {
  const fs::path path = names.path();
  auto created = create_folder(path);
  if (!created.ok()) return std::move(created).error();
  auto lock = take_lock(path, "run.peer_name");
  if (!lock.ok()) return std::move(lock).error();
  RunFolder folder(path, std::move(lock).value());
  auto raised = folder.raise_incarnation();
  if (!raised.ok()) return std::move(raised).error();
  for (const fs::path& inner : {folder.checkpoints(), folder.event_file().parent_path()}) {
    auto made = create_folder(inner);
    if (!made.ok()) return std::move(made).error();
  }
  return folder;
}

Status RunFolder::lock_checkpoints(const fs::path& folder) {
  auto created = create_folder(folder);
  if (!created.ok()) return created;
  std::error_code unknown;
  if (fs::equivalent(folder, path_, unknown)) return ok_status();  // it has that one
  auto lock = take_lock(folder, "checkpoint.folder");
  if (!lock.ok() && lock.error().code() == ErrorCode::kIo) {
    return std::move(lock).error().with_context("checkpoint.folder must be writable");
  }
  if (!lock.ok()) return std::move(lock).error();
  checkpoints_lock_ = std::move(lock).value();
  return ok_status();
}

// One byte of the file, wherever the run's name says: one key may serve several runs at a time.
Status RunFolder::claim_key(const fs::path& key, std::string_view run) {
  auto file = FileHandle::open(key, O_RDWR);
  if (!file.ok()) {
    std::error_code unknown;
    if (fs::exists(key, unknown)) {
      log_warning("{} cannot be written: that no other process uses this key is for you to see to",
                  key.string());
    }
    return ok_status();
  }
  struct ::flock place {};
  place.l_type = F_WRLCK;
  place.l_whence = SEEK_SET;
  place.l_start = static_cast<off_t>(digest(run) >> 1);
  place.l_len = 1;
  const bool alone = ::fcntl(file.value().get(), F_OFD_SETLK, &place) == 0 || errno != EAGAIN;
  if (!alone) {
    return Error(
        ErrorCode::kUnavailable,
        fmt::format("another process takes part in run {} with the key {}: the others would "
                    "take the two for one peer; give this one a key of its own (trust.key; "
                    "'starling keygen FILE' makes one)",
                    run, key.string()));
  }
  key_lock_ = std::move(file).value();
  return ok_status();
}

Status RunFolder::raise_incarnation() {
  const fs::path path = path_ / kIncarnationFile;
  auto last = read_incarnation(path);
  if (!last.ok()) return std::move(last).error();
  incarnation_ = next_incarnation(last.value(), incarnation_now());
  const std::string text = fmt::format("{{\"incarnation\": {}}}\n", incarnation_);
  Status written = replace_file(path, text);
  const bool full = !written.ok() && written.error().code() == ErrorCode::kExhausted;
  return full && overwrite(path, text).ok() ? ok_status() : written;
}

fs::path RunFolder::event_file() const {
  return path_ / "tensorboard" /
         fmt::format("events.out.tfevents.{:010}.{}", incarnation_, path_.filename().string());
}

Status RunFolder::note_start(std::string_view toml, bool anew) const {
  if (anew) {
    if (Status aside = set_aside_logs(); !aside.ok()) return aside;
  }
  Status written = replace_file(path_ / "config.toml", toml);
  if (written.ok() || written.error().code() != ErrorCode::kExhausted) return written;
  log_warning("{}: that of the last start is left there", written.error().message());
  return ok_status();
}

Status RunFolder::set_aside_logs() const {
  const fs::path figures = event_file().parent_path();
  bool any = false;
  for (const fs::path& log : {metrics(), events(), figures}) {
    std::error_code unknown, failure;
    if (!fs::exists(log, unknown) || fs::is_empty(log, unknown)) continue;
    fs::path old = log.string() + ".old";
    for (int next = 2; fs::exists(old, unknown); ++next) {
      old = fmt::format("{}.old{}", log.string(), next);
    }
    fs::rename(log, old, failure);
    if (failure) return io_error("rename", log, failure.value());
    any = true;
  }
  if (any) log_warning("what an earlier training told in {} is kept as *.old", path_.string());
  return create_folder(figures);
}

}  // namespace starling::peer
