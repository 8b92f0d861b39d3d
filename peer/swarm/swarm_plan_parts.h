// What a plan of a swarm (swarm_plan.h) is put together from, of which some parts know nothing of
// the others. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "model/param_layout.h"
#include "optim/fragment_codec.h"
#include "peer/simulate/virtual_network.h"
#include "peer/states/stripe_table.h"
#include "peer/swarm/swarm_plan.h"

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

// What such a machine, whose configuration this is, takes of its memory, as many sequences at a
// time as fit: of the host's, and of a GPU's where it has one.
struct PlannedMemory {
  std::int64_t micro_batch = 0;
  std::size_t host_bytes = 0, gpu_bytes = 0;
  std::vector<std::string> misfits{};  // what would have to change; none: it fits
};
PlannedMemory planned_memory(PeerConfig config, const PlanMachine& machine,
                             const model::ParamLayout& layout, const StripeTable& stripes);

// How long the machines would stand still in synchronous rounds, and what each would have of a step
// of `sequences` for each machine; the rest of the plan is made.
void plan_synchronous(SwarmPlan& plan, std::int64_t sequences);

}  // namespace starling::peer
