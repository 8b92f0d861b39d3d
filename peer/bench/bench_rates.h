// Paths that go over many values and are judged by the bytes they move: how fast they are, and what
// share of this machine's copies that is. Pure functions but for the measuring itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "peer/bench/bench_machine.h"
#include "peer/bench/bench_step.h"
#include "peer/io/clock.h"

namespace starling::peer {

struct Rate {
  std::string name;
  double values = 0;  // of one pass
  double bytes = 0;   // read and written by it, each array once
  Spread seconds;     // of the passes

  double values_per_second() const { return values / seconds.median; }
  double bytes_per_second() const { return bytes / seconds.median; }
};

struct RateBench {
  std::string bench;   // "codec"
  std::string device;  // "cpu, 2 threads"
  std::uint64_t parameters = 0;
  std::vector<Rate> rates;
  MachineSpeed machine;
};

struct RateBenchOptions {
  std::uint64_t parameters = std::uint64_t{1} << 24;  // of the model
  std::uint32_t threads = 0;                          // 0: as many as a trainer takes
  double seconds = 0.5;                               // of each path
  std::size_t copy_bytes = 0;                         // as MachineProbe has it
};

// kInvalidConfig for a number of parameters that is none or does not fit.
Status validate(const RateBenchOptions& options);

// Passes over `seconds`, three at least, after one to warm up.
template <class Pass>
Spread time_passes(double seconds, const Pass& pass) {
  constexpr std::size_t kPassesMin = 3;
  pass();
  std::vector<double> passes;
  const Instant begin = now();
  while (passes.size() < kPassesMin || seconds_since(begin) < seconds) {
    const Instant start = now();
    pass();
    passes.push_back(seconds_since(start));
  }
  return spread_of(std::move(passes));
}

}  // namespace starling::peer
