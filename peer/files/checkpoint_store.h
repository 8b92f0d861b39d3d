// CheckpointStore: the folder of one peer's checkpoints: their names, which one to load, which ones
// to keep. There is no pointer file that could lie: the folder itself is the list.
//
//   00000000000000000012.ckpt   complete; the largest number is the newest
//   *.tmp                       an interrupted write; removed by open()
//   *.old                       of a training that one with checkpoint.resume = "never" left behind
//   *.bad                       was damaged when it was to be loaded; kept for a person to see
//
// load_newest() tries the highest number and falls back on damage, one by one, saying so in the
// log. A checkpoint of another run, model or version of the format, or one that cannot be read now,
// is an error and never skipped: falling back would train over it. Numbers are never used twice.
//
// Thread: one owner: whoever starts the peer, then the disk. RunFolder::lock_checkpoints()
// keeps other processes away. Errors name the folder or file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "peer/files/checkpoint.h"

namespace starling::peer {

class CheckpointStore {
 public:
  // Creates the folder if need be; one that no file can be made in is an error. keep >= 1.
  static Result<CheckpointStore> open(const std::filesystem::path& folder, std::uint32_t keep);

  // The newest intact checkpoint; nothing if there is none at all. `title` names what this peer
  // expects, for the error that names both.
  Result<std::optional<CheckpointFile>> load_newest(const CheckpointDigests& expected,
                                                    std::string_view title);

  // `file` turned out to be damaged after all: the one before it is the newest from now on, unless
  // an error says that it could not be moved out of the way.
  Status give_up(const std::filesystem::path& file, const Error& why);

  // Before a training that begins anew: what is there is another's, to be neither loaded nor
  // pruned.
  Status set_aside();

  // A number above all numbers in the folder, also of damaged files and those set aside.
  std::uint64_t next_sequence() noexcept { return ++last_sequence_; }
  std::filesystem::path path_of(std::uint64_t sequence) const;

  // After a checkpoint has been written and verified: removes all but the newest `keep`.
  void prune();
  // One of its files; if that fails, the log says so.
  void remove(const std::filesystem::path& file);
  // After a write that found the disk full: removes the oldest one if two others remain. True if
  // there is more room now.
  bool make_room();

  const std::filesystem::path& folder() const noexcept { return folder_; }
  std::vector<std::uint64_t> sequences() const;  // newest first

 private:
  CheckpointStore(std::filesystem::path folder, std::uint32_t keep)
      : folder_(std::move(folder)), keep_(keep) {}
  std::filesystem::path folder_;
  std::uint32_t keep_;
  std::uint64_t last_sequence_ = 0;
};

// What to do about a checkpoint that is not damaged, but cannot be opened.
std::string_view remedy_of_checkpoint(const Error& error);

// The peers of the run in `folder` that have a checkpoint; of others the log says that they are
// left out. All of them if none has one, and `folder` itself if it is no run: whoever opens one
// says what is missing.
std::vector<std::filesystem::path> trained_peers_in(const std::filesystem::path& folder);

// How many were given up in a store's folder, by whichever process; they are kept, for whoever can
// save them.
std::size_t given_up_in(const std::filesystem::path& folder);

// Those in the folder of a peer, or in that of its checkpoints, the newest first; maybe damaged.
Result<std::vector<std::filesystem::path>> checkpoints_in(const std::filesystem::path& path);

// For tools, which change nothing: `path` is a checkpoint, or a folder of them, or the folder of a
// peer; of a folder the newest file is opened. Where that is damaged the error names another.
Result<CheckpointFile> open_checkpoint(const std::filesystem::path& path);

}  // namespace starling::peer
