#include "peer/checkpoint_image.h"

namespace starling::peer {

CheckpointImage::CheckpointImage(std::size_t elements, bool with_outer)
    : weights(elements),
      first_moment(elements),
      second_moment(elements),
      slow(with_outer ? elements : 0),
      momentum(with_outer ? elements : 0) {}

std::size_t CheckpointImage::bytes() const noexcept {
  return (weights.size() + first_moment.size() + second_moment.size() + slow.size() +
          momentum.size()) *
         sizeof(float);
}

}  // namespace starling::peer
