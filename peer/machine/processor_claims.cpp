#include "peer/machine/processor_claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

namespace starling::peer {

namespace fs = std::filesystem;

namespace {

constexpr int kClaiming = 1 << 30;  // the place of whoever is about to claim: no processor's

}  // namespace

ProcessorClaims::ProcessorClaims(const fs::path& file) {
  auto opened = FileHandle::open(file, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (!opened.ok()) return;
  struct stat status {};
  const int descriptor = opened.value().get();
  if (::fstat(descriptor, &status) != 0 || status.st_uid != ::geteuid()) return;
  file_ = std::move(opened).value();
}

fs::path ProcessorClaims::usual_file() {
  std::error_code failure;
  const fs::path folder = fs::temp_directory_path(failure);
  return folder / fmt::format("starling-processors-{}", ::geteuid());
}

std::vector<int> ProcessorClaims::claim(std::span<const int> processors) {
  constexpr std::chrono::milliseconds kEvery(1);
  for (auto left = kPatience / kEvery; left > 0 && !lock(kClaiming, F_WRLCK); --left) {
    std::this_thread::sleep_for(kEvery);
  }
  std::vector<int> taken;
  for (const int processor : processors) {
    if (!lock(processor, F_WRLCK)) taken.push_back(processor);
  }
  return taken;
}

void ProcessorClaims::give_back(std::span<const int> processors) {
  for (const int processor : processors) lock(processor, F_UNLCK);
  lock(kClaiming, F_UNLCK);
}

// False only where another holds it.
bool ProcessorClaims::lock(int place, short kind) const {
  if (!file_.valid()) return true;
  struct flock range {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  range.l_start = place;
  range.l_len = 1;
  return ::fcntl(file_.get(), F_OFD_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES);
}

}  // namespace starling::peer
