// OpenHours: at which minutes of a day the machines of a plan exchange, and so with whom: quiet
// hours that they share cost no exchange, those of others do. Pure; any thread.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "peer/config/traffic_plan.h"

namespace starling::peer {

class OpenHours {
 public:
  // The next kind: so many machines, with these quiet hours.
  void add(std::uint32_t count, const std::optional<QuietHours>& quiet);

  double share(std::size_t kind) const;  // of the day

  // Exchanges a second of one machine, the mean over its open hours.
  struct Met {
    double begun = 0, accepted = 0;
  };
  // Of each kind, whose machines begin so many a second while they are open; a partner is any other
  // that is open, all alike.
  std::vector<Met> met(std::span<const double> begun_per_second) const;

 private:
  static constexpr std::size_t kMinutes = 24 * 60;
  struct Kind {
    std::uint32_t count;
    std::bitset<kMinutes> open;
  };
  std::vector<Kind> kinds_;
};

}  // namespace starling::peer
