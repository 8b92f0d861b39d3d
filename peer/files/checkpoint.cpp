#include "peer/files/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/assert.h"
#include "model/tokenizers/unicode.h"
#include "peer/io/byte_codec.h"
#include "peer/io/file_io.h"

namespace starling::peer {

namespace {

constexpr std::string_view kMagic = "STRLCKP1";
constexpr std::string_view kEndMagic = "STRLEND1";
constexpr std::size_t kAlignment = 64;  // so that a mapped section can be read as floats
constexpr std::size_t kTableOffset = 256;
constexpr std::size_t kEntryBytes = kSectionNameMax + 16;
constexpr std::size_t kReadBytes = std::size_t{4} << 20;
constexpr std::array<std::byte, kAlignment> kZeros{};
static_assert(kTableOffset + kSectionsMax * kEntryBytes + 8 <= kCheckpointHeaderBytes);
static_assert(kSectionsMax * 8 + 32 <= kCheckpointFooterBytes);

constexpr std::uint64_t gap_after(std::uint64_t bytes) {
  return (kAlignment - bytes % kAlignment) % kAlignment;
}

Error corrupt(std::string message) { return Error(ErrorCode::kCorrupt, std::move(message)); }

void check_sections(std::span<const Section> sections) {
  STARLING_ASSERT(sections.size() <= kSectionsMax);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    STARLING_ASSERT(!sections[i].name.empty());
    STARLING_ASSERT(sections[i].name.size() <= kSectionNameMax);
    for (std::size_t j = 0; j < i; ++j) STARLING_ASSERT(sections[i].name != sections[j].name);
  }
}

}  // namespace

CheckpointEncoder::CheckpointEncoder(const CheckpointHeader& header,
                                     std::span<const Section> sections)
    : sections_(sections.begin(), sections.end()) {
  check_sections(sections);
  total_bytes_ = kCheckpointHeaderBytes + kCheckpointFooterBytes;
  for (const Section& section : sections_) {
    total_bytes_ += section.size() + gap_after(section.size());
  }
  ByteWriter writer;
  writer.put_text(kMagic, kMagic.size());
  writer.put(kCheckpointVersion);
  writer.put(static_cast<std::uint32_t>(sections_.size()));
  for (const std::uint64_t field :
       {total_bytes_, header.sequence, header.step, header.tokens, header.peer, header.incarnation,
        header.digests.run, header.digests.model, header.digests.layout}) {
    writer.put(field);
  }
  const std::size_t fits = std::min(header.title.size(), kCheckpointTitleMax);
  writer.put_text(header.title.substr(0, model::character_start(header.title, fits)),
                  kCheckpointTitleMax);
  STARLING_ASSERT(writer.bytes().size() <= kTableOffset);
  writer.fill_to(kTableOffset);
  std::uint64_t offset = kCheckpointHeaderBytes;
  for (const Section& section : sections_) {
    writer.put_text(section.name, kSectionNameMax);
    writer.put(offset);
    writer.put(section.size());
    offset += section.size() + gap_after(section.size());
  }
  writer.fill_to(kCheckpointHeaderBytes - sizeof(std::uint64_t));
  writer.put(digest(writer.bytes()));
  header_ = std::move(writer).take();
  rest_ = header_;
}

Result<std::span<const std::byte>> CheckpointEncoder::next(std::size_t bytes_max) {
  STARLING_ASSERT(bytes_max > 0);
  const std::size_t footer_part = 1 + 2 * sections_.size();
  while (rest_.empty()) {
    if (Status read = read_source(bytes_max); !read.ok()) return std::move(read).error();
    if (!rest_.empty() || part_ == footer_part) break;
    begin_part();
  }
  const auto piece = rest_.first(std::min(bytes_max, rest_.size()));
  rest_ = rest_.subspan(piece.size());
  if (part_ > 0 && part_ < footer_part) digest_.update(piece);
  return piece;
}

void CheckpointEncoder::begin_part() {
  ++part_;
  if (part_ % 2 == 1 && part_ > 1) close_section();
  if (part_ == 1 + 2 * sections_.size()) {
    ByteWriter writer;
    for (const std::uint64_t section_digest : digests_) writer.put(section_digest);
    writer.fill_to(kCheckpointFooterBytes - 32);
    writer.append(std::span(header_).last(sizeof(std::uint64_t)));
    writer.put(total_bytes_);
    writer.put(digest(writer.bytes()));
    writer.put_text(kEndMagic, kEndMagic.size());
    footer_ = std::move(writer).take();
    rest_ = footer_;
    return;
  }
  const Section& section = sections_[(part_ - 1) / 2];
  const bool gap = part_ % 2 == 0;
  rest_ = gap ? std::span(kZeros).first(gap_after(section.size())) : section.bytes;
  source_at_ = 0;
}

