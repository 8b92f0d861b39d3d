#include "peer/watch/top.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "peer/config/addresses.h"
#include "peer/config/config.h"
#include "peer/io/clock.h"
#include "peer/io/human_text.h"
#include "peer/io/repainter.h"
#include "peer/io/terminal_keys.h"
#include "peer/status/status_client.h"

namespace starling::peer {

namespace {

using nlohmann::json;

constexpr auto kInterval = std::chrono::seconds(1);

Result<StatusQuestion> question_of(std::string_view address) {
  constexpr std::string_view kScheme = "http://";
  if (address.starts_with(kScheme)) address.remove_prefix(kScheme.size());
  if (address.ends_with('/')) address.remove_suffix(1);
  auto parsed = parse_status_address(address);
  if (!parsed.ok()) return std::move(parsed).error();
  return StatusQuestion{.host = std::string(gossip::host(parsed.value())),
                        .port = parsed.value().control_port};
}

std::string age_text(Instant told) {
  return fmt::format("! no answer for {:.0f} s: ", seconds_since(told));
}

// By its key; others are passed over.
bool ends_within(TerminalKeys& keys, Duration time) {
  const Instant until = now() + time;
  while (now() < until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now());
    const std::optional<char> key = keys.next_within(left);
    if (key == 'q' || key == TerminalKeys::kEnd) return true;
  }
  return false;
}

void follow(const StatusQuestion& question, const TopOptions& options, json report,
            std::ostream& out) {
  Repainter painter(out);
  TerminalKeys keys(options.keys);
  json before = json::object();
  Instant told = now();
  std::string problem;
  while (true) {
    TopSize size = options.size();
    // A row for a problem, and one below the last line, where the cursor stands.
    size.rows -= std::min<std::size_t>(size.rows, 2);
    painter.paint(top_screen(report, before, size) + problem, size.columns);
    if (ends_within(keys, kInterval)) return;
    auto next = ask_status(question);
    if (!next.ok()) {
      problem = age_text(told) + printable(next.error().message()) + "\n";
      continue;
    }
    problem.clear();
    told = now();
    before = std::exchange(report, std::move(next).value());
  }
}

}  // namespace

Status run_top(const TopOptions& options, std::ostream& out) {
  auto question = question_of(options.address);
  if (!question.ok()) return std::move(question).error();
  auto first = ask_status(question.value());
  if (!first.ok()) return std::move(first).error();
  const json& report = first.value();
  const TopSize size = options.size();
  if (!options.json && !options.once && size.columns > 0) {
    follow(question.value(), options, report, out);
    return ok_status();
  }
  if (report.empty()) {
    return Error(ErrorCode::kUnavailable,
                 options.address + ": the peer has just been started and has no report yet");
  }
  if (options.json) {
    out << report.dump(-1, ' ', true) << '\n';  // nothing but ASCII: a terminal cannot be driven
    return ok_status();
  }
  out << top_screen(report, json::object(), {.columns = size.columns > 0 ? size.columns : 80});
  return ok_status();
}

}  // namespace starling::peer
