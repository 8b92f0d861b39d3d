#include "peer/status/status_history.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace starling::peer {

namespace {

struct Column {
  const char* key;
  bool averaged;
};

constexpr Column kColumnKeys[] = {
    {"seconds", false},   {"tokens", false},          {"swarm_tokens", false},
    {"loss", true},       {"validation_loss", false}, {"tokens_per_second", true},
    {"bytes_out", false}, {"bytes_in", false},        {"disagreement", true},
    {"swarm_loss", true},
};

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double value_of(const nlohmann::json& report, std::string_view key) {
  const auto found = report.find(key);
  if (found == report.end() || !found->is_number()) return kUnknown;
  const auto value = found->get<double>();
  // Zero until it is measured.
  const bool counts = key == "seconds" || key == "tokens" || key == "swarm_tokens" ||
                      key == "bytes_out" || key == "bytes_in";
  return value == 0 && !counts ? kUnknown : value;
}

}  // namespace

// `earlier` counts `weight` times.
StatusHistory::Point StatusHistory::joined(const Point& earlier, double weight,
                                           const Point& later) {
  Point result = later;
  for (std::size_t i = 0; i < kColumns; ++i) {
    if (std::isnan(later[i])) result[i] = earlier[i];
    if (!kColumnKeys[i].averaged || std::isnan(later[i]) || std::isnan(earlier[i])) continue;
    result[i] = (earlier[i] * weight + later[i]) / (weight + 1);
  }
  return result;
}

void StatusHistory::add(const nlohmann::json& report) {
  static_assert(std::size(kColumnKeys) == kColumns);
  Point point{};
  for (std::size_t i = 0; i < kColumns; ++i) point[i] = value_of(report, kColumnKeys[i].key);
  if (!points_.empty() && in_last_ < reports_per_point_) {
    points_.back() = joined(points_.back(), static_cast<double>(in_last_), point);
    ++in_last_;
    return;
  }
  if (points_.size() == kPointsMax) {
    for (std::size_t i = 0; i < kPointsMax / 2; ++i) {
      points_[i] = joined(points_[2 * i], 1, points_[2 * i + 1]);
    }
    points_.resize(kPointsMax / 2);
    reports_per_point_ *= 2;
  }
  points_.push_back(point);
  in_last_ = 1;
}

nlohmann::json StatusHistory::to_json() const {
  nlohmann::json names = nlohmann::json::array();
  for (const Column& column : kColumnKeys) names.push_back(column.key);
  return {{"columns", std::move(names)}, {"points", points_}};  // no number is written as null
}

}  // namespace starling::peer
