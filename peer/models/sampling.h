// Sampling: one token from the logits of a model. Temperature scales, then top-k keeps the k
// likeliest tokens (Fan et al., "Hierarchical Neural Story Generation", ACL 2018, section 5.3),
// then top-p the fewest of these, the likeliest first, that have p of their probability (Holtzman
// et al., "The Curious Case of Neural Text Degeneration", ICLR 2020, section 3.1). Computed in
// double, ties go to the smaller token, so that a seed gives the same text on machines whose logits
// are the same. Pure function; the Rng is the caller's.
#pragma once

#include <cstdint>
#include <span>

#include "base/rng.h"

namespace starling::peer {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the likeliest token
  std::int64_t top_k = 40;   // 0: all tokens
  double top_p = 1.0;        // 1: all of them; 0 is the likeliest alone
};

// `logits` are finite and at least one.
std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, Rng& rng);

}  // namespace starling::peer
