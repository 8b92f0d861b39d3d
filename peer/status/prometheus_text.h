// prometheus_text: a status report (roles/network_status.cpp) in Prometheus' text format, version
// 0.0.4.
//
// What a report lacks is left out; what it has and the table does not name is not told. Names,
// units and types are Prometheus' conventions, which `promtool check metrics` checks in a test.
// Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace starling::peer {

std::string prometheus_text(const nlohmann::json& report);

}  // namespace starling::peer
