// The few POSIX steps that everything on disk is made of: a descriptor that closes itself, whole
// reads, a read-only mapping, and a small file replaced so that a crash leaves the old or the new
// one, never a mixture. Blocking: start-up, tools and the disk thread only, never the trainer.
//
// Errors carry the path, what was tried and the system's reason. A full disk is kExhausted, an
// absent file kNotFound, everything else kIo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace starling::peer {

// "cannot write /a/b: No space left on device".
Error io_error(std::string_view action, const std::filesystem::path& path, int error_number);

class FileHandle {
 public:
  FileHandle() noexcept = default;
  explicit FileHandle(int descriptor) noexcept : descriptor_(descriptor) {}
  FileHandle(FileHandle&& other) noexcept;
  FileHandle& operator=(FileHandle&& other) noexcept;
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  ~FileHandle();

  // `flags` as open(2) takes them; O_CLOEXEC is added.
  static Result<FileHandle> open(const std::filesystem::path& path, int flags,
                                 unsigned mode = 0644);

  int get() const noexcept { return descriptor_; }
  bool valid() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;  // -1: none
};

// The file at `path`, made if there is none, and nobody else's until it is closed. kUnavailable:
// somebody else has it.
Result<FileHandle> lock_file(const std::filesystem::path& path);

Result<std::uint64_t> file_size(const FileHandle& file, const std::filesystem::path& path);

// All of `target` from `offset`; an end of file before that is kCorrupt.
Status read_at(const FileHandle& file, const std::filesystem::path& path, std::uint64_t offset,
               std::span<std::byte> target);
Status write_at(const FileHandle& file, const std::filesystem::path& path, std::uint64_t offset,
                std::span<const std::byte> source);
// All of `source` at the end of what was written so far.
Status write_all(const FileHandle& file, const std::filesystem::path& path,
                 std::span<const std::byte> source);

// A whole small file; more than `bytes_max` is an error.
Result<std::string> read_text(const std::filesystem::path& path, std::size_t bytes_max);

// Whether a name may become that of a file or a folder: letters, digits, '.', '_' and '-', nothing
// that a file system or a shell would take as its own.
bool is_plain_name(std::string_view name);
// That no two of them are one file. What does not exist is nobody's concern here.
Status check_named_once(std::span<const std::filesystem::path> files);

// Whether anything has this name: an error where the system does not tell, as below a folder that
// may not be read.
Result<bool> path_exists(const std::filesystem::path& path);
// For outputs that never take anybody's place. `choice`: what else to name, as "another folder".
Status check_absent(const std::filesystem::path& path, std::string_view choice);

// Removes the folder of this name, which others make and fill, and all in it when it goes.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  const std::filesystem::path path_;
};

// Replaces `path` by `text`: written beside it, made durable, renamed, folder made durable.
// `mode` is exact from the first byte on.
Status replace_file(const std::filesystem::path& path, std::string_view text, unsigned mode = 0644);
Status create_folder(const std::filesystem::path& folder);
// Makes the names in a folder durable, where the file system can: without it a crash can undo a
// rename.
Status sync_folder(const std::filesystem::path& folder);
// What fsync says of a folder where the file system can only make files durable.
bool refuses_folders(int error_number);

// A whole file, read-only, mapped. If the disk fails, or the file is cut short by somebody while
// it is mapped, the system ends the process (SIGBUS): map only what nobody rewrites in place.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  void unmap() noexcept;
  std::span<const std::byte> bytes_;
};

// From now on a process that ends so says on standard error what to do about it. Once, at start.
void explain_lost_mappings() noexcept;

}  // namespace starling::peer
