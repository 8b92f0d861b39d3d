#include "peer/bench/operator_times.h"

#include <algorithm>

namespace starling::peer {

void OperatorTimes::add(std::string_view name, const Cost& cost, double seconds) {
  auto row = std::find_if(rows_.begin(), rows_.end(),
                          [name](const OperatorTime& known) { return known.name == name; });
  if (row == rows_.end()) row = rows_.insert(row, OperatorTime{.name = name});
  row->calls += 1;
  row->seconds += seconds;
  row->cost += cost;
}

}  // namespace starling::peer
