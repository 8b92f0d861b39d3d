// PartFeed: the network role's end of what the trainer reads. Carries the trainer's reports to the
// protocol core and tells the trainer what has changed for any part since it was last told. What
// finds the ring full is told the next time. Thread: the network's.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "peer/roles/parcels.h"

namespace starling::peer {

class PartFeed {
 public:
  explicit PartFeed(Rings& rings) : rings_(rings) {}

  // `core` has part_finished(part, times), parts_held(parts) and parts(): a driver, or what stands
  // for one.
  template <class CoreSide>
  void carry(CoreSide& core) {
    while (auto report = rings_.parts_to_network.try_pop()) {
      if (const auto* finished = std::get_if<PartFinished>(&*report)) {
        core.part_finished(finished->part, finished->times);
      } else {
        const auto& held = std::get<PartsHeld>(*report).parts;
        core.parts_held(std::span(held.begin(), held.size()));
      }
    }
    tell(core.parts());
  }
  // A peer that trains alone has nobody to tell.
  void discard() {
    while (rings_.parts_to_network.try_pop()) continue;
  }

 private:
  void tell(std::span<const gossip::PartView> views) {
    told_.resize(views.size());
    for (std::size_t part = 0; part < views.size(); ++part) {
      if (told_[part] == views[part]) continue;
      PartNews news{static_cast<std::uint16_t>(part), views[part]};
      if (!rings_.parts_to_trainer.try_push(std::move(news))) return;
      told_[part] = views[part];
    }
  }

  Rings& rings_;
  std::vector<gossip::PartView> told_;
};

}  // namespace starling::peer
