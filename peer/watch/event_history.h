// EventHistory: what the event logs of one or more peers of a run tell, on one time line, with the
// losses of their metrics beside it.
//
// A line of events.jsonl counts its seconds from the start of its process. The event "started"
// names the date of that, as does every line of metrics.jsonl, so lives of a peer and logs of
// several machines fall into place as well as their clocks agree. Logs of before that event are
// placed one life behind the other, from zero. The order within a log is always kept.
//
// Files may be damaged, and of another version: lines that are not understood are counted. Memory
// is that of the logs. Blocking; for the command line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace starling::peer {

inline constexpr std::size_t kLogLineMax = std::size_t{64} << 10;  // bytes; longer is damage

struct LoggedEvent {
  double seconds = 0;    // since the first of the run
  bool dated = false;    // the start of its process is known
  std::size_t peer = 0;  // whose log
  std::string line{};    // JSON, of a known kind
};

struct LoggedLoss {
  double seconds = 0;
  bool dated = false;
  double step = 0, loss = 0;
  std::optional<double> validation{};
};

struct LoggedPeer {
  std::string name{};                // of its folder
  std::string id{};                  // 16 hex digits, as others call it; empty: unknown
  std::vector<LoggedLoss> losses{};  // by time
};

struct EventHistory {
  std::vector<LoggedPeer> peers{};
  std::vector<LoggedEvent> events{};               // by time
  std::uint64_t broken = 0;                        // lines
  std::map<std::string, std::uint64_t> unknown{};  // lines, by kind; few of them

  std::uint64_t skipped() const;
};

struct PeerLogs {
  std::string name;
  std::istream& events;
  std::istream& metrics;  // may be empty
};

// `kinds`: those that are known.
EventHistory history_of(std::span<PeerLogs> logs, const std::set<std::string>& kinds);

// `folder`: that of a run, or of one peer.
Result<EventHistory> read_history(const std::filesystem::path& folder,
                                  const std::set<std::string>& kinds);

}  // namespace starling::peer
