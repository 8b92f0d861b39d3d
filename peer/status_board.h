// StatusBoard: what the status server shows: the newest report of the peer.
//
// A report is the JSON object that network_status.cpp makes once a second; the board passes it on
// and reads no more of it than it names here. Reads no clock. Thread: one owner.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/time.h"

namespace starling::peer {

class StatusBoard {
 public:
  explicit StatusBoard(Instant now) : put_at_(now) {}

  void put(Instant now, nlohmann::json report) {
    report_ = std::move(report);
    put_at_ = now;
    ++version_;
  }

  const nlohmann::json& report() const { return report_; }  // an empty object before the first
  std::uint64_t version() const { return version_; }        // counts the reports
  Duration age(Instant now) const { return now - put_at_; }

 private:
  nlohmann::json report_ = nlohmann::json::object();
  std::uint64_t version_ = 0;
  Instant put_at_;
};

}  // namespace starling::peer
