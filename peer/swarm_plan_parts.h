// What a plan of a swarm (swarm_plan.h) is put together from, of which some parts know nothing of
// the others. Pure; any thread.
#pragma once

#include "optim/fragment_codec.h"
#include "peer/stripe_table.h"
#include "peer/swarm_plan.h"
#include "peer/virtual_network.h"

namespace starling::peer {

// Bytes that an exchange of a fragment sends.
struct FragmentBytes {
  double push = 0, delta = 0;
};

struct ModelBytes {
  FragmentBytes all, largest;
};

ModelBytes model_bytes(const StripeTable& stripes, optim::WireFormat format);

// The line that it may take; what has no limit is one that nobody fills.
VirtualLine planned_line(const PlanMachine& machine);

// How long the machines would stand still in synchronous rounds, and what each would have of a step
// of `sequences` for each machine; the rest of the plan is made.
void plan_synchronous(SwarmPlan& plan, std::int64_t sequences);

}  // namespace starling::peer
