// First values of the parameters: matrices and the embedding normal with deviation 0.02, the
// projections back into the residual stream (o_proj, down_proj) divided by sqrt(2 * layers), gains
// 1 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, section 2.3).
//
// The same floats on every machine: each tensor draws from its own sequence, keyed by seed and
// name, so neither the number of fragments nor the order of the arena changes a value.
#pragma once

#include <cstdint>
#include <span>

#include "model/param_layout.h"

namespace starling::model {

// `params` is the whole arena: layout.elements() values.
void initialise(const ParamLayout& layout, std::uint64_t seed, std::span<float> params);

}  // namespace starling::model
