#include "peer/status/metrics_files.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "peer/status/event_file.h"

namespace starling::peer {

MetricsFiles::MetricsFiles(Disk& disk, const RunFolder& folder, bool tensorboard)
    : disk_(disk), lines_(folder.metrics()), events_(tensorboard ? folder.event_file() : "") {}

void MetricsFiles::write(const nlohmann::json& line, WallTime now) {
  disk_.append(lines_, line.dump());
  if (events_.empty()) return;
  const auto unix_seconds = static_cast<double>(now.unix_seconds);
  std::string records;
  if (!std::exchange(begun_, true)) {
    records = event_file_head({.unix_seconds = unix_seconds, .step = line.at("step")});
  }
  disk_.append_record(events_, records + event_of_metrics(line, unix_seconds));
}

}  // namespace starling::peer
