// What `starling replay` says of the events of a run: each as a person would tell it, and how
// things stood by then.
//
// Pure functions of logs that may be damaged or foreign: what is missing is shown as "-", and only
// printable ASCII of a text is drawn. Memory of a ReplayState is that of the peers it has heard of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "peer/watch/event_history.h"

namespace starling::peer {

// The kinds of events that are understood.
const std::set<std::string>& event_kinds();

// An event of one of these kinds. Peers are called by the names of their folders where that is
// known.
std::string event_text(const nlohmann::json& event, std::span<const LoggedPeer> peers);

// How one peer stood, by its own events so far.
class ReplayState {
 public:
  void take(const nlohmann::json& event);
  // At this time of the run.
  std::string text(const LoggedPeer& peer, double seconds) const;

 private:
  std::set<std::string> alive_;  // others
  std::uint64_t completed_ = 0, failed_ = 0;
};

}  // namespace starling::peer
