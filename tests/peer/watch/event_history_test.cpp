#include "peer/watch/event_history.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

namespace starling::peer {

namespace {

const std::set<std::string> kKinds = {"started", "told"};

std::string started(double date, const std::string& id) {
  return R"({"event":"started","seconds":0.5,"started":)" + std::to_string(date) + R"(,"peer":")" +
         id + "\"}\n";
}
std::string told(double seconds) {
  return R"({"event":"told","seconds":)" + std::to_string(seconds) + "}\n";
}
std::string loss(double seconds, double value, const std::string& date = "") {
  return R"({"seconds":)" + std::to_string(seconds) + R"(,"step":7,"loss":)" +
         std::to_string(value) + (date.empty() ? "" : ",\"started\":" + date) + "}\n";
}

EventHistory history(const std::vector<std::string>& events,
                     const std::vector<std::string>& metrics = {}) {
  std::vector<std::istringstream> files;
  for (std::size_t i = 0; i < events.size(); ++i) {
    files.emplace_back(events[i]);
    files.emplace_back(i < metrics.size() ? metrics[i] : "");
  }
  std::vector<PeerLogs> logs;
  for (std::size_t i = 0; i < events.size(); ++i) {
    logs.push_back({"peer-" + std::to_string(i), files[2 * i], files[2 * i + 1]});
  }
  return history_of(logs, kKinds);
}

std::vector<double> times(const EventHistory& history) {
  std::vector<double> seconds;
  for (const LoggedEvent& event : history.events) seconds.push_back(event.seconds);
  return seconds;
}

std::vector<std::size_t> tellers(const EventHistory& history) {
  std::vector<std::size_t> peers;
  for (const LoggedEvent& event : history.events) peers.push_back(event.peer);
  return peers;
}

}  // namespace

TEST_CASE("logs of several peers and lives fall into place by the dates of their starts") {
  const EventHistory all = history({started(1000, "a") + told(2) + started(1010, "a") + told(1),
                                    started(1001.5, "b") + told(2.25)},
                                   {loss(3, 5.5, "1000") + loss(0.5, 4.5, "1010"), loss(1, 6)});
  CHECK(times(all) == std::vector<double>{0, 1.5, 1.5, 3.25, 10, 10.5});
  CHECK(tellers(all) == std::vector<std::size_t>{0, 0, 1, 1, 0, 0});
  CHECK(all.peers[0].id == "a");
  CHECK(all.peers[1].id == "b");
  REQUIRE(all.peers[0].losses.size() == 2);
  CHECK(all.peers[0].losses[0].seconds == 2.5);  // the first event came half a second after 1000
  CHECK(all.peers[0].losses[1].seconds == 10);
  CHECK(all.peers[0].losses[1].loss == 4.5);
  CHECK(all.peers[1].losses[0].seconds == 1);  // of a version that says no date
  CHECK(all.skipped() == 0);
}

TEST_CASE("lives without a date follow each other, and a clock that was set back swaps none") {
  CHECK(times(history({told(1) + told(4) + told(0.5) + told(2)})) ==
        std::vector<double>{1, 4, 4.5, 6});
  const EventHistory back = history({started(1000, "a") + told(9) + started(500, "a") + told(1)});
  CHECK(times(back) == std::vector<double>{0, 8.5, 9, 9.5});
}

TEST_CASE("damaged lines, foreign lines and those of other kinds are counted and left out") {
  const std::string damaged = "\n{\"event\":\"told\",\"sec\n[1]\n{\"event\":\"told\"}\n" +
                              std::string("{\"event\":\"told\",\"seconds\":-1}\n") +
                              "{\"event\":\"told\",\"seconds\":\"1\"}\n" +
                              std::string(3 * kLogLineMax, '[') + "\n";
  const std::string foreign = "{\"event\":\"sung\",\"seconds\":1}\n{\"event\":7,\"seconds\":1}\n";
  // The last line is torn: no line feed.
  const EventHistory all =
      history({told(1) + damaged + foreign + foreign + told(2) + "{\"event\":\"told\",\"secon"});
  CHECK(times(all) == std::vector<double>{1, 2});
  CHECK(all.broken == 7);
  CHECK(all.unknown == std::map<std::string, std::uint64_t>{{"sung", 2}, {"-", 2}});
  CHECK(all.skipped() == 11);
  std::string many;
  for (int i = 0; i < 1000; ++i) {
    many += "{\"event\":\"k" + std::to_string(i) + "\",\"seconds\":1}\n";
  }
  const EventHistory strange = history({many});
  CHECK(strange.unknown.size() <= 17);
  CHECK(strange.skipped() == 1000);
}

TEST_CASE("a folder without logs is named") {
  auto absent = read_history("/nowhere/at/all", kKinds);
  REQUIRE(!absent.ok());
  CHECK(absent.error().message().find("/nowhere/at/all") != std::string::npos);
}

}  // namespace starling::peer
