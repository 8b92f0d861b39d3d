#include "peer/cli.h"

int main(int argc, char** argv) { return starling::peer::run_cli(argc, argv); }
