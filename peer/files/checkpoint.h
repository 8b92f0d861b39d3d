// Checkpoint: one file that holds named sections of bytes and can prove that it is whole. What the
// sections mean is not its business (checkpoint_parts.h). All fields little-endian.
//
//   header   4096 bytes: magic, version, number of sections, total length of the file, sequence,
//            step, tokens, peer, incarnation, the digests of run, model and layout, a title for
//            people, the section table (name, offset, length), and last the header's own digest
//   sections in the order of the table, each from a multiple of 64, the gaps filled with zeros
//   footer   1024 bytes: the digest of each section with its gap, the header's digest, the total
//            length, and last the footer's own digest and a magic
//
// Every byte of the file is under some digest, and offsets and lengths have one legal value each.
// The writer side is a CheckpointEncoder: it yields the file's bytes in order and copies nothing
// but header, footer and what is read only as it is written. The reader side is CheckpointFile:
// open() reads and verifies everything; lengths are checked against the file's before they are
// believed.
//
// Thread: plain values, one owner. Errors: kCorrupt with the reason; kIncompatible for another
// version; those of file_io.h from reading.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"

namespace starling::peer {

inline constexpr std::uint32_t kCheckpointVersion = 2;  // no other is read
inline constexpr std::size_t kCheckpointHeaderBytes = 4096;
inline constexpr std::size_t kCheckpointFooterBytes = 1024;
inline constexpr std::size_t kSectionsMax = 64;
inline constexpr std::size_t kSectionNameMax = 24;
inline constexpr std::size_t kCheckpointTitleMax = 160;

// What must be equal before a checkpoint is restored.
struct CheckpointDigests {
  std::uint64_t run = 0, model = 0, layout = 0;
  friend bool operator==(const CheckpointDigests&, const CheckpointDigests&) = default;
};

struct CheckpointHeader {
  std::uint64_t sequence = 0;  // counts the checkpoints of one peer, up from 1
  std::uint64_t step = 0, tokens = 0;
  std::uint64_t peer = 0, incarnation = 0;
  CheckpointDigests digests;
  std::string title;  // names run and model for people; at most kCheckpointTitleMax bytes are kept
};

// Where the bytes of a file come from: fills `target` from `offset`, or says why not.
struct SectionSource {
  std::uint64_t size = 0;
  std::function<Status(std::uint64_t offset, std::span<std::byte> target)> read;
};

struct Section {
  std::string name;                  // 1 to kSectionNameMax bytes, unique in its file
  std::span<const std::byte> bytes;  // must stay as they are until the file is written
  // Instead of `bytes`: read from the begin to the end, as they are written. May block.
  SectionSource source{};
  std::uint64_t size() const { return source.read ? source.size : bytes.size(); }
};

// Sections, some of which point into `owned`. Move-only: a copy would point into the original.
struct SectionList {
  SectionList() = default;
  SectionList(SectionList&&) = default;
  SectionList& operator=(SectionList&&) = default;
  std::vector<Section> sections;
  std::vector<std::vector<std::byte>> owned;
};

class CheckpointEncoder {
 public:
  CheckpointEncoder(const CheckpointHeader& header, std::span<const Section> sections);

  // The next bytes of the file, at most `bytes_max`; empty at its end. Valid until the next call.
  // Errors: those of a section's source; it is not asked again.
  Result<std::span<const std::byte>> next(std::size_t bytes_max);
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }

 private:
  void close_section();
  void begin_part();
  Status read_source(std::size_t bytes_max);

  std::vector<Section> sections_;
  std::vector<std::byte> header_, footer_;
  std::uint64_t total_bytes_ = 0;
  std::vector<std::uint64_t> digests_;  // of the sections that are done
  StreamDigest digest_;                 // of the one under way
  std::span<const std::byte> rest_;     // of the part under way
  std::uint64_t source_at_ = 0;         // of the section under way, if it has a source
  std::vector<std::byte> read_;         // from there
  std::size_t part_ = 0;  // 0: header, then two per section (bytes, gap), then the footer
};

class CheckpointFile {
 public:
  static Result<CheckpointFile> open(SectionSource source);
  static Result<CheckpointFile> open(const std::filesystem::path& path);

  const CheckpointHeader& header() const noexcept { return header_; }
  const std::filesystem::path& path() const noexcept { return path_; }  // empty: from memory
  // Nothing if there is no such section.
  std::optional<std::uint64_t> section_bytes(std::string_view name) const;
  // Where in the file it begins, for those who read it in pieces.
  std::optional<std::uint64_t> section_offset(std::string_view name) const;
  // A whole section. Wrong size: kIncompatible; absent: kNotFound. The digest is checked once
  // more, so what arrived is what was verified.
  Status read(std::string_view name, std::span<std::byte> target) const;
  // The same for a section of unknown, but limited length.
  Result<std::vector<std::byte>> read(std::string_view name, std::uint64_t bytes_max) const;

 private:
  struct Entry {
    std::string name;
    std::uint64_t offset = 0, bytes = 0, digest = 0;
  };
  explicit CheckpointFile(SectionSource source) : source_(std::move(source)) {}
  Status read_header();
  Status read_entries(std::span<const std::byte> table, std::uint32_t count);
  Status read_footer(std::uint64_t header_digest);
  Status verify_section(const Entry& entry) const;
  const Entry* find(std::string_view name) const;  // null: absent

  SectionSource source_;
  std::filesystem::path path_;
  CheckpointHeader header_;
  std::vector<Entry> entries_;
  std::uint64_t header_digest_ = 0;
};

}  // namespace starling::peer
