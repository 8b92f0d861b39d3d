// HeldClock: how long the trainer was kept from computing by its boundary work.
//
// It counts the processor time the thread spent there; and if the thread gave the processor up of
// its own accord meanwhile (a lock, a full pipe, a sleep: a voluntary context switch), the whole
// time on the wall. So waiting for anything shows at once, while other processes that happen to
// want the processor do not. Linux; one thread; two system calls a reading.
#pragma once

#include <sys/resource.h>

#include <ctime>

#include "base/time.h"
#include "peer/io/clock.h"

namespace starling::peer {

class HeldClock {
 public:
  HeldClock() : wall_(now()), used_(processor_seconds()), waits_(waits()) {}

  // Seconds held since construction.
  double held() const {
    return waits() != waits_ ? seconds_since(wall_) : processor_seconds() - used_;
  }

 private:
  static double processor_seconds() {
    std::timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  static long waits() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  }

  Instant wall_;
  double used_;
  long waits_;
};

}  // namespace starling::peer
