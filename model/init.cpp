#include "model/init.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/hash.h"
#include "base/rng.h"

namespace starling::model {

namespace {

constexpr float kDeviation = 0.02F;

bool writes_residual(std::string_view name) {
  return name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
}

}  // namespace

void initialise(const ParamLayout& layout, std::uint64_t seed, std::span<float> params) {
  STARLING_ASSERT(params.size() == layout.elements());
  const Rng root(seed);
  const float residual_deviation =
      kDeviation / std::sqrt(static_cast<float>(2 * layout.config().layers));
  for (const ParamSlot& slot : layout.slots()) {
    const std::span<float> values = params.subspan(slot.range.first, slot.range.count);
    if (slot.shape.rank == 1) {
      std::fill(values.begin(), values.end(), 1.0F);
      continue;
    }
    const float deviation = writes_residual(slot.name) ? residual_deviation : kDeviation;
    Rng rng = root.fork(digest(std::string_view(slot.name)));
    for (float& value : values) value = deviation * rng.normal();
  }
}

}  // namespace starling::model
