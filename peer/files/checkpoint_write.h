// CheckpointWrite: one checkpoint on its way to the disk, asynchronously on a libuv loop, so that
// after a crash at any moment there is either the complete file or none under its name.
//
//   open tmp -> reserve space -> write, 4 MiB at a time -> make durable -> close -> read back and
//   verify -> rename to its name -> make the folder durable
//
// Any failure ends it, but one of the folder, which the log tells: the file is under its name then.
// Otherwise the tmp file is removed, files that exist are not touched, and nothing is retried on
// the same descriptor (after a failed sync the system may call lost pages clean). A full disk is
// found at the start, before old data could be given up for new.
//
// Thread: the loop's. `done` is called exactly once, from the loop; the object may be destroyed in
// it. Sections must stay as they are until then; one with a source blocks the loop while it is
// read.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "peer/files/checkpoint.h"

struct uv_loop_s;

namespace starling::peer {

inline constexpr std::string_view kTemporaryExtension = ".tmp";

class CheckpointWrite {
 public:
  using Done = std::function<void(Status)>;

  CheckpointWrite(uv_loop_s* loop, std::filesystem::path target, const CheckpointHeader& header,
                  std::span<const Section> sections, Done done);
  ~CheckpointWrite();  // only before start() or after done
  CheckpointWrite(const CheckpointWrite&) = delete;
  CheckpointWrite& operator=(const CheckpointWrite&) = delete;

  void start();

 private:
  struct Operation;
  std::unique_ptr<Operation> operation_;
};

// The same on a loop of its own, blocking; for the command line and tests.
Status write_checkpoint(const std::filesystem::path& target, const CheckpointHeader& header,
                        std::span<const Section> sections);

}  // namespace starling::peer
