// What the status server answers to whom: a function of the request and the board, without sockets.
//
//   /          the page (status_page.h)     /events    for it: history and reports, as they come
//   /metrics   Prometheus' text format      /status    the newest report, JSON
//   /healthz   200 while reports come and training goes on, 503 when a peer has stopped making
//              them, or its trainer stands still
//
// Only GET and HEAD; nothing here changes anything. A browser on this machine can be made to send
// requests here by any page it shows, under a name that the page's owner has made to mean 127.0.0.1
// (DNS rebinding). So a server that listens on this machine only answers requests only that name
// it by its address or as localhost; behind any other address its owner knows it by names that it
// does not. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"
#include "peer/status/status_board.h"

namespace starling::peer {

struct StatusRequest {
  std::string_view method, target;
  std::string_view host;  // as the request names it, with or without a port; empty: it does not
  bool has_body = false;
  bool this_machine = true;  // the server listens on a loopback address
};

struct StatusAnswer {
  unsigned code = 200;
  std::string_view type = "text/plain; charset=utf-8";
  std::string body{};
  std::string_view policy{};  // of a page: what a browser may do with it; empty: it is none
  bool follow = false;        // goes on with events for as long as they are taken
};

// Without a report for so long the peer does not work any more.
inline constexpr Duration kHealthyFor = std::chrono::seconds(15);

StatusAnswer answer(const StatusRequest& request, const StatusBoard& board, Instant now);

}  // namespace starling::peer
