#include "peer/swarm/open_hours.h"

#include <array>

#include "base/assert.h"

namespace starling::peer {

void OpenHours::add(std::uint32_t count, const std::optional<QuietHours>& quiet) {
  Kind kind{.count = count, .open = {}};
  for (std::size_t minute = 0; minute < kMinutes; ++minute) {
    kind.open[minute] = !quiet || !quiet->contains(static_cast<int>(minute));
  }
  kinds_.push_back(kind);
}

double OpenHours::share(std::size_t kind) const {
  return static_cast<double>(kinds_[kind].open.count()) / static_cast<double>(kMinutes);
}

std::vector<OpenHours::Met> OpenHours::met(std::span<const double> begun_per_second) const {
  STARLING_ASSERT(begun_per_second.size() == kinds_.size());
  std::array<double, kMinutes> machines{}, begun{};  // that are open; by all of them
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    for (std::size_t minute = 0; minute < kMinutes; ++minute) {
      if (!kinds_[i].open[minute]) continue;
      machines[minute] += kinds_[i].count;
      begun[minute] += kinds_[i].count * begun_per_second[i];
    }
  }
  std::vector<Met> all(kinds_.size());
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].open.none()) continue;
    const double minutes = static_cast<double>(kinds_[i].open.count());
    for (std::size_t minute = 0; minute < kMinutes; ++minute) {
      const double others = machines[minute] - 1;
      if (!kinds_[i].open[minute] || others <= 0) continue;
      all[i].begun += begun_per_second[i] / minutes;
      all[i].accepted += (begun[minute] - begun_per_second[i]) / others / minutes;
    }
  }
  return all;
}

}  // namespace starling::peer
