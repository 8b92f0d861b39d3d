// The headers that declare these functions are not here: they may define them, or call others.
#include "tests/support/failing_disk.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>

namespace starling::testing {
namespace {

std::atomic<bool> watching{false}, struck{false};
std::atomic<int> calls_so_far{0};
int failing_call = 0;
DiskFault failing_how = DiskFault::kBroken;

// The system's own.
template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Counts a call; true: it is the one, and fails so.
bool fails(bool writes) {
  if (!watching || ++calls_so_far != failing_call) return false;
  if (failing_how == DiskFault::kShort && !writes) return false;
  struck = true;
  return true;
}

// Libraries wake their threads by writes to what is no file.
bool is_file(int descriptor) {
  struct stat found {};
  return ::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
}

// What a call that fails answers.
int refusal() {
  errno = failing_how == DiskFault::kFull       ? ENOSPC
          : failing_how == DiskFault::kReadOnly ? EROFS
                                                : EIO;
  return -1;
}

template <class Function, class... Values>
auto called(const char* name, Values... values) {
  return fails(false) ? refusal() : real<Function>(name)(values...);
}

template <class Function, class... Values>
ssize_t written(const char* name, int file, const void* data, std::size_t bytes, Values... values) {
  if (is_file(file) && fails(true)) {
    if (failing_how != DiskFault::kShort || bytes < 2) return refusal();
    bytes /= 2;
  }
  return real<Function>(name)(file, data, bytes, values...);
}

}  // namespace

FailingDisk::FailingDisk(int call, DiskFault fault) {
  failing_call = call;
  failing_how = fault;
  calls_so_far = 0;
  struck = false;
  watching = true;
}
FailingDisk::~FailingDisk() { watching = false; }
int FailingDisk::calls() const { return calls_so_far; }
bool FailingDisk::failed() const { return struck; }

}  // namespace starling::testing

using starling::testing::called;
using starling::testing::written;

extern "C" {

using Open = int(const char*, int, ...);

int open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const unsigned mode = va_arg(rest, unsigned);
  va_end(rest);
  return called<Open>("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const unsigned mode = va_arg(rest, unsigned);
  va_end(rest);
  return called<Open>("open64", path, flags, mode);
}
ssize_t write(int file, const void* data, std::size_t bytes) {
  return written<ssize_t(int, const void*, std::size_t)>("write", file, data, bytes);
}
ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t offset) {
  return written<ssize_t(int, const void*, std::size_t, off_t)>("pwrite", file, data, bytes,
                                                                offset);
}
ssize_t pwrite64(int file, const void* data, std::size_t bytes, off64_t offset) {
  return written<ssize_t(int, const void*, std::size_t, off64_t)>("pwrite64", file, data, bytes,
                                                                  offset);
}
int fallocate(int file, int mode, off_t offset, off_t bytes) {
  return called<int(int, int, off_t, off_t)>("fallocate", file, mode, offset, bytes);
}
int fallocate64(int file, int mode, off64_t offset, off64_t bytes) {
  return called<int(int, int, off64_t, off64_t)>("fallocate64", file, mode, offset, bytes);
}
int fsync(int file) { return called<int(int)>("fsync", file); }
int fdatasync(int file) { return called<int(int)>("fdatasync", file); }
int rename(const char* from, const char* to) noexcept {
  return called<int(const char*, const char*)>("rename", from, to);
}

}  // extern "C"
