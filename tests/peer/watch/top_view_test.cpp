#include "peer/watch/top_view.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace starling::peer {

namespace {

using nlohmann::json;

json peer_report() {
  return json::parse(R"({
    "peer": "peer-0", "run": "demo", "phase": "training", "device": "cpu", "step": 205,
    "tokens": 209920, "tokens_budget": 300000, "tokens_per_second": 8040, "loss": 1.90851,
    "validation_loss": 2.01, "disagreement": 0.00654, "held_seconds": 0.02, "train_seconds": 25,
    "seconds": 30, "bytes_out": 18664000, "bytes_in": 18664000, "upload_limit": 2500000,
    "download_limit": 0, "exchanges": 41, "exchanges_declined": 20, "exchanges_failed": 1,
    "last_exchange_seconds_ago": 2.4, "partners": 2, "peers_total": 3, "peers_muted": 1,
    "swarm_loss": 1.95, "swarm_tokens": 812000, "parts": 990, "parts_never": 321,
    "equal_peers": 1.64, "drift": 1.2,
    "alarms": [{"kind": "link", "text": "Quiet hours: no exchanges until they end."}],
    "peers": [
      {"id": "0123456789abcdef", "address": "127.0.0.1:7710", "health": "alive", "muted": false,
       "relayed": false, "tokens_per_second": 14800, "loss": 1.8, "round_trip_seconds": 0.0124,
       "last_exchange_seconds_ago": 2.4, "exchanges": 30, "exchanges_failed": 0,
       "bytes_out": 12000000, "bytes_in": 12000000},
      {"id": "fedcba9876543210", "address": "[::1]:7720", "health": "alive", "muted": false,
       "relayed": true, "tokens_per_second": 900, "round_trip_seconds": 1.5,
       "last_exchange_seconds_ago": 150, "exchanges": 11, "exchanges_failed": 1,
       "bytes_out": 900, "bytes_in": 0},
      {"id": "00000000000000aa", "address": "", "health": "dead", "muted": true}],
    "recent": [
      {"seconds_ago": 2.4, "partner": "0123456789abcdef", "initiated": true, "fragment": 3,
       "stripes": 16, "outcome": "completed"},
      {"seconds_ago": 0.1, "partner": "fedcba9876543210", "initiated": false, "fragment": 0,
       "stripes": 0, "outcome": "timed out"}]
  })");
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string screen(const json& report, TopSize size = {}) {
  return top_screen(report, json::object(), size);
}

}  // namespace

TEST_CASE("the screen is what a user reads") {
  CHECK(screen(peer_report()) == R"(peer-0 of demo: training, step 205, 69% of 300 k tok, cpu
8.04 k tok/s  loss 1.9085  validation 2.0100  disagreement 6.54e-03  held 0.08%
swarm: loss 1.9500  812 k tokens  67% of data  worth 1.6 equal peers  drift 1.2
mean out 608 KiB/s of 2.38 MiB/s (17.8 MiB)  in 608 KiB/s (17.8 MiB)
exchanges 41, 20 declined, 1 failed, last 2 s ago  partners 2 of 3  muted 1
! link: Quiet hours: no exchanges until they end.

peer         state      tok/s  loss   trip   last   done  fail      out       in
0123456789ab alive     14.8 k 1.800  12 ms    2 s     30     0 11.4 MiB 11.4 MiB
fedcba987654 by relay     900     -    2 s  2 min     11     1    900 B      0 B
000000000000 muted          -     -      -      -      -     -        -        -

exchanges that ended last
    2 s ago  0123456789ab  fragment 3        16 stripes  offered     completed
    0 s ago  fedcba987654  fragment 0         0 stripes  accepted    timed out
)");
}

TEST_CASE("a peer that the allow-list names is called so, wherever it is shown") {
  json report = peer_report();
  report["peers"][0]["name"] = "attic";
  const std::string shown = screen(report);
  CHECK(shown.find("\nattic        alive") != std::string::npos);
  CHECK(shown.find("ago  attic         fragment 3") != std::string::npos);
  CHECK(shown.find("0123456789ab") == std::string::npos);
  CHECK(shown.find("fedcba987654 by relay") != std::string::npos);
  CHECK(screen(report, {.columns = 120}).find("\nattic            127.0.0.1:7710 ") !=
        std::string::npos);
}

TEST_CASE("whose differences are clipped far is seen, in exchanges and of the peer") {
  json report = peer_report();
  report["peers"][0]["far_off"] = false;
  report["recent"][0]["clip_factor"] = 0.0625;
  const std::string near = screen(report);
  CHECK(near.find("0123456789ab alive") != std::string::npos);
  CHECK(near.find("fedcba987654 by relay") != std::string::npos);
  CHECK(near.find("offered     clip 0.06") != std::string::npos);
  CHECK(near.find("accepted    timed out") != std::string::npos);
  const std::string wide = screen(report, {.columns = 120});
  CHECK(wide.find("offered     completed, clipped to 0.062") != std::string::npos);
  report["peers"][0]["far_off"] = report["peers"][1]["far_off"] = true;
  const std::string far = screen(report);
  CHECK(far.find("0123456789ab far off") != std::string::npos);
  CHECK(far.find("fedcba987654 far off") != std::string::npos);
}

