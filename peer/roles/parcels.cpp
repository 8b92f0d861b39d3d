#include "peer/roles/parcels.h"

namespace starling::peer {

namespace {
// Orders and answers under way at once: bounded by the core's exchanges times their window.
constexpr std::uint32_t kOrdersMax = 256;
constexpr std::uint32_t kReportsMax = 4096;
constexpr std::uint32_t kPartReportsMax = 256;
constexpr std::uint32_t kPartNewsMax = 1024;
}  // namespace

// A stripe's slot is in one snapshot or one correction; an acknowledgement takes its place on the
// way back. The image travels besides.
Rings::Rings(std::uint32_t slots)
    : trainer_to_mixer(2 * slots + 2),
      mixer_to_trainer(slots),
      mixer_to_network(kOrdersMax),
      network_to_mixer(kOrdersMax),
      trainer_to_network(kReportsMax),
      parts_to_network(kPartReportsMax),
      parts_to_trainer(kPartNewsMax),
      images_to_trainer(1) {}

}  // namespace starling::peer