// The next bytes of the section under way; none, if it has no source or its source is at its end.
Status CheckpointEncoder::read_source(std::size_t bytes_max) {
  if (part_ % 2 == 0 || part_ > 2 * sections_.size()) return ok_status();
  const SectionSource& source = sections_[(part_ - 1) / 2].source;
  if (!source.read || source_at_ == source.size) return ok_status();
  read_.resize(std::min<std::uint64_t>(bytes_max, source.size - source_at_));
  Status read = source.read(source_at_, read_);
  source_at_ += read_.size();
  if (read.ok()) rest_ = read_;
  return read;
}

void CheckpointEncoder::close_section() {
  digests_.push_back(digest_.value());
  digest_ = StreamDigest();
}

Result<CheckpointFile> CheckpointFile::open(const std::filesystem::path& path) {
  auto file = FileHandle::open(path, O_RDONLY);
  if (!file.ok()) return std::move(file).error();
  // What is verified is what the disk holds, not what the page cache still remembers of a write.
  ::posix_fadvise(file.value().get(), 0, 0, POSIX_FADV_DONTNEED);
  auto size = file_size(file.value(), path);
  if (!size.ok()) return std::move(size).error();
  // std::function must be copyable, so the descriptor is opened anew for each read of a section
  // later on; all of the verification goes through this one.
  const FileHandle& opened = file.value();
  auto verified = open(SectionSource{
      size.value(), [&opened, &path](std::uint64_t offset, std::span<std::byte> target) {
        return read_at(opened, path, offset, target);
      }});
  if (!verified.ok()) return verified;
  verified.value().path_ = path;
  verified.value().source_.read = [path](std::uint64_t offset,
                                         std::span<std::byte> target) -> Status {
    auto again = FileHandle::open(path, O_RDONLY);
    if (!again.ok()) return std::move(again).error();
    return read_at(again.value(), path, offset, target);
  };
  return verified;
}

Result<CheckpointFile> CheckpointFile::open(SectionSource source) {
  CheckpointFile file(std::move(source));
  auto header = file.read_header();
  if (!header.ok()) return std::move(header).error();
  auto footer = file.read_footer(file.header_digest_);
  if (!footer.ok()) return std::move(footer).error();
  for (const Entry& entry : file.entries_) {
    auto verified = file.verify_section(entry);
    if (!verified.ok()) return std::move(verified).error();
  }
  return file;
}

Status CheckpointFile::read_header() {
  if (source_.size < kCheckpointHeaderBytes + kCheckpointFooterBytes) {
    return corrupt(fmt::format("{} bytes are too few for a checkpoint", source_.size));
  }
  std::array<std::byte, kCheckpointHeaderBytes> bytes;
  auto read = source_.read(0, bytes);
  if (!read.ok()) return read;
  ByteReader reader(bytes);
  if (reader.text(kMagic.size()) != kMagic) return corrupt("this is not a checkpoint");
  const auto version = reader.get<std::uint32_t>();
  if (version != kCheckpointVersion) {
    // Not damage, though nothing behind it can be checked: another program may read it.
    return Error(
        ErrorCode::kIncompatible,
        fmt::format("it is a checkpoint of version {}, and this program reads {}: take the "
                    "program that wrote it",
                    version, kCheckpointVersion));
  }
  const auto digested = std::span(bytes).first(kCheckpointHeaderBytes - sizeof(header_digest_));
  std::memcpy(&header_digest_, bytes.data() + digested.size(), sizeof(header_digest_));
  if (header_digest_ != digest(digested)) return corrupt("its header is damaged");
  // From here on the header is as it was written; it is still checked, because anyone can write.
  const auto sections = reader.get<std::uint32_t>();
  const auto total = reader.get<std::uint64_t>();
  if (total != source_.size) {
    return corrupt(fmt::format("it has {} bytes of {}", source_.size, total));
  }
  for (std::uint64_t* field :
       {&header_.sequence, &header_.step, &header_.tokens, &header_.peer, &header_.incarnation,
        &header_.digests.run, &header_.digests.model, &header_.digests.layout}) {
    *field = reader.get<std::uint64_t>();
  }
  header_.title = reader.text(kCheckpointTitleMax);
  return read_entries(std::span(bytes).subspan(kTableOffset), sections);
}

