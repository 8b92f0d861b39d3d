// BusyProcessors: how much of some processors others than this process have used since it was made,
// other machines of the same host included. A measurement beside which much else runs says too
// little of the machine. Reads files of the kernel; one thread.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace starling::peer {

// The seconds that these processors were not idle since the machine began, of a text like that of
// /proc/stat, which counts in ticks; empty: it does not have all of them.
std::optional<double> busy_seconds(std::string_view text, std::span<const int> processors,
                                   double ticks_per_second);

class BusyProcessors {
 public:
  explicit BusyProcessors(std::vector<int> processors);

  // In processors, on average; empty: not known.
  std::optional<double> used_by_others() const;

 private:
  std::optional<double> others() const;  // seconds, so far

  std::vector<int> processors_;
  Instant begin_;
  std::optional<double> others_before_;
};

}  // namespace starling::peer
