#include <fcntl.h>
#include <unistd.h>

#include "base/heap.h"
#include "peer/commands/cli.h"

namespace {

// Whoever starts this may have closed them: the next file that is opened, a checkpoint, would be
// one, and messages would go into it.
void open_standard_streams() {
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) opened = ::open("/dev/null", O_RDWR);
  if (opened >= 0) ::close(opened);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  starling::keep_freed_memory();
  return starling::peer::run_cli(argc, argv);
}
