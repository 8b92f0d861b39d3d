// `starling replay`: prints what happened in a run, from the logs of its peers (event_history.h),
// in order of time; all at once, or one event after the other with how things stood by then.
#pragma once

#include <filesystem>
#include <istream>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "peer/watch/event_history.h"

namespace starling::peer {

struct ReplayOptions {
  std::filesystem::path run{};                                    // folder of a run, or of one peer
  double from = 0, to = std::numeric_limits<double>::infinity();  // seconds since its begin
  std::vector<std::string> kinds{};                               // empty: all
  std::string
      peer{};         // name, or the first digits of an id: what it tells or is told of; empty: all
  bool json = false;  // the events themselves, one a line, with "time" and "teller"
  std::istream* steps = nullptr;  // whoever asks for the next event; null: all at once
};

// `notes`: what was skipped, which is no part of the listing.
Status run_replay(const ReplayOptions& options, std::ostream& out, std::ostream& notes);

// The same of logs that have been read. All that goes to `out` and `notes` is printable, whatever
// they hold.
Status tell_history(const EventHistory& history, const ReplayOptions& options, std::ostream& out,
                    std::ostream& notes);

}  // namespace starling::peer
