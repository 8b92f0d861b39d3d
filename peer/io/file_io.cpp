#include "peer/io/file_io.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
#include <system_error>
#include <utility>

namespace starling::peer {

Error io_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  ErrorCode code = ErrorCode::kIo;
  if (error_number == ENOENT) code = ErrorCode::kNotFound;
  // EFBIG is the file size limit of the process or file system: to us a full disk like another.
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG) {
    code = ErrorCode::kExhausted;
  }
  return Error(code, fmt::format("cannot {} {}: {}", action, path.string(),
                                 std::generic_category().message(error_number)));
}

FileHandle::FileHandle(FileHandle&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileHandle& FileHandle::operator=(FileHandle&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

FileHandle::~FileHandle() {
  if (valid()) ::close(descriptor_);
}

Result<FileHandle> FileHandle::open(const std::filesystem::path& path, int flags, unsigned mode) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (descriptor < 0) return io_error("open", path, errno);
  return FileHandle(descriptor);
}

Result<FileHandle> lock_file(const std::filesystem::path& path) {
  auto file = FileHandle::open(path, O_RDWR | O_CREAT);
  if (!file.ok()) return file;
  if (::flock(file.value().get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return io_error("lock", path, errno);
  return Error(ErrorCode::kUnavailable, path.string() + " is locked by another process");
}

Result<std::uint64_t> file_size(const FileHandle& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return io_error("look at", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return Error(ErrorCode::kIo, fmt::format("{} is not a regular file", path.string()));
  }
  return static_cast<std::uint64_t>(status.st_size);
}

Status read_at(const FileHandle& file, const std::filesystem::path& path, std::uint64_t offset,
               std::span<std::byte> target) {
  while (!target.empty()) {
    const ssize_t count =
        ::pread(file.get(), target.data(), target.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("read", path, errno);
    if (count == 0) {
      return Error(ErrorCode::kCorrupt, fmt::format("{} ends too early", path.string()));
    }
    offset += static_cast<std::uint64_t>(count);
    target = target.subspan(static_cast<std::size_t>(count));
  }
  return ok_status();
}

Status write_at(const FileHandle& file, const std::filesystem::path& path, std::uint64_t offset,
                std::span<const std::byte> source) {
  while (!source.empty()) {
    const ssize_t count =
        ::pwrite(file.get(), source.data(), source.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("write", path, errno);
    offset += static_cast<std::uint64_t>(count);
    source = source.subspan(static_cast<std::size_t>(count));
  }
  return ok_status();
}

Status write_all(const FileHandle& file, const std::filesystem::path& path,
                 std::span<const std::byte> source) {
  while (!source.empty()) {
    const ssize_t count = ::write(file.get(), source.data(), source.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error("write", path, errno);
    source = source.subspan(static_cast<std::size_t>(count));
  }
  return ok_status();
}

Result<std::string> read_text(const std::filesystem::path& path, std::size_t bytes_max) {
  auto file = FileHandle::open(path, O_RDONLY);
  if (!file.ok()) return std::move(file).error();
  auto size = file_size(file.value(), path);
  if (!size.ok()) return std::move(size).error();
  if (size.value() > bytes_max) {
    return Error(ErrorCode::kCorrupt,
                 fmt::format("{} has {} bytes, more than the {} that make sense", path.string(),
                             size.value(), bytes_max));
  }
  std::string text(size.value(), '\0');
  auto read = read_at(file.value(), path, 0, std::as_writable_bytes(std::span(text)));
  if (!read.ok()) return std::move(read).error();
  return text;
}

Result<bool> path_exists(const std::filesystem::path& path) {
  std::error_code failure;
  const bool is_there = std::filesystem::exists(path, failure);
  if (failure) return io_error("look at", path, failure.value());
  return is_there;
}

Status check_absent(const std::filesystem::path& path, std::string_view choice) {
  auto is_there = path_exists(path);
  if (!is_there.ok()) return std::move(is_there).error();
  if (!is_there.value()) return ok_status();
  return Error(ErrorCode::kInvalidConfig,
               fmt::format("{} exists already: remove it, or choose {}", path.string(), choice));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {

Status write_new(const std::filesystem::path& path, std::string_view text, unsigned mode) {
  auto file = FileHandle::open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
  if (!file.ok()) return std::move(file).error();
  auto written = write_all(file.value(), path, std::as_bytes(std::span(text)));
  if (!written.ok()) return written;
  return ::fdatasync(file.value().get()) == 0 ? ok_status() : io_error("make durable", path, errno);
}

}  // namespace

Status replace_file(const std::filesystem::path& path, std::string_view text, unsigned mode) {
  std::filesystem::path beside = path;
  beside += ".tmp";
  ::unlink(beside.c_str());  // what a crash has left may have another mode
  Status written = write_new(beside, text, mode);
  if (written.ok() && ::rename(beside.c_str(), path.c_str()) != 0) {
    written = io_error("rename to", path, errno);
  }
  if (written.ok()) return sync_folder(path.parent_path());
  ::unlink(beside.c_str());
  return written;
}

Status create_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return io_error("create folder", folder, failure.value());
  return ok_status();
}

Status sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path named = folder.empty() ? "." : folder;
  auto handle = FileHandle::open(named, O_RDONLY | O_DIRECTORY);
  if (!handle.ok()) return std::move(handle).error();
  const bool synced = ::fsync(handle.value().get()) == 0 || refuses_folders(errno);
  return synced ? ok_status() : io_error("make durable", named, errno);
}

bool refuses_folders(int error_number) {
  return error_number == EINVAL || error_number == EBADF || error_number == ENOTSUP ||
         error_number == ENOSYS;
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  auto file = FileHandle::open(path, O_RDONLY);
  if (!file.ok()) return std::move(file).error();
  auto size = file_size(file.value(), path);
  if (!size.ok()) return std::move(size).error();
  if (size.value() == 0) return MappedFile({});
  void* data = ::mmap(nullptr, size.value(), PROT_READ, MAP_SHARED, file.value().get(), 0);
  if (data == MAP_FAILED) return io_error("map", path, errno);
  return MappedFile({static_cast<const std::byte*>(data), size.value()});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() noexcept {
  if (bytes_.empty()) return;
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  bytes_ = {};
}

namespace {

void tell_of_lost_mapping(int) {
  constexpr std::string_view kText =
      "starling: a file of tokens was cut short while it was read, or its disk fails: started "
      "again, this command names it; write such files beside the old ones, never over them\n";
  // Nothing can be done about what cannot be told. Then the access is made again, and ends all.
  [[maybe_unused]] const auto told = ::write(STDERR_FILENO, kText.data(), kText.size());
}

}  // namespace

void explain_lost_mappings() noexcept {
  struct sigaction action {};
  action.sa_handler = tell_of_lost_mapping;
  action.sa_flags = SA_RESETHAND;
  ::sigaction(SIGBUS, &action, nullptr);
}

bool is_plain_name(std::string_view name) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.find_first_not_of(kLetters) == std::string_view::npos &&
         name.front() != '.' && name.front() != '-';
}

Status check_named_once(std::span<const std::filesystem::path> files) {
  std::set<std::filesystem::path> seen;
  for (const std::filesystem::path& file : files) {
    std::error_code unknown;
    const auto path = std::filesystem::canonical(file, unknown);
    if (unknown || seen.insert(path).second) continue;
    return Error(ErrorCode::kInvalidConfig, file.string() + " would count twice: name it once");
  }
  return ok_status();
}

}  // namespace starling::peer
