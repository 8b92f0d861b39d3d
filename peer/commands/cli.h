// The command line of `starling`: reads it, calls the command, prints its outcome. Results go to
// standard output, errors to standard error in one line. One thread, once per process.
#pragma once

namespace starling::peer {

// The exit code: 0 done, 1 the command failed, 2 the command line made no sense.
int run_cli(int argc, char** argv);

}  // namespace starling::peer
