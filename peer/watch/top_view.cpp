#include "peer/watch/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "peer/io/human_text.h"
#include "peer/io/json_fields.h"

namespace starling::peer {

namespace {

using nlohmann::json;

constexpr std::size_t kWide = 110;  // columns with room for whole ids and addresses
constexpr std::size_t kShortId = 12;

std::size_t size_of(const json& list) { return list.is_array() ? list.size() : 0; }

// --- values as text ---

std::string count_text(std::optional<double> value) { return value ? human_count(*value) : "-"; }

std::string whole_text(std::optional<double> value) {
  return value ? fmt::format("{:.0f}", *value) : "-";
}

std::string bytes_text(std::optional<double> value) { return value ? human_bytes(*value) : "-"; }

// Zero until it is measured.
std::string measured(std::optional<double> value, fmt::string_view format) {
  return value && *value != 0 ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string duration_text(std::optional<double> seconds) {
  if (!seconds || *seconds < 0) return "-";
  if (*seconds < 1) return fmt::format("{:.0f} ms", *seconds * 1000);
  if (*seconds < 100) return fmt::format("{:.0f} s", *seconds);
  if (*seconds < 100 * 60) return fmt::format("{:.0f} min", *seconds / 60);
  return fmt::format("{:.0f} h", *seconds / 3600);
}

std::string ago_text(std::optional<double> seconds) {
  if (!seconds || *seconds < 0) return "-";
  return *seconds < 1 ? "0 s" : duration_text(seconds);
}

std::optional<double> share(std::optional<double> part, std::optional<double> whole) {
  if (!part || !whole || !(*whole > 0)) return std::nullopt;
  return 100 * *part / *whole;
}

std::optional<double> per_second(const json& report, const json& before, const char* key) {
  const auto now = number(report, key);
  const auto seconds = number(report, "seconds");
  if (!now || !seconds) return std::nullopt;
  const auto now_before = number(before, key);
  const auto seconds_before = number(before, "seconds");
  // Less than before: the peer has been started again.
  const bool comparable =
      now_before && seconds_before && *seconds > *seconds_before && *now >= *now_before;
  if (comparable) return (*now - *now_before) / (*seconds - *seconds_before);
  if (!(*seconds > 0)) return std::nullopt;
  return *now / *seconds;
}

std::string rate_text(const json& report, const json& before, const char* key, const char* limit) {
  const auto rate = per_second(report, before, key);
  const auto allowed = number(report, limit);
  std::string line = rate ? human_bytes(*rate) + "/s" : "-";
  if (allowed && *allowed > 0) line += fmt::format(" of {}/s", human_bytes(*allowed));
  return line + fmt::format(" ({})", bytes_text(number(report, key)));
}

// --- the parts of the screen ---

// A peer that exchanges nothing by its settings has no list of others at all.
bool trains_alone(const json& report) { return !report.contains("peers"); }

std::vector<std::string> head_lines(const json& report, const json& before) {
  std::vector<std::string> lines;
  const auto done = share(number(report, "tokens"), number(report, "tokens_budget"));
  lines.push_back(fmt::format(
      "{} of {}: {}, step {}, {} of {} tok, {}", text(report, "peer", 24), text(report, "run", 24),
      text(report, "phase", 10), whole_text(number(report, "step")),
      done ? fmt::format("{:.0f}%", std::floor(*done)) : "-",
      count_text(number(report, "tokens_budget")), text(report, "device", 32)));
  lines.push_back(fmt::format(
      "{} tok/s  loss {}  validation {}  disagreement {}  held {}",
      count_text(number(report, "tokens_per_second")), measured(number(report, "loss"), "{:.4f}"),
      measured(number(report, "validation_loss"), "{:.4f}"),
      measured(number(report, "disagreement"), "{:.2e}"),
      measured(share(number(report, "held_seconds"), number(report, "train_seconds")), "{:.2f}%")));
  if (trains_alone(report)) {
    lines.emplace_back("trains alone (outer.method = \"local\")");
    return lines;
  }
  const auto unread = share(number(report, "parts_never"), number(report, "parts"));
  lines.push_back(fmt::format(
      "swarm: loss {}  {} tokens  {} of data  worth {} equal peers  drift {}",
      measured(number(report, "swarm_loss"), "{:.4f}"), count_text(number(report, "swarm_tokens")),
      unread ? fmt::format("{:.0f}%", std::floor(100 - *unread)) : "-",
      measured(number(report, "equal_peers"), "{:.1f}"),
      measured(number(report, "drift"), "{:.1f}")));
  lines.push_back(fmt::format("{}out {}  in {}", before.empty() ? "mean " : "",
                              rate_text(report, before, "bytes_out", "upload_limit"),
                              rate_text(report, before, "bytes_in", "download_limit")));
  lines.push_back(fmt::format(
      "exchanges {}, {} declined, {} failed, last {} ago  partners {} of {}  muted {}",
      count_text(number(report, "exchanges")), count_text(number(report, "exchanges_declined")),
      count_text(number(report, "exchanges_failed")),
      ago_text(number(report, "last_exchange_seconds_ago")), count_text(number(report, "partners")),
      count_text(number(report, "peers_total")), count_text(number(report, "peers_muted"))));
  return lines;
}

void add_alarms(const json& report, std::vector<std::string>& lines) {
  constexpr std::size_t kAlarmsMax = 8;
  const json& alarms = field(report, "alarms");
  for (std::size_t i = 0; i < std::min(size_of(alarms), kAlarmsMax); ++i) {
    lines.push_back(
        fmt::format("! {}: {}", text(alarms[i], "kind", 12), text(alarms[i], "text", 240)));
  }
}

std::string state_of(const json& peer) {
  if (is_set(peer, "muted")) return "muted";
  const std::string health = text(peer, "health", 8);
  if (health != "alive") return health;
  if (is_set(peer, "rests")) return "rests";
  if (is_set(peer, "doubtful")) return "doubtful";
  if (is_set(peer, "far_off")) return "far off";
  return is_set(peer, "relayed") ? "by relay" : health;
}

constexpr std::string_view kPeerRow = "{} {:<8} {:>7} {:>5} {:>6} {:>6} {:>6} {:>5} {:>8} {:>8}";

// What the allow-list of the peer that reports calls it, or its id.
std::string name_of(const json& peer, std::size_t columns) {
  const std::string name = text(peer, "name", columns);
  return name == "-" ? text(peer, "id", columns) : name;
}

std::string peer_name(const json& peer, bool wide) {
  if (!wide) return fmt::format("{:<12}", name_of(peer, kShortId));
  return fmt::format("{:<16} {:<24}", name_of(peer, 16), text(peer, "address", 24));
}

std::string peers_heading(bool wide) {
  const json names{{"id", "peer"}, {"address", "address"}};
  return fmt::format(fmt::runtime(kPeerRow), peer_name(names, wide), "state", "tok/s", "loss",
                     "trip", "last", "done", "fail", "out", "in");
}

std::string peer_row(const json& peer, bool wide) {
  return fmt::format(
      fmt::runtime(kPeerRow), peer_name(peer, wide), state_of(peer),
      count_text(number(peer, "tokens_per_second")), measured(number(peer, "loss"), "{:.3f}"),
      duration_text(number(peer, "round_trip_seconds")),
      ago_text(number(peer, "last_exchange_seconds_ago")), count_text(number(peer, "exchanges")),
      count_text(number(peer, "exchanges_failed")), bytes_text(number(peer, "bytes_out")),
      bytes_text(number(peer, "bytes_in")));
}

std::string partner_name(const json& exchange, const json& peers, std::size_t columns) {
  for (std::size_t i = 0; i < size_of(peers); ++i) {
    if (field(peers[i], "id") == field(exchange, "partner")) return name_of(peers[i], columns);
  }
  return text(exchange, "partner", columns);
}

std::string outcome_text(const json& exchange, bool wide) {
  const std::string outcome = text(exchange, "outcome", 16);
  const double clip_factor = number(exchange, "clip_factor").value_or(1);
  if (clip_factor >= 1) return outcome;
  if (wide) return fmt::format("{}, clipped to {:.2g}", outcome, clip_factor);
  return outcome == "completed" ? fmt::format("clip {:.2f}", clip_factor) : outcome;
}

std::string exchange_row(const json& exchange, const json& peers, bool wide) {
  const std::size_t columns = wide ? 16 : kShortId;
  return fmt::format(
      "{:>7} ago  {:<{}}  fragment {:<5} {:>5} stripes  {:<10}  {}",
      ago_text(number(exchange, "seconds_ago")), partner_name(exchange, peers, columns), columns,
      whole_text(number(exchange, "fragment")), whole_text(number(exchange, "stripes")),
      is_set(exchange, "initiated") ? "offered" : "accepted", outcome_text(exchange, wide));
}

// The first rows of a list, and how many are left out.
template <class Row>
void add_rows(const json& list, std::size_t rows_max, Row row, std::vector<std::string>& lines) {
  const std::size_t all = size_of(list);
  // The line that tells of the rest takes the place of a row.
  const std::size_t shown = all <= rows_max ? all : rows_max - std::min<std::size_t>(rows_max, 1);
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(row(list[i]));
  if (shown < all && rows_max > 0) lines.push_back(fmt::format("... and {} more", all - shown));
}

std::string joined(const std::vector<std::string>& lines, std::size_t columns) {
  std::string screen;
  for (const std::string& line : lines) screen += line.substr(0, columns) + '\n';
  return screen;
}

}  // namespace

std::string top_screen(const json& report, const json& before, TopSize size) {
  if (report.empty()) return "no report yet: the peer has just been started\n";
  const bool wide = size.columns >= kWide;
  const json& peers = field(report, "peers");
  const json& recent = field(report, "recent");
  std::vector<std::string> lines = head_lines(report, before);
  add_alarms(report, lines);
  if (trains_alone(report)) return joined(lines, size.columns);
  const std::size_t headings = lines.size() + 4;
  std::size_t rows = size_of(peers) + size_of(recent);
  if (size.rows > 0) rows = std::min(rows, size.rows - std::min(size.rows, headings));
  // Peers come first, but leave a third to the exchanges if there are so many.
  const std::size_t for_peers =
      std::min(size_of(peers), rows - std::min(size_of(recent), rows / 3));
  lines.emplace_back();
  lines.push_back(peers_heading(wide));
  add_rows(
      peers, for_peers, [wide](const json& peer) { return peer_row(peer, wide); }, lines);
  lines.emplace_back();
  lines.emplace_back("exchanges that ended last");
  add_rows(
      recent, rows - for_peers,
      [&peers, wide](const json& exchange) { return exchange_row(exchange, peers, wide); }, lines);
  return joined(lines, size.columns);
}

}  // namespace starling::peer
