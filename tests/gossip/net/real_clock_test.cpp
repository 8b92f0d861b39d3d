#include "gossip/net/real_clock.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace starling::gossip {
namespace {

// In the child of a process whose boot is told to be an hour earlier than it was, as after a sleep
// of the machine: how much later it is there. Negative: such a process cannot be had.
int minutes_slept() {
  const Instant before = steady_now();
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWTIME) != 0) _exit(255);
    {
      std::ofstream offsets("/proc/self/timens_offsets");
      offsets << "boottime 3600 0" << std::flush;
      if (!offsets) _exit(255);
    }
    const pid_t inner = fork();
    if (inner == 0) {
      const auto later = std::chrono::duration_cast<std::chrono::minutes>(steady_now() - before);
      _exit(static_cast<int>(later.count()));
    }
    int status = 0;
    if (inner < 0 || waitpid(inner, &status, 0) != inner || !WIFEXITED(status)) _exit(255);
    _exit(WEXITSTATUS(status));
  }
  int status = 0;
  if (outer < 0 || waitpid(outer, &status, 0) != outer || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("the clock of drivers counts the time that the machine sleeps") {
  const int slept = minutes_slept();
  if (slept < 0) {
    MESSAGE("skipped: no time namespaces here");
    return;
  }
  CHECK(slept >= 60);
  CHECK(slept < 70);
}

}  // namespace starling::gossip
