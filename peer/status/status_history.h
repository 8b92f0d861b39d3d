// StatusHistory: how the figures of a run came about, from its start until now, for curves.
//
// One point per report at first. When there are kPointsMax, every two become one, and from then on
// twice as many reports make a point: so the curve always covers the whole of this process's life
// in kPointsMax / 2 to kPointsMax points. What fluctuates is averaged over the reports of a point,
// what counts is taken from the last. Thread: one owner.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace starling::peer {

class StatusHistory {
 public:
  static constexpr std::size_t kPointsMax = 512;

  void add(const nlohmann::json& report);
  // {"columns": [names], "points": [[values], ...]}; null where nothing was known.
  nlohmann::json to_json() const;
  std::size_t size() const noexcept { return points_.size(); }

 private:
  static constexpr std::size_t kColumns = 10;
  using Point = std::array<double, kColumns>;  // not a number: unknown
  static Point joined(const Point& earlier, double weight, const Point& later);

  std::vector<Point> points_;
  std::size_t reports_per_point_ = 1;
  std::size_t in_last_ = 0;  // reports that the last point holds
};

}  // namespace starling::peer
