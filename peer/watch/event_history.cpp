#include "peer/watch/event_history.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <list>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "peer/files/run_folder.h"
#include "peer/io/json_fields.h"

namespace starling::peer {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kUnknownKindsMax = 16;  // told by name

// Places the lines of one log, each with seconds since its process started.
class TimeLine {
 public:
  // The lines that follow are of a process that started at this date. A clock that was set back
  // does not put a life before the one that it follows.
  void begin(double unix_seconds) {
    dated_ = true;
    start_ = std::max(unix_seconds, newest_);
    last_ = 0;
  }
  double place(double seconds) {
    if (seconds < last_) start_ += last_;  // another life, of which nothing else is known
    last_ = seconds;
    newest_ = std::max(newest_, start_ + seconds);
    return newest_;
  }
  bool dated() const noexcept { return dated_; }

 private:
  bool dated_ = false;
  double start_ = 0, last_ = 0, newest_ = 0;
};

// Calls `take` with every line that is a JSON object with a time; the others are counted as broken.
template <class Take>
void read_lines(std::istream& file, std::uint64_t& broken, const Take& take) {
  std::string buffer(kLogLineMax, '\0');
  while (file.good()) {
    file.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto length = static_cast<std::size_t>(file.gcount());
    if (file.fail() && length > 0) {  // there is more of it
      file.clear(file.rdstate() & ~std::ios::failbit);
      file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
      ++broken;
      continue;
    }
    if (length == 0) return;
    const std::string_view line(buffer.data(), file.eof() ? length : length - 1);
    if (line.empty()) continue;
    const json object = parse_shallow(line);
    const auto seconds = number(object, "seconds");
    if (!seconds || !(*seconds >= 0)) {
      ++broken;
      continue;
    }
    take(object, *seconds, line);
  }
}

void read_events(EventHistory& history, std::istream& file, const std::set<std::string>& kinds) {
  const std::size_t peer = history.peers.size() - 1;
  TimeLine times;
  read_lines(file, history.broken, [&](const json& event, double seconds, std::string_view line) {
    const std::string kind = text(event, "event", 40);
    if (!kinds.contains(kind)) {
      const bool room = history.unknown.size() < kUnknownKindsMax;
      ++history.unknown[room || history.unknown.contains(kind) ? kind : "others"];
      return;
    }
    if (kind == "started") {
      if (const auto date = number(event, "started")) times.begin(*date);
      if (const std::string id = text(event, "peer", 16); id != "-") history.peers[peer].id = id;
    }
    history.events.push_back({.seconds = times.place(seconds),
                              .dated = times.dated(),
                              .peer = peer,
                              .line = std::string(line)});
  });
}

void read_losses(EventHistory& history, std::istream& file) {
  TimeLine times;
  std::optional<double> life;
  read_lines(file, history.broken, [&](const json& line, double seconds, std::string_view) {
    const auto date = number(line, "started");
    if (date && date != life) times.begin(*date);
    life = date;
    const auto loss = number(line, "loss"), step = number(line, "step");
    if (!loss || !step) return;
    history.peers.back().losses.push_back({.seconds = times.place(seconds),
                                           .dated = times.dated(),
                                           .step = *step,
                                           .loss = *loss,
                                           .validation = number(line, "validation_loss")});
  });
}

}  // namespace

std::uint64_t EventHistory::skipped() const {
  return std::accumulate(unknown.begin(), unknown.end(), broken,
                         [](std::uint64_t sum, const auto& kind) { return sum + kind.second; });
}

EventHistory history_of(std::span<PeerLogs> logs, const std::set<std::string>& kinds) {
  EventHistory history;
  for (PeerLogs& log : logs) {
    history.peers.push_back({.name = log.name});
    read_events(history, log.events, kinds);
    read_losses(history, log.metrics);
  }
  std::optional<double> origin;
  for (const LoggedEvent& event : history.events) {
    if (event.dated) origin = std::min(origin.value_or(event.seconds), event.seconds);
  }
  const auto count_from_origin = [&origin](auto& placed) {
    if (placed.dated) placed.seconds = std::max(0.0, placed.seconds - origin.value_or(0));
  };
  for (LoggedEvent& event : history.events) count_from_origin(event);
  for (LoggedPeer& peer : history.peers) {
    for (LoggedLoss& loss : peer.losses) count_from_origin(loss);
  }
  std::stable_sort(history.events.begin(), history.events.end(),
                   [](const LoggedEvent& left, const LoggedEvent& right) {
                     return left.seconds < right.seconds;
                   });
  return history;
}

Result<EventHistory> read_history(const fs::path& folder, const std::set<std::string>& kinds) {
  std::error_code failure;
  if (!fs::is_directory(folder, failure)) {
    return Error(ErrorCode::kNotFound, "there is no folder " + folder.string());
  }
  std::list<std::ifstream> files;  // where they are, they stay
  std::vector<PeerLogs> logs;
  for (const fs::path& peer : peers_in(folder)) {
    std::ifstream& events = files.emplace_back(peer / kEventsFile, std::ios::binary);
    if (!events.is_open()) continue;
    std::ifstream& metrics = files.emplace_back(peer / "metrics.jsonl", std::ios::binary);
    const fs::path name = peer.has_filename() ? peer.filename() : peer.parent_path().filename();
    logs.push_back({name.string(), events, metrics});
  }
  if (logs.empty()) {
    return Error(ErrorCode::kNotFound,
                 folder.string() + " holds no events.jsonl: name the folder of a run or of a peer");
  }
  return history_of(logs, kinds);
}

}  // namespace starling::peer
