// Peer: one node. Builds the roles from a configuration, runs each on its thread, and ends them in
// the right order. The order of the members is the order of construction; destruction is its
// reverse, so that no slot, ring or device goes before those who use it.
//
// Errors before training starts are returned, each naming what to change. Once it trains, a peer
// ends when its budget of tokens is spent, on SIGINT or SIGTERM (a last checkpoint is written), or
// when its standard input closes, if it was told to watch it and that is a pipe or socket.
#pragma once

#include <memory>

#include "base/result.h"
#include "peer/config/config.h"
#include "peer/io/clock.h"

namespace starling::peer {

struct PeerOptions {
  bool status_json = false;  // a line of PeerStatus a second on standard output, and end with stdin
  Date date = wall_now;      // by which quiet hours and the bytes of a day go; any thread
};

Status run_peer(const PeerConfig& config, const PeerOptions& options);

}  // namespace starling::peer
