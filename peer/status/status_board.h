// StatusBoard: what the status server shows: the newest report of the peer, and how it came there.
//
// A report is the JSON object that roles/network_status.cpp makes once a second; the board passes
// it on and reads no more of it than it names here. Reads no clock. Thread: one owner.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/time.h"
#include "peer/status/status_history.h"

namespace starling::peer {

// The alarm of a peer that only a new start can help.
inline constexpr std::string_view kStalledAlarm = "stalled";

class StatusBoard {
 public:
  explicit StatusBoard(Instant now) : put_at_(now) {}

  void put(Instant now, nlohmann::json report) {
    history_.add(report);
    report_ = std::move(report);
    put_at_ = now;
    ++version_;
  }

  const nlohmann::json& report() const { return report_; }  // an empty object before the first
  std::uint64_t version() const { return version_; }        // counts the reports
  // As server-sent events, which stand on one line each.
  std::string report_event() const { return event("report", report_); }
  std::string history_event() const { return event("history", history_.to_json()); }
  Duration age(Instant now) const { return now - put_at_; }

  // What the report says of an alarm; empty: it is not up.
  std::string alarm(std::string_view kind) const {
    const auto alarms = report_.find("alarms");
    if (alarms == report_.end() || !alarms->is_array()) return {};
    for (const nlohmann::json& alarm : *alarms) {
      if (alarm.value("kind", std::string()) == kind) return alarm.value("text", std::string());
    }
    return {};
  }

 private:
  static std::string event(const char* name, const nlohmann::json& data) {
    using nlohmann::json;
    return std::string("event: ") + name +
           "\ndata: " + data.dump(-1, ' ', false, json::error_handler_t::replace) + "\n\n";
  }

  StatusHistory history_;
  nlohmann::json report_ = nlohmann::json::object();
  std::uint64_t version_ = 0;
  Instant put_at_;
};

}  // namespace starling::peer
