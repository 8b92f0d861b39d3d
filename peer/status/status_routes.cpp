#include "peer/status/status_routes.h"

#include <fmt/format.h>

#include <utility>

#include "peer/status/prometheus_text.h"
#include "peer/status/status_page.h"

namespace starling::peer {

namespace {

StatusAnswer refusal(unsigned code, std::string why) {
  why += '\n';
  return {.code = code, .body = std::move(why)};
}

bool is_made_of(std::string_view text, std::string_view letters) {
  return text.find_first_not_of(letters) == std::string_view::npos;
}

bool is_address_of_this_machine(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && is_made_of(host.substr(colon + 1), "0123456789");
  if (has_port) host = host.substr(0, colon);
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && is_made_of(host, "0123456789."));
}

StatusAnswer health(const StatusBoard& board, Instant now) {
  const double seconds = to_seconds(board.age(now));
  if (board.age(now) > kHealthyFor) {
    return refusal(503, fmt::format("no news of this peer for {:.0f} s", seconds));
  }
  if (std::string stalled = board.alarm(kStalledAlarm); !stalled.empty()) {
    return refusal(503, std::move(stalled));
  }
  return {.body = "ok\n"};
}

}  // namespace

StatusAnswer answer(const StatusRequest& request, const StatusBoard& board, Instant now) {
  if (request.this_machine && !request.host.empty() && !is_address_of_this_machine(request.host)) {
    return refusal(403, "this server answers to 127.0.0.1, [::1] and localhost only");
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return refusal(405, "only GET and HEAD: there is nothing here to change");
  }
  if (request.has_body) return refusal(413, "a request has no body here");
  const std::string_view path = request.target.substr(0, request.target.find('?'));
  if (path == "/") {
    const StatusPage& page = status_page();
    return {.type = "text/html; charset=utf-8", .body = page.html, .policy = page.policy};
  }
  if (path == "/events") return {.type = "text/event-stream", .body = {}, .follow = true};
  if (path == "/healthz") return health(board, now);
  if (path == "/metrics") {
    return {.type = "text/plain; version=0.0.4; charset=utf-8",
            .body = prometheus_text(board.report())};
  }
  if (path == "/status") {
    using nlohmann::json;
    return {.type = "application/json",
            .body = board.report().dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
  }
  return refusal(404, "there is /, /metrics, /status and /healthz");
}

}  // namespace starling::peer
