// What the measurements of starling bench say: as text for people, and as one JSON object with
// every figure and what tells one measurement from another. Units are in the names of the fields.
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "peer/bench/bench_exchange.h"
#include "peer/bench/bench_rates.h"
#include "peer/bench/bench_step.h"

namespace starling::peer {

nlohmann::json machine_json(const MachineSpeed& machine);
std::string machine_text(const MachineSpeed& machine);

nlohmann::json step_json(const StepBench& bench);
std::string step_text(const StepBench& bench);

nlohmann::json rates_json(const RateBench& bench);
std::string rates_text(const RateBench& bench);

nlohmann::json exchange_json(const ExchangeBench& bench);
std::string exchange_text(const ExchangeBench& bench);

// Of the machine alone.
nlohmann::json limits_json(const MachineSpeed& machine);
std::string limits_text(const MachineSpeed& machine);

}  // namespace starling::peer
