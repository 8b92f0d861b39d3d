// ServedState: a checkpoint on disk, ready to be given to newcomers piece by piece. Opening it
// reads and verifies the whole file and makes the manifest: a digest for every piece. Afterwards
// nothing of it is in memory but the manifest; the file stays open, so it may be rotated away
// meanwhile.
//
// Blocking: the disk's pool of threads only. Errors: those of CheckpointFile; kNotFound, if the
// file lacks a section; kIncompatible, if it belongs to another model; kExhausted, if the model is
// so large that its manifest does not fit.
#pragma once

#include <filesystem>

#include "peer/files/checkpoint.h"
#include "peer/io/file_io.h"
#include "peer/states/state_plan.h"

namespace starling::peer {

class ServedState {
 public:
  static Result<ServedState> open(const std::filesystem::path& path, const StatePlan& plan,
                                  const CheckpointDigests& expected);

  const gossip::StateOffer& offer() const noexcept { return offer_; }
  // Of a piece or a part of the manifest; zero if there is no such thing.
  std::size_t piece_bytes(std::uint32_t piece) const;
  Status read(std::uint32_t piece, std::span<std::byte> target) const;

 private:
  ServedState(std::filesystem::path path, FileHandle file, const StatePlan& plan)
      : path_(std::move(path)), file_(std::move(file)), plan_(plan) {}
  Status find_sections(const CheckpointDigests& expected);
  Status make_manifest();

  std::filesystem::path path_;
  FileHandle file_;
  StatePlan plan_;
  std::array<std::uint64_t, gossip::kStateSections> offsets_{};
  std::vector<gossip::StateDigest> manifest_;
  gossip::StateOffer offer_;
};

}  // namespace starling::peer