Status CheckpointFile::read_entries(std::span<const std::byte> table, std::uint32_t count) {
  if (count > kSectionsMax) return corrupt(fmt::format("it says it has {} sections", count));
  ByteReader reader(table);
  std::uint64_t offset = kCheckpointHeaderBytes;
  const std::uint64_t end = source_.size - kCheckpointFooterBytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    Entry entry;
    entry.name = reader.text(kSectionNameMax);
    entry.offset = reader.get<std::uint64_t>();
    entry.bytes = reader.get<std::uint64_t>();
    if (entry.name.empty() || find(entry.name) != nullptr) {
      return corrupt(fmt::format("section {} has no name of its own", i));
    }
    // offset <= end holds throughout, so nothing here can overflow.
    if (entry.offset != offset || entry.bytes > end - offset ||
        gap_after(entry.bytes) > end - offset - entry.bytes) {
      return corrupt(fmt::format("section '{}' does not fit the file", entry.name));
    }
    offset += entry.bytes + gap_after(entry.bytes);
    entries_.push_back(std::move(entry));
  }
  if (offset != end) return corrupt("its sections do not fill the file");
  return ok_status();
}

Status CheckpointFile::read_footer(std::uint64_t header_digest) {
  std::array<std::byte, kCheckpointFooterBytes> bytes;
  auto read = source_.read(source_.size - bytes.size(), bytes);
  if (!read.ok()) return read;
  ByteReader reader{std::span(bytes).last(32)};
  const auto stated_header_digest = reader.get<std::uint64_t>();
  const auto stated_total = reader.get<std::uint64_t>();
  const auto stated_digest = reader.get<std::uint64_t>();
  if (reader.text(kEndMagic.size()) != kEndMagic) return corrupt("its end is missing");
  if (stated_digest != digest(std::span(bytes).first(bytes.size() - 16))) {
    return corrupt("its end is damaged");
  }
  if (stated_header_digest != header_digest || stated_total != source_.size) {
    return corrupt("its end belongs to another checkpoint");
  }
  ByteReader digests{bytes};
  for (Entry& entry : entries_) entry.digest = digests.get<std::uint64_t>();
  return ok_status();
}

Status CheckpointFile::verify_section(const Entry& entry) const {
  StreamDigest actual;
  std::uint64_t offset = entry.offset;
  std::uint64_t rest = entry.bytes + gap_after(entry.bytes);
  std::vector<std::byte> piece(std::min<std::uint64_t>(rest, kReadBytes));
  while (rest > 0) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(rest, piece.size()));
    auto read = source_.read(offset, part);
    if (!read.ok()) return read;
    actual.update(part);
    offset += part.size();
    rest -= part.size();
  }
  if (actual.value() != entry.digest) {
    return corrupt(fmt::format("section '{}' is damaged", entry.name));
  }
  return ok_status();
}

const CheckpointFile::Entry* CheckpointFile::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [name](const Entry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> CheckpointFile::section_bytes(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) return std::nullopt;
  return entry->bytes;
}

std::optional<std::uint64_t> CheckpointFile::section_offset(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry == nullptr) return std::nullopt;
  return entry->offset;
}

Status CheckpointFile::read(std::string_view name, std::span<std::byte> target) const {
  const Entry* entry = find(name);
  if (entry == nullptr) {
    return Error(ErrorCode::kNotFound,
                 fmt::format("checkpoint {} has no section '{}'", path_.string(), name));
  }
  if (entry->bytes != target.size()) {
    return Error(ErrorCode::kIncompatible,
                 fmt::format("section '{}' of checkpoint {} has {} bytes where {} are needed", name,
                             path_.string(), entry->bytes, target.size()));
  }
  auto read = source_.read(entry->offset, target);
  if (!read.ok()) return read;
  StreamDigest actual;
  actual.update(target);
  actual.update(std::span(kZeros).first(gap_after(entry->bytes)));
  if (actual.value() != entry->digest) {
    return corrupt(fmt::format("section '{}' of checkpoint {} changed since it was verified", name,
                               path_.string()));
  }
  return ok_status();
}

Result<std::vector<std::byte>> CheckpointFile::read(std::string_view name,
                                                    std::uint64_t bytes_max) const {
  const std::uint64_t bytes = section_bytes(name).value_or(0);
  if (bytes > bytes_max) {
    return corrupt(fmt::format("section '{}' has {} bytes, more than the {} that make sense", name,
                               bytes, bytes_max));
  }
  std::vector<std::byte> result(bytes);
  auto status = read(name, std::span(result));
  if (!status.ok()) return std::move(status).error();
  return result;
}

}  // namespace starling::peer