TEST_CASE("whom this peer avoids is seen, and for which reason") {
  json report = peer_report();
  report["peers"][0]["doubtful"] = true;
  report["peers"][1]["rests"] = true;
  report["peers"][2]["doubtful"] = true;  // it is muted besides, which says more
  const std::string shown = screen(report);
  CHECK(shown.find("0123456789ab doubtful") != std::string::npos);
  CHECK(shown.find("fedcba987654 rests") != std::string::npos);
  CHECK(shown.find("000000000000 muted") != std::string::npos);
}

TEST_CASE("what is counted per second is counted since the report before") {
  json before = peer_report();
  json now = before;
  now["seconds"] = 32;
  now["bytes_out"] = 18664000 + 2 * 1024;
  CHECK(lines_of(top_screen(now, before, {}))[3].starts_with("out 1.00 KiB/s of 2.38 MiB/s"));
  before["bytes_out"] = 19000000;  // of a former life
  CHECK(lines_of(top_screen(now, before, {}))[3].starts_with("out 570 KiB/s of"));
}

TEST_CASE("a wide terminal shows whole ids, and addresses") {
  const std::string wide = screen(peer_report(), {.columns = 120});
  CHECK(wide.find("0123456789abcdef 127.0.0.1:7710 ") != std::string::npos);
  CHECK(screen(peer_report()).find("0123456789ab alive") != std::string::npos);
}

TEST_CASE("no line is wider than the terminal, and no screen higher") {
  json report = peer_report();
  while (report["peers"].size() < 64) report["peers"].push_back(report["peers"][0]);
  while (report["recent"].size() < 32) report["recent"].push_back(report["recent"][0]);
  for (const std::size_t rows : {1, 5, 10, 11, 12, 13, 24, 60, 200}) {
    for (const std::size_t columns : {1, 40, 80, 200}) {
      CAPTURE(rows);
      CAPTURE(columns);
      const auto lines = lines_of(screen(report, {.columns = columns, .rows = rows}));
      if (rows >= 10) CHECK(lines.size() <= rows);  // the head is never left out
      for (const std::string& line : lines) CHECK(line.size() <= columns);
    }
  }
  const auto lines = lines_of(screen(report, {.rows = 24}));
  CHECK(std::count(lines.begin(), lines.end(), "... and 55 more") == 1);
  CHECK(std::count(lines.begin(), lines.end(), "... and 29 more") == 1);
  CHECK(screen(report).find("more") == std::string::npos);
}

TEST_CASE("nothing that a stranger says drives the terminal") {
  json report = peer_report();
  const std::string bad = "a\x1b[2J\r\n\x7f\xc2\x9b\xe2\x80\xae\t";
  for (const char* key : {"peer", "run", "phase", "device"}) report[key] = bad;
  report["alarms"][0] = {{"kind", bad}, {"text", bad}};
  for (const char* key : {"id", "address", "health"}) report["peers"][0][key] = bad;
  for (const char* key : {"partner", "outcome"}) report["recent"][0][key] = bad;
  for (const std::size_t columns : {80, 120}) {
    for (const char c : screen(report, {.columns = columns})) {
      CHECK((c == '\n' || (c >= ' ' && c <= '~')));
    }
  }
}

TEST_CASE("a peer that trains alone has no swarm to show") {
  json report = peer_report();
  for (const char* key : {"peers", "partners", "recent", "alarms", "swarm_loss"}) report.erase(key);
  CHECK(screen(report) == R"(peer-0 of demo: training, step 205, 69% of 300 k tok, cpu
8.04 k tok/s  loss 1.9085  validation 2.0100  disagreement 6.54e-03  held 0.08%
trains alone (outer.method = "local")
)");
}

TEST_CASE("fields of the wrong kind, or none, are shown as unknown") {
  CHECK(screen(json::object()) == "no report yet: the peer has just been started\n");
  const json values = {nullptr,
                       true,
                       "text",
                       -1,
                       1e300,
                       18446744073709551615U,
                       json::array({1, "x"}),
                       json::object(),
                       json::array({json::object()})};
  const json whole = peer_report();
  for (const auto& item : whole.items()) {
    for (const json& value : values) {
      CAPTURE(item.key());
      CAPTURE(value.dump());
      json report = whole;
      report[item.key()] = value;
      for (const std::string& line : lines_of(top_screen(report, whole, {.columns = 120}))) {
        CHECK(line.size() <= 120);
      }
      report.erase(item.key());
      CHECK(!screen(report).empty());
    }
  }
  CHECK(screen({{"phase", "training"}}).starts_with("- of -: training, step -, - of - tok, -\n"));
}

}  // namespace starling::peer
