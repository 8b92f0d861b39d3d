// Asks a status server (status_server.h), of this peer or another, for its newest report.
//
// Whoever answers is a stranger: how long it takes and how much it says are bounded, and what it
// says is JSON or an error. The texts in it are as it sent them: who shows them makes them
// printable. Blocks; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace starling::peer {

struct StatusQuestion {
  std::string host;  // a name or an address, without brackets
  std::uint16_t port = 0;
  Duration patience = std::chrono::seconds(5);  // for all of it, once the name is known
  std::size_t answer_bytes_max = std::size_t{4} << 20;
};

// What a status server answers, as JSON. kProtocol: it is no report.
Result<nlohmann::json> parse_status_report(std::string_view text);

// An empty object: there is a server, and its peer has not reported yet.
// kUnavailable: nobody listens there. kTimeout. kProtocol: that is no status server.
Result<nlohmann::json> ask_status(const StatusQuestion& question);

}  // namespace starling::peer
