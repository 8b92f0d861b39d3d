#include "peer/status/status_lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace starling::peer {

namespace {

constexpr int kLastWaits = 20, kWaitMilliseconds = 100;

}  // namespace

void StatusLines::tell(std::string_view line) {
  newest_ = std::string(line) + '\n';
  write_some(0);
}

void StatusLines::finish() {
  for (int i = 0; i < kLastWaits && !(under_way_.empty() && newest_.empty()); ++i) {
    write_some(kWaitMilliseconds);
  }
}

// The descriptor may be shared with other programs, so it is not for us to make it non-blocking. A
// pipe that can be written to has room for PIPE_BUF bytes (POSIX, write).
void StatusLines::write_some(int milliseconds) {
  while (true) {
    if (under_way_.empty()) under_way_.swap(newest_);
    if (under_way_.empty()) return;
    pollfd room{descriptor_, POLLOUT, 0};
    if (::poll(&room, 1, milliseconds) != 1 || (room.revents & POLLOUT) == 0) return;
    const std::size_t bytes = std::min<std::size_t>(under_way_.size() - written_, PIPE_BUF);
    const ssize_t wrote = ::write(descriptor_, under_way_.data() + written_, bytes);
    if (wrote <= 0) return;
    written_ += static_cast<std::size_t>(wrote);
    if (written_ < under_way_.size()) continue;
    under_way_.clear();
    written_ = 0;
  }
}

}  // namespace starling::peer
