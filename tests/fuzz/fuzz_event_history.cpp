// Feeds logs of up to four peers to `starling replay`: NUL bytes divide the input into events and
// metrics of the first, of the second, and so on. Whatever they hold, nothing but printable lines
// may reach the terminal, and with --json each of them is JSON.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "peer/watch/event_history.h"
#include "peer/watch/replay.h"
#include "peer/watch/replay_text.h"

namespace {

using namespace starling::peer;

constexpr std::size_t kPeersMax = 4;

void check_printable(std::string_view text) {
  STARLING_ASSERT(std::all_of(text.begin(), text.end(),
                              [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
}

void check_json(std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t length = lines.find('\n');
    STARLING_ASSERT(length != std::string_view::npos);
    STARLING_ASSERT(nlohmann::json::accept(lines.substr(0, length)));
    lines.remove_prefix(length + 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::istringstream, 2 * kPeersMax> files;
  std::vector<PeerLogs> logs;
  for (std::size_t i = 0; i < files.size() && !rest.empty(); ++i) {
    const std::size_t length = std::min(rest.find('\0'), rest.size());
    files[i].str(std::string(rest.substr(0, length)));
    rest.remove_prefix(std::min(length + 1, rest.size()));
    if (i % 2 == 0) logs.push_back({"peer" + std::to_string(i / 2), files[i], files[i + 1]});
  }
  const EventHistory history = history_of(logs, event_kinds());
  const auto by_time = [](const auto& a, const auto& b) { return a.seconds < b.seconds; };
  STARLING_ASSERT(std::is_sorted(history.events.begin(), history.events.end(), by_time));
  std::istringstream enter(std::string(history.events.size(), '\n'));
  for (std::istream* const steps :
       {static_cast<std::istream*>(nullptr), static_cast<std::istream*>(&enter)}) {
    std::ostringstream out, notes;
    STARLING_ASSERT(tell_history(history, {.steps = steps}, out, notes).ok());
    check_printable(out.str() + notes.str());
  }
  std::ostringstream out, notes;
  STARLING_ASSERT(tell_history(history, {.json = true}, out, notes).ok());
  check_json(out.str());
  check_printable(out.str());
  return 0;
}
