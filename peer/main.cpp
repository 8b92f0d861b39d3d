#include "base/heap.h"
#include "peer/commands/cli.h"

int main(int argc, char** argv) {
  starling::keep_freed_memory();
  return starling::peer::run_cli(argc, argv);
}
