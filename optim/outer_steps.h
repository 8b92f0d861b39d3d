// What several outer methods do with whole vectors. Spans of one size. Thread: any.
#pragma once

#include <span>

#include "optim/outer_exchange.h"
#include "optim/outer_math.h"

namespace starling::optim {

// target = fast - slow.
void write_displacement(const ExchangeState& state, std::span<float> target);
// The parcel is that, or a copy of `values`; its weight is 1.
void offer_displacement(const ExchangeState& state, Parcel& parcel);
void offer_vector(std::span<const float> values, Parcel& parcel);

// fast = slow.
void restart_from_slow(ExchangeState& state);

// target = kept * target + (1 - kept) * source.
void mix(std::span<float> target, float kept, std::span<const float> source);

// nesterov_element over vectors.
void nesterov_step(const NesterovScalars& scalars, std::span<float> slow, std::span<float> momentum,
                   std::span<const float> displacement);

}  // namespace starling::optim
