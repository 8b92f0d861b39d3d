// MetricsFiles: where the figures of a step go: a line of metrics.jsonl and, if wanted, an event
// file that TensorBoard opens (event_file.h), a new one for every life of the peer. The disk role
// writes both; a failure there costs figures and nothing else.
//
// Thread: one owner.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "peer/files/disk.h"
#include "peer/files/run_folder.h"
#include "peer/io/wall_time.h"

namespace starling::peer {

class MetricsFiles {
 public:
  // `disk` must outlive this. With `tensorboard`, its folder must exist (RunFolder).
  MetricsFiles(Disk& disk, const RunFolder& folder, bool tensorboard);

  void write(const nlohmann::json& line, WallTime now);

 private:
  Disk& disk_;
  const std::filesystem::path lines_;
  const std::filesystem::path events_;  // empty: not wanted
  bool begun_ = false;                  // events_ has its head
};

}  // namespace starling::peer
