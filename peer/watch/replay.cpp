#include "peer/watch/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "peer/io/human_text.h"
#include "peer/io/json_fields.h"
#include "peer/watch/replay_text.h"

namespace starling::peer {

namespace {

using nlohmann::json;

std::string joined(const std::set<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

Status check_kinds(const std::vector<std::string>& kinds) {
  for (const std::string& kind : kinds) {
    if (event_kinds().contains(kind)) continue;
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("--kind {}: there are {}", kind, joined(event_kinds())));
  }
  return ok_status();
}

// The ids that `wanted` means, as a beginning of them; an error if it can be none.
Result<std::string> id_of(const std::string& wanted, const EventHistory& history) {
  std::set<std::string> names;
  for (const LoggedPeer& peer : history.peers) {
    if (peer.name == wanted) return peer.id;
    names.insert(peer.name);
  }
  if (wanted.find_first_not_of("0123456789abcdef") == std::string::npos) return wanted;
  return Error(ErrorCode::kNotFound,
               fmt::format("--peer {}: there are {}; or name one by the first digits of its id",
                           wanted, joined(names)));
}

class Filter {
 public:
  Filter(const ReplayOptions& options, std::string id) : options_(options), id_(std::move(id)) {}

  bool passes(const LoggedEvent& event, const json& content, const LoggedPeer& teller) const {
    if (event.seconds < options_.from || event.seconds > options_.to) return false;
    const auto& kinds = options_.kinds;
    const std::string kind = text(content, "event", 40);
    if (!kinds.empty() && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) return false;
    if (options_.peer.empty() || teller.name == options_.peer) return true;
    if (id_.empty()) return false;
    return teller.id.starts_with(id_) || text(content, "peer", 16).starts_with(id_) ||
           text(content, "partner", 16).starts_with(id_);
  }

 private:
  const ReplayOptions& options_;
  const std::string id_;
};

// Lets whoever sits there say how many events come next; zero is the end.
class Stepper {
 public:
  Stepper(std::istream* in, std::ostream& out) : in_(in), out_(out) {}

  bool stepping() const noexcept { return in_ != nullptr; }
  bool next() {
    if (in_ == nullptr) return true;
    if (left_ > 1) {
      --left_;
      return true;
    }
    out_ << (asked_ ? "> " : "Enter: next, a number: so many, q: quit > ") << std::flush;
    asked_ = true;
    std::string answer;
    if (!std::getline(*in_, answer) || answer.starts_with('q')) return false;
    left_ = 1;
    std::from_chars(answer.data(), answer.data() + answer.size(), left_);
    return true;
  }

 private:
  std::istream* in_;  // null: nobody is asked
  std::ostream& out_;
  std::uint64_t left_ = 0;
  bool asked_ = false;
};

std::string line_of(const LoggedEvent& event, const json& content, const EventHistory& history) {
  std::string line = fmt::format("{:>10.2f} s  ", event.seconds);
  if (history.peers.size() > 1) line += fmt::format("{:<12} ", history.peers[event.peer].name);
  return line + event_text(content, history.peers) + "\n";
}

std::string json_of(const LoggedEvent& event, json content, const EventHistory& history) {
  content["time"] = event.seconds;
  content["teller"] = history.peers[event.peer].name;
  // Nothing but ASCII: a terminal cannot be driven.
  return content.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

void tell_skipped(const EventHistory& history, std::ostream& notes) {
  if (history.skipped() == 0) return;
  std::string line =
      fmt::format("{} lines were skipped: {} damaged", history.skipped(), history.broken);
  for (const auto& [kind, lines] : history.unknown) {
    line += fmt::format(", {} of kind \"{}\", which is not known here", lines, kind);
  }
  notes << printable(line) << '\n';
}

}  // namespace

Status run_replay(const ReplayOptions& options, std::ostream& out, std::ostream& notes) {
  if (Status kinds = check_kinds(options.kinds); !kinds.ok()) return kinds;
  if (options.from > options.to) {
    return Error(ErrorCode::kInvalidConfig,
                 fmt::format("--from {} comes after --to {}: nothing is between them", options.from,
                             options.to));
  }
  auto history = read_history(options.run, event_kinds());
  if (!history.ok()) return std::move(history).error();
  return tell_history(history.value(), options, out, notes);
}

Status tell_history(const EventHistory& history, const ReplayOptions& options, std::ostream& out,
                    std::ostream& notes) {
  auto id =
      options.peer.empty() ? Result<std::string>(std::string()) : id_of(options.peer, history);
  if (!id.ok()) return std::move(id).error();
  tell_skipped(history, notes);
  const Filter filter(options, std::move(id).value());
  Stepper stepper(options.steps, out);
  std::vector<ReplayState> states(history.peers.size());
  bool any = false;
  for (const LoggedEvent& event : history.events) {
    json content = parse_shallow(event.line);
    ReplayState& state = states[event.peer];
    state.take(content);
    const LoggedPeer& teller = history.peers[event.peer];
    if (!filter.passes(event, content, teller)) continue;
    any = true;
    if (!stepper.next()) break;
    out << (options.json ? json_of(event, std::move(content), history)
                         : printable(line_of(event, content, history)));
    if (stepper.stepping()) {
      out << fmt::format("{:>14}{}\n", "", state.text(teller, event.seconds)) << std::flush;
    }
  }
  if (!any && !history.events.empty()) {
    notes << fmt::format("none of {} is such a one, from 0 to {:.0f} s\n",
                         counted(history.events.size(), "event"), history.events.back().seconds);
  }
  return ok_status();
}

}  // namespace starling::peer
