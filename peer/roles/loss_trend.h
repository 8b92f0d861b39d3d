// LossTrend: whether the training loss has risen and stays there. Training that diverges need not
// end in numbers that are not finite: often the loss jumps and never comes back.
//
// Losses are averaged over kSpan steps at a time, so that the chance of single batches does not
// count. It has risen once kSpansHigh such means in a row are above the lowest of all by more than
// kRise of it and by more than kRiseMin, and no longer once one is not. Losses that are not finite
// are passed over. Nats per token. Thread: one owner.
#pragma once

#include <cstdint>
#include <optional>

namespace starling::peer {

class LossTrend {
 public:
  static constexpr std::uint32_t kSpan = 64;
  static constexpr std::uint32_t kSpansHigh = 4;
  static constexpr double kRise = 0.25;
  static constexpr double kRiseMin = 0.5;

  void add(double loss);

  struct Rise {
    double lowest = 0, now = 0;  // means over kSpan steps
  };
  std::optional<Rise> rise() const;

 private:
  double sum_ = 0;
  std::uint32_t count_ = 0;  // in sum_
  std::optional<double> lowest_;
  double last_ = 0;
  std::uint32_t high_ = 0;  // means in a row
};

}  // namespace starling::peer
