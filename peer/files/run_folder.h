// RunFolder: where one peer of one run keeps its things, and that it is alone there.
//
//   <run.folder>/<run.name>/<peer_name>/
//     lock            held while the process lives; names its pid
//     peer.json       an incarnation raised at every start
//     key             the peer's secret key, unless trust.key names another (key_files.h)
//     config.toml     the effective configuration of the last start that was not refused
//     metrics.jsonl   one JSON object per line
//     events.jsonl    the same, for what happens now and then
//     tensorboard/    the figures of metrics.jsonl as event files, one for each start
//     traffic         bytes per hour, where bandwidth.gigabytes_per_day is set
//     checkpoints/    checkpoint_store.h; and the tokenizer they name (tokenizer_file.h)
//
// The incarnation is durable before open() returns, so no two lives of a peer ever have the same
// one. It is at least incarnation_now(), so that a key that is used in another folder later is not
// taken for a former life, and two that are started with one key at a time for one process. The
// lock goes with the process, however it ends. Move-only. Start-up only; errors name the folder and
// what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "peer/io/file_io.h"

namespace starling::peer {

inline constexpr std::string_view kCheckpointFolder = "checkpoints";
inline constexpr std::string_view kKeyFile = "key";
inline constexpr std::string_view kEventsFile = "events.jsonl";

// The incarnation of a peer that starts at this moment: the time, in parts of a second.
std::uint64_t incarnation_now();
// Above `last`, and the clock's where that is not a lifetime ahead: it must not use up the numbers
// of all starts to come.
std::uint64_t next_incarnation(std::uint64_t last, std::uint64_t clock);
// Of one that only asks, and leaves no number behind: above `last`, and below that of the next
// start, also where a clock that `is_set` by nobody is set back in between: by less than a day, or
// 15/16 of the time since the last start.
std::uint64_t visit_incarnation(std::uint64_t last, std::uint64_t clock, bool is_set);
// For two of those.
double seconds_between(std::uint64_t earlier, std::uint64_t later);

// The folders of peers in that of a run, by name; `folder` itself, whatever it is, if there are
// none.
std::vector<std::filesystem::path> peers_in(const std::filesystem::path& folder);

struct RunFolderNames {
  std::filesystem::path root;
  std::string_view run, peer;
  std::filesystem::path path() const { return root / run / peer; }
};

// What the last start has left, for those who change nothing.
struct LastStart {
  std::uint64_t incarnation = 0;  // 0: there was none
  std::string process;            // that has the folder now; empty: none
};
Result<LastStart> last_start(const std::filesystem::path& folder);

class RunFolder {
 public:
  static Result<RunFolder> open(const RunFolderNames& names);

  // Rises with every start.
  std::uint64_t incarnation() const noexcept { return incarnation_; }

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path checkpoints() const { return path_ / kCheckpointFolder; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path events() const { return path_ / kEventsFile; }
  // Of this start; later ones come later by name.
  std::filesystem::path event_file() const;
  std::filesystem::path traffic() const { return path_ / "traffic"; }

  // For as long as this lives no other process writes checkpoints to `folder`, wherever it is.
  Status lock_checkpoints(const std::filesystem::path& folder);

  // For as long as this lives no other process of this machine takes part in `run` with this key. A
  // key that cannot be written is not guarded.
  Status claim_key(const std::filesystem::path& key, std::string_view run);

  // When nothing can refuse the start any more: config.toml is replaced as a whole. `anew`: lines
  // and figures of an earlier training get ".old" behind their names, with a number where there are
  // some already. On a full disk the config.toml of the last start stays.
  Status note_start(std::string_view toml, bool anew) const;

 private:
  RunFolder(std::filesystem::path path, FileHandle lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  Status raise_incarnation();
  Status set_aside_logs() const;

  std::filesystem::path path_;
  FileHandle lock_, checkpoints_lock_, key_lock_;
  std::uint64_t incarnation_ = 0;
};

}  // namespace starling::peer
