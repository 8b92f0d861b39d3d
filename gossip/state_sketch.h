// Comparing donors by the sketches of their weights. A sketch is linear, so the median of several,
// value by value, stands for weights that a minority of liars cannot move far, and the distance of
// two sketches estimates that of the weights (StateSketch in messages.h). Thread: plain values.
#pragma once

#include <span>

#include "gossip/messages.h"

namespace starling::gossip {

StateSketch median_of(std::span<const StateSketch> sketches);  // at least one
double distance(const StateSketch& left, const StateSketch& right);
double norm(const StateSketch& sketch);

}  // namespace starling::gossip
