#include "peer/status/status_routes.h"

#include <doctest/doctest.h>

#include <string>

namespace starling::peer {

namespace {

constexpr Instant kStart{};

StatusBoard board_with(nlohmann::json report) {
  StatusBoard board(kStart);
  board.put(kStart, std::move(report));
  return board;
}

StatusAnswer get(std::string_view target, std::string_view host = "127.0.0.1:7780") {
  return answer({.method = "GET", .target = target, .host = host}, board_with({{"step", 7}}),
                kStart);
}

}  // namespace

TEST_CASE("the newest report is told as JSON and as metrics") {
  CHECK(get("/status").body == "{\"step\":7}\n");
  CHECK(get("/status").type == "application/json");
  CHECK(get("/metrics").body.find("starling_steps_total 7\n") != std::string::npos);
  CHECK(get("/metrics").type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(get("/status?x=1").code == 200);
}

TEST_CASE("the page comes with its policy, and the events with leave to follow") {
  CHECK(get("/").type == "text/html; charset=utf-8");
  CHECK(get("/").policy.starts_with("default-src 'none'"));
  CHECK(get("/events").follow);
  CHECK(get("/events", "evil.example").code == 403);
  CHECK(!get("/events", "evil.example").follow);
}

TEST_CASE("bytes that are no text come out as JSON all the same") {
  const auto told = answer({.method = "GET", .target = "/status", .host = ""},
                           board_with({{"peer", "\xff\xfe"}}), kStart);
  CHECK(nlohmann::json::accept(told.body));
}

TEST_CASE("a peer is healthy as long as its reports come") {
  const StatusBoard board = board_with({});
  const StatusRequest request{.method = "GET", .target = "/healthz", .host = "localhost"};
  CHECK(answer(request, board, kStart + kHealthyFor).code == 200);
  const auto late = answer(request, board, kStart + kHealthyFor + std::chrono::seconds(5));
  CHECK(late.code == 503);
  CHECK(late.body == "no news of this peer for 20 s\n");
}

TEST_CASE("of all alarms only that of a trainer that stands still makes a peer ill") {
  const StatusRequest request{.method = "GET", .target = "/healthz", .host = "localhost"};
  const auto told = [&request](nlohmann::json alarms) {
    return answer(request, board_with({{"alarms", std::move(alarms)}}), kStart);
  };
  const nlohmann::json disk{{"kind", "disk"}, {"text", "full"}};
  const nlohmann::json stalled{{"kind", "stalled"}, {"text", "Training stands still."}};
  CHECK(told(nlohmann::json::array({disk})).code == 200);
  CHECK(told("none").code == 200);
  CHECK(told(nlohmann::json::array({disk, stalled})).code == 503);
  CHECK(told(nlohmann::json::array({disk, stalled})).body == "Training stands still.\n");
}

TEST_CASE("what is not there, not allowed or not understood has an error that says so") {
  CHECK(get("/nothing").code == 404);
  CHECK(get("").code == 404);
  CHECK(get("/../etc/passwd").code == 404);
  CHECK(get("/nothing").body.find("/metrics") != std::string::npos);
  const StatusBoard board(kStart);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "BREW"}) {
    CHECK(answer({.method = method, .target = "/status", .host = ""}, board, kStart).code == 405);
  }
  const StatusRequest body{.method = "GET", .target = "/status", .host = "", .has_body = true};
  CHECK(answer(body, board, kStart).code == 413);
  CHECK(answer({.method = "HEAD", .target = "/status", .host = ""}, board, kStart).code == 200);
}

TEST_CASE("a server on this machine answers to names of this machine only") {
  for (const std::string_view host :
       {"127.0.0.1", "127.0.0.1:7780", "127.1.2.3", "localhost:80", "[::1]:7780", "[::1]", ""}) {
    CAPTURE(std::string(host));
    CHECK(get("/status", host).code == 200);
  }
  for (const std::string_view host :
       {"evil.example", "evil.example:7780", "localhost.evil.example", "127.0.0.1.evil.example",
        "127.evil", "[::1", "[::1].evil.example", "10.0.0.1", "::1", "127.0.0.1:80@evil.example"}) {
    CAPTURE(std::string(host));
    CHECK(get("/status", host).code == 403);
  }
  const StatusRequest elsewhere{
      .method = "GET", .target = "/status", .host = "box.example", .this_machine = false};
  CHECK(answer(elsewhere, StatusBoard(kStart), kStart).code == 200);
}

}  // namespace starling::peer
