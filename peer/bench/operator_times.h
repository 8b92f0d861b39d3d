// OperatorTimes: how often each operator was called, how long that took, and what it costs at the
// least. Names are literals: they outlive everything. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/device.h"
#include "peer/bench/operator_cost.h"
#include "peer/io/clock.h"

namespace starling::peer {

struct OperatorTime {
  std::string_view name;
  std::uint64_t calls = 0;
  double seconds = 0;
  Cost cost{};
};

class OperatorTimes {
 public:
  void add(std::string_view name, const Cost& cost, double seconds);
  void clear() { rows_.clear(); }
  std::span<const OperatorTime> rows() const { return rows_; }  // by first call

  // Calls and measures; what was enqueued on the device before is not counted.
  template <class Call>
  void measure(std::string_view name, const Cost& cost, Device& device, Call&& call) {
    device.drain();
    const Instant start = now();
    std::forward<Call>(call)();
    device.drain();
    add(name, cost, seconds_since(start));
  }

 private:
  std::vector<OperatorTime> rows_;
};

}  // namespace starling::peer
