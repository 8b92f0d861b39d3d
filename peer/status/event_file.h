// Event files, which TensorBoard reads: figures of a run over its steps.
//
// A file is a row of records (TFRecord, tensorflow/core/lib/io/record_writer.h):
//
//   u64 length | u32 masked CRC-32C of those 8 bytes | the event | u32 masked CRC-32C of the event
//
// little-endian. An event is a protocol buffer (tensorflow/core/util/event.proto): wall_time = 1
// (double), step = 2 (int64), file_version = 3 ("brain.Event:2", of the first), summary = 5 with
// value = 1 (tag = 1, simple_value = 2), session_log = 7 (status = 1). A session that starts at a
// step makes TensorBoard forget what earlier files of the folder have from there on: a peer that
// goes on from a checkpoint trains some steps again.
//
// Pure functions of a line of metrics.jsonl; event_file.cpp has the one list of what is shown under
// which tag. Any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace starling::peer {

// Castagnoli's CRC, and how records carry it.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

std::string event_record(std::string_view event);

struct EventTime {
  double unix_seconds = 0;
  std::uint64_t step = 0;
};

// What a file begins with, whose first figures are of that step.
std::string event_file_head(EventTime first);
// The figures of a line, of the step that it names.
std::string event_of_metrics(const nlohmann::json& line, double unix_seconds);

}  // namespace starling::peer
