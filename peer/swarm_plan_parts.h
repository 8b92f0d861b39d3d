// What a plan of a swarm (swarm_plan.h) is put together from, of which some parts know nothing of
// the others. Pure; any thread.
#pragma once

#include "peer/swarm_plan.h"
#include "peer/virtual_network.h"

namespace starling::peer {

// The line that it may take; what has no limit is one that nobody fills.
VirtualLine planned_line(const PlanMachine& machine);

// How long the machines would stand still in synchronous rounds, and what each would have of a step
// of `sequences` for each machine; the rest of the plan is made.
void plan_synchronous(SwarmPlan& plan, std::int64_t sequences);

}  // namespace starling::peer
