// `starling top`: shows, in a terminal, what the status server of one peer tells of it and of the
// swarm that it knows. On a terminal the picture is painted anew every second until q (or
// Ctrl-D) is pressed; a peer that stops answering is told so below the last one.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "base/result.h"
#include "peer/config/config.h"
#include "peer/watch/top_view.h"

namespace starling::peer {

struct TopOptions {
  std::string address = StatusSettings().listen;  // or as a peer logs it, http://127.0.0.1:7780/
  bool once = false;
  bool json = false;              // the report itself, on one line, once
  std::function<TopSize()> size;  // of the terminal now; columns 0: `out` is none
  int keys = -1;                  // the descriptor of that terminal's keys; -1: none
};

// An error if there is no report at first; later it is shown, and asked for again.
Status run_top(const TopOptions& options, std::ostream& out);

}  // namespace starling::peer
