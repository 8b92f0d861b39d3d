#include "peer/files/checkpoint_image.h"

#include <algorithm>
#include <array>

#include "optim/vector_math.h"

namespace starling::peer {

CheckpointImage::CheckpointImage(std::size_t elements, bool with_outer)
    : weights(elements),
      first_moment(elements),
      second_moment(elements),
      slow(with_outer ? elements : 0),
      momentum(with_outer ? elements : 0) {}

bool is_finite(const CheckpointImage& image) {
  const std::array<std::span<const float>, 5> parts{
      image.weights, image.first_moment, image.second_moment, image.slow, image.momentum};
  return std::all_of(parts.begin(), parts.end(),
                     [](std::span<const float> part) { return optim::measure(part).finite; });
}

}  // namespace starling::peer
