// StallWatch: whether a trainer stands still, as where a device or a disk hangs: no pass of the
// model has ended for very many of its usual times. Looked at about once a second; time in which
// nobody looked, as while the whole process is stopped, does not count. Reads no clock. One owner.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace starling::peer {

class StallWatch {
 public:
  static constexpr int kPasses = 50;  // of the usual time
  static constexpr Duration kMin = std::chrono::minutes(10);
  static constexpr Duration kFirst = std::chrono::hours(1);   // where none is usual yet
  static constexpr Duration kLook = std::chrono::seconds(5);  // more at once was not looked at

  // `passes`: of the model, counting up; `trains`: there is something to train.
  void look(Instant now, std::uint64_t passes, bool trains);

  // For how long, if that is a stall.
  std::optional<Duration> stalled() const;
  std::optional<Duration> usual() const;  // of a pass

 private:
  std::optional<Instant> looked_;
  std::uint64_t seen_ = 0, ended_ = 0;  // passes
  Duration moving_{}, still_{};
};

}  // namespace starling::peer
