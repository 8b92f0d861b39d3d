// PartialState: what a newcomer has fetched so far, on disk, so that a process that was killed goes
// on where it was. Nothing is believed before its digest was found in a manifest whose own digest
// was in the donor's offer, and before its numbers could be weights.
//
//   <folder>/state.data      the sections one after the other, each piece in its place; holes where
//                            the sections are that are not taken
//   <folder>/state.journal   48 bytes: magic "STRLJOI1", digests of run, model and layout, sections
//                            u64, one bit each, digest of all before; then 56-byte records: kind
//                            u32, piece u32, snapshot u64, digest of the piece (32), digest of all
//                            before in it. All little-endian; XXH3 where nothing else is said
//
// A record is written behind its piece. open() believes only what the data's bytes confirm, so a
// crash of the machine, too, costs no more than the newest pieces; what comes behind a torn record
// is dropped. Stripes that are not whole, of one snapshot, are dropped as well.
//
// Blocking: start-up and the disk's pool of threads; one owner at a time. Memory: the manifests of
// the kManifestsMax snapshots of which something was stored last.
#pragma once

#include <deque>
#include <filesystem>
#include <vector>

#include "gossip/actions.h"
#include "gossip/config.h"
#include "gossip/state_sketch.h"
#include "peer/files/checkpoint.h"
#include "peer/files/checkpoint_image.h"
#include "peer/io/byte_codec.h"
#include "peer/io/file_io.h"
#include "peer/states/state_plan.h"

namespace starling::peer {

class PartialState {
 public:
  static constexpr std::size_t kManifestsMax = 16;

  // sections: gossip::sections_taken(). What is of another run or model, or has others, is thrown
  // away.
  static Result<PartialState> open(const std::filesystem::path& folder, const StatePlan& plan,
                                   const CheckpointDigests& digests, std::uint8_t sections);
  // Also while it is open somewhere, which then finds no data and takes no room on disk.
  static void remove(const std::filesystem::path& folder);

  // Of every stripe the snapshot it is from, whole; else zero.
  std::vector<std::uint64_t> held() const;
  gossip::PieceStored store(const gossip::StorePiece& order, std::span<const std::byte> bytes);
  Status forget(const gossip::ForgetPieces& order);
  Result<bool> check(const gossip::CheckState& order) const;
  // The whole, verified once more. Sets the fast weights to the slow ones and the outer momentum to
  // zero, and the first moment where the second was fetched; else leaves both moments alone.
  Status load(CheckpointImage& image) const;

 private:
  struct Held {
    std::uint64_t snapshot = 0;  // zero: nothing
    gossip::StateDigest digest;
    PeerId from{};  // nobody: an earlier process stored it, the journal does not name donors
  };
  struct Manifest {
    PeerId from;
    std::uint64_t snapshot = 0;
    std::vector<gossip::StateDigest> digests;  // of all pieces; those of absent parts mean nothing
    std::vector<bool> parts;
  };
  PartialState(std::filesystem::path folder, const StatePlan& plan, std::uint8_t sections)
      : folder_(std::move(folder)), plan_(plan), sections_(sections), held_(plan_.pieces()) {}

  bool takes(std::uint32_t piece) const;
  std::vector<std::uint32_t> pieces_of(std::uint32_t stripe) const;  // those that are taken
  Status open_files(ByteWriter journal);
  void replay(std::span<const std::byte> records);
  void drop_unconfirmed();
  static void put_record(ByteWriter& journal, std::uint32_t kind, std::uint32_t piece,
                         const Held& held);
  Status append(std::uint32_t kind, std::uint32_t piece, const Held& held);
  gossip::PieceStored store_part(const gossip::StorePiece& order, std::span<const std::byte> bytes);
  Manifest* manifest_of(const gossip::StorePiece& order);  // null: not known
  std::uint64_t offset_of(const StatePiece& place) const;
  Status read(std::uint32_t piece, std::span<float> target) const;

  std::filesystem::path folder_;
  StatePlan plan_;
  std::uint8_t sections_;
  FileHandle data_, journal_;
  std::vector<Held> held_;
  std::deque<Manifest> manifests_;  // used last first
};

}  // namespace starling::peer
